"""Sphinx extension: a code cell tagged `live` becomes a figure that moves in the published page.

The cell is run when the book is built, with real ipywidgets; the page shows what it made at once, first as plain
HTML (`live_still`), then with controls drawn from the same widget state by `book/_static/live/`. Only the first
touch of a control loads Python into the page (`live_assets`). With LIVE=0 in the environment the figures stay still.
"""

import html
import json
import os
import re

import live_assets
import live_python
import live_still
import npm
from docutils import nodes
from sphinx.util import logging

TAG = "live"
_VIEW = "application/vnd.jupyter.widget-view+json"
_logger = logging.getLogger(__name__)

# A page opened as a file cannot load modules at all, so no module can say so.
_FILE_NOTE = (
    'addEventListener("DOMContentLoaded",()=>{if(location.protocol==="file:")'
    'document.querySelectorAll(".live-file").forEach((note)=>{note.hidden=false})})'
)


def setup(app):
    app.setup_extension("pages")
    app.add_config_value("live_still", os.environ.get("LIVE") == "0", "env", (bool,))
    app.add_config_value("live_course_hash", "", "env", (str,))
    app.connect("config-inited", read_course)
    app.connect("builder-inited", add_assets)
    app.connect("doctree-read", make_figures)
    app.connect("html-page-context", add_front_end)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def read_course(app, config):
    """Packs the package's code. Its hash is a setting, so that new code makes Sphinx run every page again."""
    app.live_course = live_python.course()
    config.live_course_hash = live_assets.short_hash(app.live_course)


def add_assets(app):
    """Puts what pages load beside them. Fails with one sentence where a part cannot be had."""
    if app.builder.format != "html":
        return
    files, app.live_style = live_assets.style_sheet()
    if not app.config.live_still:
        try:
            parts, app.live_folder = live_assets.live(app.live_course)
        except npm.Missing as missing:
            raise SystemExit(str(missing)) from None  # one sentence, where Sphinx would print a traceback
        files |= parts
    static = os.path.join(app.outdir, "_static")
    live_assets.write(files, static)
    live_assets.clear(files, static, "live")


def make_figures(app, doctree):
    """Replaces each cell tagged `live` by a figure."""
    states = _take_widget_state(app.env)
    cells = [node for node in doctree.findall(nodes.container) if f"tag_{TAG}" in node["classes"]]
    for number, cell in enumerate(cells, 1):
        if any("traceback" in block["classes"] for block in cell.findall(nodes.literal_block)):
            continue  # the traceback is in the page, and myst-nb has warned
        prefix = f"live-{app.env.docname.replace('/', '-')}-{number}"
        try:
            place = cell.parent.index(cell)
            cell.parent[place : place + 1] = _figure(cell, states, prefix)
        except ValueError as problem:
            _logger.warning("live cell: %s", problem, location=cell)


def _take_widget_state(env):
    """{widget's id: state} of the page being read, taken away from myst-nb, which would put all of it in the page."""
    scripts = env.nb_metadata.get(env.docname, {}).get("js_files", {})
    _uri, attributes = scripts.pop("ipywidgets_state", (None, {"body": '{"state": {}}'}))
    return {key: model["state"] for key, model in json.loads(attributes["body"])["state"].items()}


def _figure(cell, states, prefix):
    sources = [node for node in cell.findall(nodes.literal_block) if "cell_input" in node.parent["classes"]]
    views = [node for node in cell.findall(nodes.raw) if _VIEW in node.astext()]
    if not sources:
        raise ValueError("its code is hidden from the page, so nothing could run it; the tag live is enough")
    if len(views) != 1:
        raise ValueError(f"a live cell ends in one widget, this one shows {len(views)}")
    root = json.loads(re.search(r">(.*)</script>", views[0].astext(), re.DOTALL)[1])["model_id"]
    models = live_still.tree(states, root)
    cell_json = json.dumps(
        {"root": root, "models": live_still.without_pictures(models), "source": sources[0].astext()},
        separators=(",", ":"),
    ).replace("</", "<\\/")
    title = html.escape(live_still.title(models) or "Live figure", quote=True)
    top = (
        f'<figure class="live-figure" id="{prefix}" aria-label="{title}">'
        f'<div class="live-body">{live_still.draw(models, root, prefix)}</div>'
        f'<script type="application/json" class="live-cell">{cell_json}</script>'
        '<figcaption class="live-foot"><div class="live-status"></div>'
        '<p class="live-file" hidden>This page was opened as a file, so its figures stay still. '
        "They move when a web server sends the page: <code>make book</code> starts one.</p></figcaption>"
        '<details class="live-code"><summary>Code of this figure</summary>'
    )
    return [
        nodes.raw("", top, format="html", live=True),
        sources[0],
        nodes.raw("", "</details></figure>", format="html"),
    ]


def add_front_end(app, _pagename, _template, _context, doctree):
    """Loads the front end on pages that have a live figure, and the style sheet with it."""
    if doctree is None or not any(node.get("live") for node in doctree.findall(nodes.raw)):
        return
    app.add_css_file(app.live_style)
    if not app.config.live_still:
        app.add_js_file(f"{app.live_folder}/live.js", type="module")
        app.add_js_file(None, body=_FILE_NOTE)
