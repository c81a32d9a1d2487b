"""The command line: python -m benchmarks [SET …] [--quick] [--only GROUP [--update]] [--stored]."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from benchmarks import report

SETS = {  # modules of this folder, each with `run`; a set imports its peers when it is asked for
    "products": "K(X, Y)v, digits kept, dense and sparse matrices, memory, start-up",
    "kernels": "each kernel over the Gaussian, gradients",
    "ridge": "fit, predict, the path of λ, two parameters at once",
    "logistic": "two and ten classes, centres, the path of λ",
    "svm": "SVC and SVR against libsvm, many classes",
    "defaults": "scores of default estimators on real tables",
    "features": "random features, Fastfood, choices of centres",
    "online": "machines on streams: speed, errors, budgets",
    "learned": "kernels that learn their metric, on sixteen tables",
    "gpu": "products, ridge, other losses and learned kernels on a GPU",
    "scale": "centres, the whole matrix, rows on disk, the automatic choice",
    "workflow": "mercer.fit from a table to a model: errors, damage, kills, size",
    "statistics": "components, densities, tests, posteriors, intervals",
    "structured": "strings, trees, graphs, mixed tables",
    "cluster": "workers against one process, traffic, faults",
}
ROOT = Path(__file__).resolve().parents[1]


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Ours against each peer in one run. Sets:\n\n"
        + "\n".join(f"  {name:<12}{what}" for name, what in SETS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("sets", nargs="*", metavar="SET", help="all but gpu by default")
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, to see that all runs; not written down"
    )
    parser.add_argument(
        "--only", action="append", help="one group of a set, as often as needed; not written down"
    )
    parser.add_argument(
        "--update", action="store_true", help="with --only: replace the group's rows written down"
    )
    parser.add_argument(
        "--readme", action="store_true", help="put what is written down into README.md afterwards"
    )
    parser.add_argument(
        "--stored", action="store_true", help="run nothing: show the results last written down"
    )
    options = parser.parse_args()
    unknown = [name for name in options.sets if name not in SETS]
    if unknown:
        parser.error(f"there is no set {unknown[0]!r}; there are {list(SETS)}")
    if options.update and (options.quick or not options.only):
        parser.error("--update takes groups of full size: say --only, and leave out --quick")
    return options


def main() -> None:
    options = parsed()
    everything = [name for name in SETS if name != "gpu"]  # which needs a machine of its own
    for name in options.sets or everything:
        if options.stored:
            results = report.read(name)
        else:
            try:
                module = importlib.import_module(f"benchmarks.{name}")
            except ImportError as missing:
                raise SystemExit(f"the set {name} is not run: {missing}") from None
            results = module.run(quick=options.quick, only=options.only)
            if options.update:
                results = report.updated(name, results)
            if options.update or not (options.quick or options.only):
                report.write(name, results)
        print(report.text(results))
    if options.readme:
        report.rewrite(ROOT / "README.md", "highlights", report.highlights())


if __name__ == "__main__":
    main()
