"""The command line: `mercer fit table.csv --target price`, and what follows.

Exit codes: 0 done; 2 the command is wrong; 3 the table, the target or the model is refused; 4 a
result could not be written; 130 stopped by hand.
"""

from mercer.cli.main import main

__all__ = ["main"]
