"""The command line: what it writes, says and returns."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import mercer
from mercer.cli import commands, main
from mercer.cli.main import parser
from mercer.solvers import SpectralPath
from mercer.workflow import compare, read_table, search
from mercer.workflow.search import Limit

ROWS = 120


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(0)
    with (folder / "t.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["x", "town", "price", "sold"])
        for _ in range(ROWS):
            x, town = rng.uniform(), rng.choice(["Bonn", "Rome"])
            price = np.sin(6 * x) + (town == "Rome")
            rows.writerow([f"{x:.4f}", town, f"{price:.4f}", "yes" if price > 0.8 else "no"])
    asked = ["fit", str(folder / "t.csv"), "--time", "1s", "--no-report"]
    assert main([*asked, "--target", "price", "-o", str(folder / "price.mercer")]) == 0
    assert main([*asked, "--target", "sold", "-o", str(folder / "sold.mercer")]) == 0
    return folder


def test_fit_prints_json_and_writes_model_and_report(folder, capsys):
    paths = ["-o", str(folder / "m.mercer"), "--report", str(folder / "r.html")]
    asked = ["fit", str(folder / "t.csv"), "--target", "price", "--time", "1s", "--json", *paths]
    assert main(asked) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["scores"]["mercer"]["RMSE"] < told["scores"]["constant"]["RMSE"]
    assert told["rows"] == ROWS
    assert (folder / "m.mercer").is_file()
    assert "<svg" in (folder / "r.html").read_text("utf-8")


def test_predictions_come_as_csv_with_limits_or_probabilities(folder, capsys):
    assert main(["predict", str(folder / "price.mercer"), str(folder / "t.csv")]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == ROWS
    assert all(float(r["low"]) <= float(r["price"]) <= float(r["high"]) for r in rows)
    out = str(folder / "out.csv")
    assert main(["predict", str(folder / "sold.mercer"), str(folder / "t.csv"), "-o", out]) == 0
    with open(out) as file:
        rows = list(csv.DictReader(file))
    assert all(abs(float(r["p(no)"]) + float(r["p(yes)"]) - 1) < 1e-8 for r in rows)
    assert {r["sold"] for r in rows} == {"yes", "no"}


def test_many_rows_are_predicted_in_blocks(folder, capsys, monkeypatch):
    told = []
    for rows in (ROWS, 7):
        monkeypatch.setattr(commands, "TUNING", commands.Tuning(predicted_rows=rows))
        assert main(["predict", str(folder / "sold.mercer"), str(folder / "t.csv")]) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]


def test_standard_input_is_a_table(folder, monkeypatch, capsys):
    content = (folder / "t.csv").read_bytes()

    class Input:
        buffer = io.BytesIO(content)

    monkeypatch.setattr(sys, "stdin", Input)
    assert main(["predict", str(folder / "price.mercer"), "-", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["price"]) == ROWS


def test_explain_tells_kernel_certificate_and_code(folder, capsys):
    assert main(["explain", str(folder / "price.mercer")]) == 0
    told = capsys.readouterr().out
    assert all(
        part in told for part in ("kernel", "certificate", "optimality gap", "make_pipeline")
    )


def test_compare_ranks_models_on_the_same_folds(folder, capsys):
    asked = ["compare", str(folder / "t.csv"), "--target", "price", "--time", "1s", "--folds", "2"]
    assert main([*asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    means = [model["mean"] for model in told["models"]]
    assert means == sorted(means)
    assert {"mercer.fit", "boosted trees", "linear model"} <= {m["name"] for m in told["models"]}


@pytest.mark.parametrize(
    ("asked", "code", "sentence"),
    [
        (["fit", "{}/t.csv", "--target", "rent"], 3, "no column 'rent'; it has ['x', 'town'"),
        (["fit", "{}/none.csv", "--target", "x"], 3, "there is no file"),
        (["fit", "{}/t.xls", "--target", "x"], 3, "ends in '.xls'"),
        (["fit", "{}/t.csv", "--target", "x", "-o", "{}/no/m"], 4, "there is no folder"),
        (["fit", "{}/t.csv", "--target", "x", "--rows", "10"], 3, "10 rows are too few"),
        (["fit", "{}/t.csv", "--target", "x", "--memory", "10kB"], 3, "take a part of them"),
        (
            ["compare", "{}/t.csv", "--target", "price", "--folds", "1000"],
            3,
            "folds must be between 2 and 120, the number of rows; got 1,000.",
        ),
        (
            ["compare", "{}/t.csv", "--target", "sold", "--folds", "1"],
            3,
            "that of the rows of the largest class; got 1.",
        ),
        (["predict", "{}/t.csv", "{}/t.csv"], 3, "is not a model of mercer"),
        (["predict", "{}/none.mercer", "{}/t.csv"], 3, "cannot be read"),
    ],
)
def test_refusals_are_sentences_with_exit_codes(folder, capsys, asked, code, sentence, monkeypatch):
    monkeypatch.setenv("MERCER_MEMORY", "1GB")
    before = sorted(folder.iterdir())
    assert main([part.format(folder) for part in asked]) == code
    told = capsys.readouterr().err
    assert told.startswith("mercer: ")
    assert sentence in told
    assert "Traceback" not in told
    assert sorted(folder.iterdir()) == before


def test_an_extra_that_is_missing_is_named(folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    asked = ["fit", str(folder / "t.csv"), "--target", "price", "--time", "1s", "--device", "cuda"]
    assert main([*asked, "-o", str(folder / "card.mercer")]) == 3
    assert "mercer[gpu]" in capsys.readouterr().err
    assert not (folder / "card.mercer").exists()


def test_ctrl_c_leaves_the_best_model_so_far(folder, tmp_path, capsys, monkeypatch):
    tried, out = [], tmp_path / "m.mercer"

    class Interrupted(SpectralPath):
        @classmethod
        def of(cls, *parts, **more):
            tried.append(parts)
            if len(tried) == 4:
                os.kill(os.getpid(), signal.SIGINT)
            return SpectralPath.of(*parts, **more)

    monkeypatch.setattr(search, "SpectralPath", Interrupted)
    asked = ["fit", str(folder / "t.csv"), "--target", "price", "--time", "1h", "--no-report"]
    assert main([*asked, "-o", str(out)]) == 0
    assert "the best model so far" in capsys.readouterr().err
    assert "stopped by hand" in str(mercer.load(out).certificate())


def test_ctrl_c_ends_a_comparison_with_what_is_known(folder):
    limit = Limit(1e9)
    limit.stop()
    found = compare(read_table(folder / "t.csv"), "price", limit=limit)
    assert found.names == ["mercer.fit"]
    assert np.isfinite(found.errors).all()


def test_wrong_commands_have_the_code_of_all_programs(capsys):
    with pytest.raises(SystemExit) as refusal:
        main(["fit", "t.csv"])
    assert refusal.value.code == 2
    assert "--target" in capsys.readouterr().err
    assert parser().parse_args(["fit", "t", "--target", "y", "--time", "2min"]).time == 120.0


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (["fit", "t", "--target", "y", "--seed", "-1"], "a seed is a whole number, 0 or more"),
        (["predict", "m", "t", "--level", "2"], "a level lies between 0 and 1"),
    ],
)
def test_numbers_that_make_no_sense_are_wrong_commands(capsys, asked, sentence):
    with pytest.raises(SystemExit) as refusal:
        main(asked)
    assert refusal.value.code == 2
    assert sentence in capsys.readouterr().err


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from mercer.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print([n for n in ('numpy', 'scipy', 'sklearn', 'polars', 'rich') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
