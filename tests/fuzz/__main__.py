"""`python -m tests.fuzz [MINUTES]`: random cases for so long, shared among three kinds."""

from __future__ import annotations

import sys
import time

from tests.fuzz import inputs, interruptions, problems

KINDS = ((inputs, 100_000, 0.5), (problems, 10_000, 0.4), (interruptions, 200, 0.1))


def main() -> int:
    minutes, failures = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0, 0
    for kind, most, share in KINDS:
        end, seed = time.monotonic() + 60.0 * minutes * share, 0
        while seed < most and time.monotonic() < end:
            wrong = kind.attempt(seed)
            seed += 1
            if wrong:
                failures += 1
                print(wrong, flush=True)
        print(f"{kind.__name__}: {seed:,} of {most:,} cases, {failures} wrong so far", flush=True)
    wrong = interruptions.threads()
    print(wrong or "eight threads agree")
    return 1 if failures or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
