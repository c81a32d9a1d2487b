"""Smaller models: the same function with few centres."""

from __future__ import annotations

import copy
from typing import Any

from mercer.checks import check_count
from mercer.estimators.smaller import smaller


def compressed(model: Any, centres: int) -> Any:
    """A copy of a fitted model whose function has few centres, which are not training rows.

    The centres are the means of groups of training rows (k-means); the function is projected on
    their span. For points that have no means, as texts and categories, they are some of the
    training points.

    Parameters
    ----------
    model : estimator, or a pipeline that ends in one
    centres : int

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRidge
    >>> from mercer.kernels import Gaussian
    >>> from mercer.persistence import compressed
    >>> X = np.random.default_rng(0).uniform(size=(200, 1))
    >>> model = KernelRidge(1e-3, kernel=Gaussian(0.5)).fit(X, np.sin(3 * X[:, 0]))
    >>> small = compressed(model, 12)
    >>> len(small.function_), bool(np.allclose(small.predict(X), model.predict(X), atol=1e-3))
    (12, True)
    """
    check_count("compressed", "centres", centres)
    if hasattr(model, "steps"):
        copied = copy.copy(model)
        name, last = model.steps[-1]
        copied.steps = [*model.steps[:-1], (name, compressed(last, centres))]
        return copied
    return smaller(model, centres)
