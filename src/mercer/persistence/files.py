"""`save` and `load`, and smaller models to save."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mercer.checks import check_count
from mercer.errors import ModelFileError
from mercer.estimators.smaller import compress
from mercer.persistence import container
from mercer.persistence.description import Reader, Writer
from mercer.version import __version__

FORMAT = 1
"""Raised where older versions could not read what is written."""


def save(model: Any, path: Any, *, centres: int | None = None) -> Path:
    """Write a fitted estimator, or a pipeline that ends in one, to a file.

    Parameters
    ----------
    model : estimator, Pipeline, or function
        Of mercer; a pipeline may hold scalers, encoders and imputers of scikit-learn.
    path : path
        By custom it ends in ".mercer".
    centres : int, optional
        Write a smaller model, see `compressed`: so many centres, which are not training rows.

    Returns
    -------
    path : Path

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from mercer import KernelRidge
    >>> model = KernelRidge(kernel="rbf").fit(np.eye(3), [1.0, 2.0, 3.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, f"{folder}/model.mercer").name
    'model.mercer'
    """
    if centres is not None:
        model = compressed(model, centres)
    writer = Writer()
    description = writer.described(model, type(model).__name__)
    texts = {
        "format": f"mercer {FORMAT}",
        "version": __version__,
        "description": json.dumps(description, ensure_ascii=False, separators=(",", ":")),
    }
    return container.write(path, writer.arrays, texts)


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
    return compress(model, centres)


def load(path: Any, *, kernels: Sequence[type] = ()) -> Any:
    """The model in a file.

    Parameters
    ----------
    path : path
    kernels : sequence of classes
        Kernels (and losses) of your own that the model uses.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from mercer import KernelRidge
    >>> model = KernelRidge(kernel="rbf").fit(np.eye(3), [1.0, 2.0, 3.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = load(save(model, f"{folder}/model.mercer"))
    >>> bool((again.predict(np.eye(3)) == model.predict(np.eye(3))).all())
    True
    """
    arrays, texts = container.read(path)
    written = texts.get("format", "")
    if written != f"mercer {FORMAT}":
        raise ModelFileError(
            f"{path} has the format {written!r}, and this version reads 'mercer {FORMAT}': it was "
            f"written by mercer {texts.get('version', 'of unknown version')}; this is "
            f"{__version__}."
        )
    try:
        return Reader(arrays, tuple(kernels)).value(json.loads(texts["description"]))
    except ModelFileError as refusal:
        raise ModelFileError(f"{path}: {refusal}{_age(texts)}") from None
    except Exception as refusal:  # whatever a class refuses: a file is never a traceback
        kind = type(refusal).__name__
        raise ModelFileError(
            f"{path} holds no valid model: {kind}: {refusal}{_age(texts)}"
        ) from None


def _age(texts: dict[str, str]) -> str:
    written = texts.get("version")
    if written == __version__:
        return ""
    return f" It was written by mercer {written}; this is {__version__}."
