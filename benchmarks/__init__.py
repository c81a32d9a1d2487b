"""Ours against each peer in one run: a ratio, and the agreement of the answers.

`python -m benchmarks` runs every set, `python -m benchmarks products` one of them, `--help` says
what each measures. Nothing here is a test: performance is measured, written down with the machine,
and compared with a stated floor.
"""
