"""From a table to a model that can be trusted: one call.

>>> import numpy as np
>>> import mercer
>>> rng = np.random.default_rng(0)
>>> table = {"x": rng.uniform(size=100)}
>>> table["y"] = np.sin(6 * table["x"]) + 0.1 * rng.normal(size=100)
>>> model = mercer.fit(table, "y", time_limit=1.0)
>>> model.record_.scores["mercer"]["RMSE"] < model.record_.scores["linear model"]["RMSE"]
True
"""

from mercer.workflow.choice import Choice
from mercer.workflow.columns import (
    CategoryColumn,
    DateColumn,
    NumberColumn,
    TableEncoder,
    TextColumn,
)
from mercer.workflow.comparison import Comparison, compare
from mercer.workflow.fitting import fit, tune
from mercer.workflow.model import FittedModel, Record
from mercer.workflow.reading import TableBlocks, read_table

__all__ = [
    "CategoryColumn",
    "Choice",
    "Comparison",
    "DateColumn",
    "FittedModel",
    "NumberColumn",
    "Record",
    "TableBlocks",
    "TableEncoder",
    "TextColumn",
    "compare",
    "fit",
    "read_table",
    "tune",
]
