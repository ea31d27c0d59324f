"""How the site is built: `sphinx-build docs build/site`. Nothing is fetched, to build it or to read it."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
sys.path[:0] = [str(HERE.parent / "src"), str(HERE / "_extensions")]

import slabsvm  # noqa: E402

project = "slabsvm"
author = "The slabsvm developers"
release = slabsvm.__version__
copyright = author

extensions = [
    "accessible",
    "docstrings",
    "mathml",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
html_extra_path = ["playground"]  # the page to play with, as it is: slab/index.html
exclude_patterns = ["_extensions", "gallery/*.ipynb", "gallery/*.md5"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
html_math_renderer = "mathml"

default_role = "py:obj"
autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False

copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True

templates_path = ["_templates"]
html_theme = "pydata_sphinx_theme"
html_title = "slabsvm"
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system is
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_sidebars = {"*": []}  # pages of their own have none beside them
html_theme_options = {
    "collapse_navigation": True,
    "header_links_before_dropdown": 8,
    "navbar_persistent": ["search-button"],
    "navigation_with_keys": False,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}

sphinx_gallery_conf = {
    "examples_dirs": str(EXAMPLES),
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "gallery.Order",
    "reset_modules": ("matplotlib", "gallery.house_style"),
    "image_srcset": ["2x"],
    "capture_repr": (),
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 3600,
    "download_all_examples": False,
    "show_memory": False,
    "abort_on_example_error": True,
}
