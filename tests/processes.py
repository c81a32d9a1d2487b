"""Running a few lines in an interpreter of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap


def output_of(code: str, **environment: str) -> str:
    """What a script prints; a script that fails, fails the test with its own words."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
