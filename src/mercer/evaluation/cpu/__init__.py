"""The CPU execution: compiled tiles.

`vectors` and `elementary` hold what every program needs (register-blocked pair numbers, a
vectorised exponential), `source` writes the code of a program, `cache` keeps it on disk,
`operands` brings points into the form the code reads, `tiles` puts them together.
"""
