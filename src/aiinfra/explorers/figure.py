"""Builds a live figure from controls and a view: the same widgets in the page, in JupyterLab and in Colab.

A view is a pure function from the controls' values to a `View`; `figure` shows it and calls it again at each move.
Only the ipywidgets API that 7.7 and 8 share is used, and only inside functions.
"""

from dataclasses import dataclass

from aiinfra import charts


@dataclass(frozen=True)
class View:
    """What one setting of the controls shows: a Vega-Lite spec and one sentence (HTML) that says what it means."""

    chart: dict
    says: str


def value(text, number):
    """A number inside the sentence, as displayed and exactly."""
    return f'<strong data-value="{number!r}">{text}</strong>'


def figure(view, **controls):
    """The widget of a live figure.

    Parameters
    ----------
    view : callable             takes the controls' values by keyword, returns a `View`
    **controls : widgets        from the functions below, in the order in which they are shown
    """
    import ipywidgets

    picture, sentence = ipywidgets.HTML(), ipywidgets.HTML()

    def refresh(_change=None):
        shown = view(**{name: control.value for name, control in controls.items()})
        picture.value = charts.to_html(shown.chart, alt=shown.chart["title"])
        sentence.value = f'<p class="aiinfra-says">{shown.says}</p>'

    for control in controls.values():
        control.observe(refresh, names="value")
    refresh()
    return ipywidgets.VBox([ipywidgets.VBox(list(controls.values())), sentence, picture])


def _control(kind, label, **state):
    import ipywidgets

    layout = ipywidgets.Layout(width="auto", max_width="620px")
    return getattr(ipywidgets, kind)(description=label, style={"description_width": "180px"}, layout=layout, **state)


def slider(label, low, high, start, step=1):
    return _control("IntSlider", label, min=low, max=high, step=step, value=start)


def float_slider(label, low, high, start, step):
    return _control("FloatSlider", label, min=low, max=high, step=step, value=start, readout_format=".2f")


def log_slider(label, low_exponent, high_exponent, start, step=0.05):
    """A slider over powers of ten; the value is 10 to the exponent."""
    state = {"base": 10, "min": low_exponent, "max": high_exponent, "step": step, "value": start}
    return _control("FloatLogSlider", label, readout_format=",.3r", **state)


def dropdown(label, options, start=None):
    """A choice from a list; `options` are texts or (text, value) pairs."""
    return _control("Dropdown", label, options=list(options), **({} if start is None else {"value": start}))


def radio(label, options, start=None):
    return _control("RadioButtons", label, options=list(options), **({} if start is None else {"value": start}))


def checkbox(label, start=False):
    return _control("Checkbox", label, value=start)
