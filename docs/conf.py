"""Sphinx configuration: one page for each idea, and a reference from the docstrings."""

from importlib.metadata import version as installed_version

project = "mercer"
author = "The mercer developers"
copyright = author
release = version = installed_version("mercer")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build"]
html_theme = "pydata_sphinx_theme"
html_title = "mercer"
html_theme_options = {"show_toc_level": 2, "navigation_with_keys": False}

autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_typehints = "description"
autosummary_generate = True
autosummary_generate_overwrite = True
napoleon_google_docstring = False
default_role = "code"

myst_enable_extensions = ["dollarmath"]
intersphinx_mapping = {
    "python": ("https://docs.python.org/3", None),
    "numpy": ("https://numpy.org/doc/stable", None),
    "scipy": ("https://docs.scipy.org/doc/scipy", None),
    "sklearn": ("https://scikit-learn.org/stable", None),
}
intersphinx_timeout = 5
