"""Sphinx configuration: one page for each idea, and a reference from the docstrings."""

import os
import re
from importlib.metadata import version as installed_version
from pathlib import Path

from sphinx.util import logging

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
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
html_theme = "pydata_sphinx_theme"
html_title = "mercer"
html_static_path = ["_static"]
html_css_files = ["mercer.css"]
html_show_sourcelink = False
html_sidebars = {"index": [], "getting_started": []}  # pages without others below them
GALLERY = ["gallery/index"]
GALLERY += [f"gallery/{path.stem}" for path in Path(__file__).parents[1].glob("examples/*.py")]
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 7,
    "navbar_persistent": ["search-button"],  # the wide field leaves no room for the links
    # the code of examples is 100 characters wide, and their pages have no sections to list
    "secondary_sidebar_items": {"**": ["page-toc"]} | {page: [] for page in ["index", *GALLERY]},
}

autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_typehints = "description"
autosummary_generate = True
autosummary_generate_overwrite = True
autosummary_ignore_module_all = False
napoleon_google_docstring = False
default_role = "code"

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "min_reported_time": 1e9,  # no times on the pages: they are those of whoever built them
    "show_memory": False,
    "remove_config_comments": True,
    "capture_repr": (),  # examples print what is to be seen
    "download_all_examples": False,
    "run_stale_examples": True,  # MERCER_QUICK makes other pictures of the same files
}

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
intersphinx_mapping = {
    "python": ("https://docs.python.org/3", None),
    "numpy": ("https://numpy.org/doc/stable", None),
    "scipy": ("https://docs.scipy.org/doc/scipy", None),
    "sklearn": ("https://scikit-learn.org/stable", None),
}
intersphinx_timeout = 5
if not os.environ.get("MERCER_ONLINE"):  # links into other libraries' pages need the network
    intersphinx_mapping = {}
# a short name in a signature, as Tuning or function, may mean one of several
suppress_warnings = ["ref.python", "config.cache"]


def skip(app, what, name, obj, is_skipped, options):
    """Leave out what scikit-learn adds to every estimator for metadata routing."""
    return True if re.fullmatch(r"set_\w+_request|get_metadata_routing", name) else None


def escape(app, what, name, obj, options, lines):
    """|x| is an absolute value in our docstrings, no substitution."""
    for i, line in enumerate(lines):
        if "|" in line and not line.lstrip().startswith((">>>", "...")):
            lines[i] = line.replace("|", "\\|")


def join_alternative_texts(app, docname, source):
    """MyST drops the line breaks of alternative texts, and glues words together."""
    source[0] = re.sub(r"!\[[^\]]*\]", lambda match: match[0].replace("\n", " "), source[0])


def ask_for_alternative_texts(app, doctree, docname):
    """A picture without a description is a warning, also one that the gallery has drawn."""
    for node in doctree.findall(lambda node: type(node).__name__ in ("image", "imgsgnode")):
        thumbnail = "thumb" in node.get("uri", "")  # stands beside the title of its page
        if not thumbnail and len(node.get("alt", "").split()) < 3:
            message = "a picture needs an alternative text, or its figure a title: %r"
            logging.getLogger(__name__).warning(message, node.get("alt", ""), location=docname)


def point_to_the_page_of_a_name(app, pagename, templatename, context, doctree):
    """Sources link back to one module each, but names of a module may stand on several pages."""
    if not pagename.startswith("_modules/"):
        return
    modules = [name.split("/")[-1] for name in app.env.found_docs if "/generated/" in name]

    def right(match):
        page, anchor = match.groups()
        owners = [name for name in modules if anchor.startswith(name + ".")]
        name = anchor.removeprefix(max(owners, key=len) + ".") if owners else anchor
        return f"/generated/{page}.html#{page}.{name}"

    context["body"] = re.sub(r"/generated/([\w.]+)\.html#([\w.]+)", right, context.get("body", ""))


def setup(app):
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-docstring", escape, priority=900)  # after napoleon
    app.connect("source-read", join_alternative_texts)
    app.connect("doctree-resolved", ask_for_alternative_texts)
    app.connect("html-page-context", point_to_the_page_of_a_name)
