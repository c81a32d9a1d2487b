"""Ours against each peer in one run: a ratio, and the agreement of the answers.

`python -m benchmarks` runs every set, `python -m benchmarks spine` one of them. Nothing here is a
test: performance is measured, written down with the machine, and compared with a stated floor.
"""
