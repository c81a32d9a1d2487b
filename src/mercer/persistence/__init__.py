"""Models on disk: arrays in the safetensors format, and a description in JSON.

Loading runs no code that comes from the file, refuses what it does not know, and refuses a file
that was truncated or altered on the way (against damage, not against forgery).

>>> import tempfile, pathlib
>>> import numpy as np
>>> from mercer import KernelRidge
>>> from mercer.kernels import Gaussian
>>> from mercer.persistence import load, save
>>> X, y = np.linspace(0, 1, 20)[:, None], np.linspace(0, 1, 20) ** 2
>>> model = KernelRidge(1e-6, kernel=Gaussian(0.5)).fit(X, y)
>>> with tempfile.TemporaryDirectory() as folder:
...     path = save(model, pathlib.Path(folder, "square.mercer"))
...     again = load(path)
>>> bool((again.predict(X) == model.predict(X)).all())
True
"""

from mercer.persistence.files import FORMAT, compressed, load, save

__all__ = ["FORMAT", "compressed", "load", "save"]
