"""Charts that move: Vega-Lite specs as plain dicts, one style for the page, JupyterLab and Colab.

A chart's data is the dataset "rows"; everything else of its spec stays the same from one move of a control to
the next, so that the page builds a view once and then only gives it new rows. Text and axes take the colour of
the text around them ("currentColor"), which makes a chart readable in light and dark mode alike.
"""

import html
import json

# After Okabe and Ito's colour-blind-safe palette, in tones that reach 3.8:1 on the light and on the dark page alike.
COLOURS = ("#1a80bf", "#d55e00", "#008f68", "#bf5f97")
WIDTH, NARROW_WIDTH, HEIGHT = 680, 330, 300

_CONFIG = {
    "background": "transparent",
    "aria": False,  # the element around the picture says what it shows
    "font": "Arial, Liberation Sans, Helvetica, sans-serif",  # vl-convert measures text as wide as Arial's
    "axis": {
        "labelColor": "currentColor", "titleColor": "currentColor", "domainColor": "currentColor",
        "tickColor": "currentColor", "gridColor": "currentColor", "gridOpacity": 0.15,
        "labelFontSize": 12, "titleFontSize": 13, "titleFontWeight": "normal",
    },
    "legend": {"labelColor": "currentColor", "titleColor": "currentColor", "labelFontSize": 12, "titleFontSize": 13,
               "orient": "top", "symbolStrokeWidth": 2.5, "labelLimit": 300, "columnPadding": 24},
    "title": {"color": "currentColor", "fontSize": 14, "anchor": "start", "fontWeight": "bold"},
    "text": {"color": "currentColor", "fontSize": 12},
    "rule": {"color": "currentColor"},
    "view": {"stroke": None},
}  # fmt: skip

# The same look for static figures and learners' own plots: matplotlib.pyplot.rcParams.update(MATPLOTLIB_STYLE).
MATPLOTLIB_STYLE = {
    "axes.grid": True,
    "axes.prop_cycle": f"cycler('color', {list(COLOURS)!r})",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "figure.figsize": (6.2, 3.6),
    "font.size": 11,
    "grid.alpha": 0.3,
    "lines.linewidth": 2.5,
    "savefig.bbox": "tight",
}


def chart(title, rows, layers, **top):
    """A complete Vega-Lite spec in the course's style.

    Parameters
    ----------
    title : str             what the chart shows
    rows : list of dict     the data; the only part that a moved control may change
    layers : list of dict   Vega-Lite layers (mark and encoding)
    """
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "title": title,
        "width": WIDTH,
        "height": HEIGHT,
        "autosize": {"type": "fit", "contains": "padding"},  # width and height hold axes and legend, too
        "data": {"name": "rows"},
        "datasets": {"rows": rows},
        "layer": layers,
        "config": _CONFIG,
        **top,
    }


def axis(field, title, kind="quantitative", **more):
    """The encoding of `field` on an axis. `title` names the quantity and its unit; `log=True` for a log axis."""
    encoding = {"field": field, "type": kind, "title": title, **more}
    if encoding.pop("log", False):
        encoding["scale"] = {"type": "log"}
        encoding["axis"] = {"labelOverlap": True, "tickCount": 6}
    return encoding


def by_series(names, title=None):
    """Colour and dash (never colour alone) of the series `names`, told apart by the field "series"."""
    colours, dashes = list(COLOURS[: len(names)]), [[1, 0], [7, 4], [2, 3], [9, 3, 2, 3]][: len(names)]
    legend = {"symbolType": "stroke", "symbolSize": 600}  # a piece of the line, so that its dashes show
    common = {"field": "series", "type": "nominal", "title": title, "legend": legend}
    return {
        "color": {**common, "scale": {"domain": list(names), "range": colours}},
        "strokeDash": {**common, "scale": {"domain": list(names), "range": dashes}},
    }


def labelled_bars(title, rows, x, y, colour, number_format, step):
    """A chart of horizontal bars with their values at the end; `x` needs room for them.

    `x`, `y` and `colour` are encodings, `number_format` is d3's, `step` is the height of one bar in pixels.
    """
    label = {**axis(x["field"], None), "format": number_format}
    layers = [
        {"mark": {"type": "bar"}, "encoding": {"x": x, "y": y, "color": colour}},
        {"mark": {"type": "text", "align": "left", "dx": 4}, "encoding": {"x": x, "y": y, "text": label}},
    ]
    return chart(title, rows, layers, height={"step": step})


def svg(spec, width=None):
    """The chart as SVG text. The only place that needs vl-convert, which no browser has: import it here.

    A narrow chart has its legend in one column, as the page draws it on a phone.
    """
    import vl_convert

    if width is not None:
        legend = {**spec["config"]["legend"], **({"columns": 1} if width < WIDTH else {})}
        spec = {**spec, "width": width, "config": {**spec["config"], "legend": legend}}
    return vl_convert.vegalite_to_svg(spec)


def to_html(spec, alt):
    """An HTML fragment: the chart's title, its picture where it can be drawn, the spec that the page draws from.

    The title is text of the page, not of the picture, so that it wraps on a phone.
    """
    title, spec = spec["title"], {**spec, "title": None}
    try:
        picture = svg(spec)
    except ImportError:
        picture = ""
    data = json.dumps(spec, separators=(",", ":")).replace("</", "<\\/")
    return (
        f'<p class="aiinfra-title"><strong>{html.escape(title)}</strong></p>'
        f'<div class="aiinfra-chart" role="img" aria-label="{html.escape(alt, quote=True)}">{picture}</div>'
        f'<script type="application/json" class="aiinfra-spec">{data}</script>'
    )


def chosen_point(x, y, color, tooltip=None):
    """The layer that marks the rows which are `chosen`: where the controls of a figure stand on its lines."""
    encoding = {"x": x, "y": y, "color": color} | ({"tooltip": tooltip} if tooltip else {})
    mark = {"type": "point", "filled": True, "size": 110, "opacity": 1}
    return {"mark": mark, "transform": [{"filter": "datum.chosen"}], "encoding": encoding}
