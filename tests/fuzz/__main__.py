"""`python -m fuzz [MINUTES]`: random cases for so long, in one process or in several.

`--processes 16` deals seeds out to so many processes, each with one thread, and sums up what they
find; nothing goes on beyond MINUTES. `--first N` begins with another seed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback

from fuzz import inputs, interruptions, problems

# how many cases, and the share of the time at which the next kind begins at the latest
KINDS = ((interruptions, 200, 0.15), (problems, 10_000, 0.55), (inputs, 100_000, 1.0))
CHECKS = {"eight threads": interruptions.threads, "eight forked processes": interruptions.forks}
BUSY, IDLE = 60.0, 900.0  # seconds of processor time and of waiting, beyond which a case hangs
MARGIN = 0.95  # of the time, after which no case begins
SINGLE = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def attempted(kind, seed):
    """What is wrong with a case, an error of the case itself and its length included."""

    def end(number, frame):
        raise TimeoutError(f"more than {BUSY:g} s of work, or {IDLE:g} s of waiting")

    signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, BUSY)
    if kind is not interruptions:  # which sets the other alarm itself
        signal.signal(signal.SIGALRM, end)
        signal.setitimer(signal.ITIMER_REAL, IDLE)
    try:
        return kind.attempt(seed)
    except Exception:
        return f"seed {seed}: {traceback.format_exc()}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def share_of_work(seconds, first, part, parts):
    """Every `parts`-th case from number `part` on; a line of JSON for each finding and each end."""
    start = time.monotonic()
    checks = list(CHECKS.items())
    for name, check in [pair for k, pair in enumerate(checks) if k % parts == part]:
        wrong = check()
        tell(kind=name, done=1, wrong=int(bool(wrong)), text=wrong)
    for kind, most, share in KINDS:
        for seed in range(first + part, first + most, parts):
            if time.monotonic() > start + MARGIN * share * seconds:
                break
            wrong = attempted(kind, seed)
            tell(kind=kind.__name__, done=1, wrong=int(bool(wrong)), text=wrong)


def tell(**line):
    print(json.dumps(line), flush=True)


def summed_up(lines, totals):
    """Add what lines of a process say to the totals, and print what is wrong."""
    for line in lines:
        try:
            found = json.loads(line)
        except ValueError:  # what a library printed
            continue
        total = totals[found["kind"]]
        total[0] += found["done"]
        total[1] += found["wrong"]
        if found["text"]:
            print(f"{found['kind']}: {found['text']}", flush=True)


def in_processes(minutes, first, count):
    """The totals of all kinds, worked off by so many processes."""
    environment = dict(os.environ, **dict.fromkeys(SINGLE, "1"))
    totals = {kind.__name__: [0, 0] for kind, *_ in KINDS} | {name: [0, 0] for name in CHECKS}
    end, workers = time.monotonic() + 60.0 * minutes, []
    for part in range(count):
        command = [sys.executable, "-m", "fuzz", str(minutes), "--first", str(first)]
        command += ["--processes", str(count), "--part", str(part)]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        reader = threading.Thread(target=summed_up, args=(process.stdout, totals))
        reader.start()
        workers.append((process, reader))
    ended = 0
    for process, reader in workers:
        try:
            process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            ended += 1
        reader.join()
        if process.returncode not in (0, -signal.SIGKILL):
            print(f"a process ended with {process.returncode}", flush=True)
            totals.setdefault("processes that failed", [0, 0])[1] += 1
    if ended:
        print(f"{ended} of {count} processes were in a case when the time was over")
    return totals


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("minutes", nargs="?", type=float, default=60.0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--part", type=int, default=None, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part is not None:
        share_of_work(60.0 * given.minutes, given.first, given.part, given.processes)
        return 0
    begin = time.monotonic()
    totals = in_processes(given.minutes, given.first, given.processes)
    wanted = {kind.__name__: most for kind, most, _ in KINDS}
    for name, (done, wrong) in totals.items():
        print(f"{name}: {done:,} of {wanted.get(name, 1):,} done, {wrong} wrong")
    failures = sum(wrong for _, wrong in totals.values())
    left = inputs.left_out()
    print(f"{failures} findings in {time.monotonic() - begin:.0f} s{left}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
