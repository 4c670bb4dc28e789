import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "slalom-xai"
author = "The slalom-xai contributors"
copyright = author
release = installed_version("slalom-xai")
version = release

extensions = [
    "drawn",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
exclude_patterns = [
    "_build",
    "_extensions",
    "_generated",
    "figures",
    "reproduction",
]  # the tables of figures and results are included in pages
language = "en-GB"

myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
napoleon_numpy_docstring = False
napoleon_use_ivar = True

html_theme = "furo"
html_static_path = ["_generated", "_extensions/drawn.css"]
html_css_files = ["drawn.css"]
html_title = f"slalom-xai {release}"
