"""`python -m fuzz [MINUTES [FIRST]]`: random cases for so long, from a first seed on."""

from __future__ import annotations

import signal
import sys
import time
import traceback

from fuzz import inputs, interruptions, problems

KINDS = ((inputs, 100_000, 0.5), (problems, 10_000, 0.4), (interruptions, 200, 0.1))
BUSY, IDLE = 60.0, 900.0  # seconds of processor time and of waiting, beyond which a case hangs


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


def main() -> int:
    minutes, failures = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0, 0
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    for kind, most, share in KINDS:
        end, seed = time.monotonic() + 60.0 * minutes * share, first
        while seed < first + most and time.monotonic() < end:
            wrong = attempted(kind, seed)
            seed += 1
            if wrong:
                failures += 1
                print(wrong, flush=True)
        done = f"{seed - first:,} of {most:,} cases, {failures} wrong so far"
        print(f"{kind.__name__}: {done}", flush=True)
    for wrong, right in (
        (interruptions.threads(), "eight threads agree"),
        (interruptions.forks(), "eight forked processes agree"),
    ):
        failures += bool(wrong)
        print(wrong or right, flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
