"""Explorers of the chapter `STEM`."""

from aiinfra import charts
from aiinfra.explorers import figure


def doubling_view(value):
    """Twice `value`, beside it."""
    rows = [{"what": "value", "size": value}, {"what": "doubled", "size": 2 * value}]
    x, y = charts.axis("size", "size"), charts.axis("what", None, "nominal")
    bars = {"mark": {"type": "bar", "color": charts.COLOURS[0]}, "encoding": {"x": x, "y": y}}
    says = f"Twice {value} is {figure.value(2 * value, 2 * value)}."
    return figure.View(charts.chart("A value and its double", rows, [bars]), says)


def doubling():
    """Live figure: a value and its double."""
    return figure.figure(doubling_view, value=figure.slider("Value", 1, 100, 21))
