"""A live figure as plain HTML: the values of its controls as text, its sentence and its pictures.

This is what a reader without JavaScript gets, and what everybody sees until the controls are drawn in its place.
"""

import html
import json
import math
import re

from aiinfra import charts

CONTROLS = {
    "IntSliderModel", "FloatSliderModel", "FloatLogSliderModel", "SelectionSliderModel",
    "DropdownModel", "RadioButtonsModel", "ToggleButtonsModel", "CheckboxModel",
}  # fmt: skip
BOXES = {"VBoxModel": "live-vbox", "HBoxModel": "live-hbox", "BoxModel": "live-hbox"}
SUPPORTED = CONTROLS | set(BOXES) | {"ButtonModel", "HTMLModel", "LabelModel"}

_KEPT = {
    "_model_name", "_options_labels", "base", "children", "description", "disabled", "index", "max", "min",
    "readout", "readout_format", "step", "value",
}  # fmt: skip
_CHART = re.compile(r'(<div class="aiinfra-chart"[^>]*>)(.*?)(</div>)', re.DOTALL)
_SPEC = re.compile(r'<script type="application/json" class="aiinfra-spec">(.*?)</script>', re.DOTALL)


def tree(states, root):
    """{id: the part of its state that a page needs} of the widget `root` and all below it, parents first.

    Raises ValueError for a widget that the page cannot draw.
    """
    kept = {}

    def visit(key):
        state = states[key]
        if state["_model_name"] not in SUPPORTED:
            known = ", ".join(sorted(name.removesuffix("Model") for name in SUPPORTED))
            raise ValueError(f"a page cannot draw {state['_model_name'].removesuffix('Model')}; it can draw {known}")
        kept[key] = {name: value for name, value in state.items() if name in _KEPT}
        for child in children(state):
            visit(child)

    visit(root)
    return kept


def children(state):
    return [reference.removeprefix("IPY_MODEL_") for reference in state.get("children", ())]


def without_pictures(models):
    """`models` with the pictures taken out of HTML values: the page already shows them, and draws from the spec."""
    return {
        key: {**state, "value": _CHART.sub(r"\1\3", state["value"])} if _is_html(state) else state
        for key, state in models.items()
    }


def title(models):
    """The title of the figure's first chart, as plain text; empty where there is none."""
    for state in models.values():
        if _is_html(state) and (found := re.search(r'class="aiinfra-chart"[^>]* aria-label="([^"]*)"', state["value"])):
            return html.unescape(found[1])
    return ""


def draw(models, key, prefix):
    """HTML of the widget `key` and all below it. `prefix` keeps the ids inside pictures apart from other figures'."""
    state = models[key]
    name = state["_model_name"]
    if name in BOXES:
        inner = "".join(draw(models, child, f"{prefix}-{place}") for place, child in enumerate(children(state)))
        return f'<div class="{BOXES[name]}">{inner}</div>'
    if name in CONTROLS:
        label, value = html.escape(state.get("description", "")), html.escape(shown(state))
        return (
            f'<div class="live-control"><span class="live-label">{label}</span>'
            f'<span class="live-value">{value}</span></div>'
        )
    if name == "HTMLModel":
        return f'<div class="live-html">{_pictured(state["value"], key, prefix)}</div>'
    return f'<div class="live-html">{html.escape(state["value"])}</div>' if name == "LabelModel" else ""


def shown(state):
    """The value of a control as text, as its readout shows it."""
    if "_options_labels" in state:
        return "" if state["index"] is None else state["_options_labels"][state["index"]]
    if isinstance(state["value"], bool):
        return "yes" if state["value"] else "no"
    return readout(state["value"], state.get("readout_format", ""))


def readout(value, form):
    """A number in the forms of d3-format that readouts use: `d f g r e %` with `,` and a precision.

    The page has the same function in JavaScript; a browser test compares the two.
    """
    found = re.fullmatch(r"(,?)(?:\.(\d+))?([dfgre%])", form)
    if not found:
        return f"{value}"
    comma, precision, kind = found[1], int(found[2] or 6), found[3]
    if kind == "d":
        return f"{round(value):{comma}d}"
    if kind == "g":
        text = f"{value:#{comma}.{max(precision, 1)}g}"
        return re.sub(r"e([+-])0*", r"e\1", text).replace(".e", "e").rstrip(".")
    if kind == "r":
        rounded = float(f"{value:.{max(precision, 1) - 1}e}")
        exponent = math.floor(math.log10(abs(rounded))) if rounded else 0
        return f"{rounded:{comma}.{max(0, precision - 1 - exponent)}f}"
    return re.sub(r"e([+-])0*(\d)", r"e\1\2", f"{value:{comma}.{precision}{kind}}")


def _is_html(state):
    return state["_model_name"] == "HTMLModel"


def _pictured(value, key, prefix):
    """`value` with its chart drawn twice, for a wide and for a narrow page; the style sheet shows one of them."""
    spec = _SPEC.search(value)
    if not spec:
        return value
    chart = json.loads(spec[1])
    wide = _apart(charts.svg(chart, charts.WIDTH), f"{prefix}-wide")
    narrow = _apart(charts.svg(chart, charts.NARROW_WIDTH), f"{prefix}-narrow")
    picture = (
        f'<div class="live-wide" aria-hidden="true">{wide}</div>'
        f'<div class="live-narrow" aria-hidden="true">{narrow}</div>'
    )
    drawn = _CHART.sub(lambda found: f'{found[1][:-1]} data-model="{key}">{picture}{found[3]}', value)
    return _SPEC.sub("", drawn)


def _apart(svg, prefix):
    """`svg` with its ids prefixed: a clip path that another picture on the page also names would hide this one."""
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', svg)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", svg)
