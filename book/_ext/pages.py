"""Sphinx extension: what every page needs so that it asks no other host and reads well with any tool.

Formulas are drawn by a copy of MathJax that is part of the site, Jupyter Book's own way to run cells (which would
load code from elsewhere) is left out, and two gaps of the theme are filled: its first colour mode and the names of
the sidebar's toggles.
"""

import os
from pathlib import Path

import live_assets
import npm
from sphinx.util import logging

_logger = logging.getLogger(__name__)
_STYLE = Path(__file__).parents[1] / "_static" / "pages.css"

# Follows the system's colours until the reader chooses; set before the theme complains that nothing was chosen.
_COLOUR_MODE = (
    "(({dataset})=>{if(!dataset.mode){dataset.mode='auto';"
    "dataset.theme=matchMedia('(prefers-color-scheme: dark)').matches?'dark':'light'}})(document.documentElement)"
)


def setup(app):
    app.connect("config-inited", add_style)
    app.connect("builder-inited", add_formulas)
    app.connect("html-page-context", leave_out_thebe, priority=900)
    app.connect("html-page-context", name_toggles, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def add_style(app, config):
    """Adds this extension's own style sheet, wherever the book lies that uses it."""
    config.html_static_path.append(str(_STYLE))
    app.add_css_file(_STYLE.name)


def add_formulas(app):
    """Puts MathJax beside the pages. A static book does without it rather than fail, and shows formulas as TeX."""
    if app.builder.format != "html":
        return
    app.add_js_file(None, body=_COLOUR_MODE)
    try:
        files, app.config.mathjax_path = live_assets.mathjax()
    except npm.Missing as missing:
        if not app.config.live_still:
            raise SystemExit(str(missing)) from None  # one sentence, where Sphinx would print a traceback
        _logger.info("Formulas stay as TeX: %s", missing)
        app.config.mathjax_path = "no-mathjax.js"
        files = {app.config.mathjax_path: b"// MathJax was not to be had when this book was built.\n"}
    live_assets.write(files, os.path.join(app.outdir, "_static"))


def leave_out_thebe(_app, _pagename, _template, context, _doctree):
    context["script_files"] = [script for script in context["script_files"] if not _is_thebe(script)]


def _is_thebe(script):
    return "thebe" in f"{script.filename} {getattr(script, 'attributes', {}).get('body', '')}".lower()


def name_toggles(_app, _pagename, _template, context, _doctree):
    """Gives the toggles of the sidebar a name that can be read aloud: they are icons only."""
    unnamed = context["generate_toctree_html"]

    def named(*arguments, **options):
        tree = unnamed(*arguments, **options)
        for toggle in tree.select("li > details > summary"):
            toggle["aria-label"] = f"Pages below {toggle.find_parent('li').a.get_text(strip=True)}"
        return tree

    context["generate_toctree_html"] = named
