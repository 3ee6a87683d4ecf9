"""What tests do with a live figure, and what Python says for the same settings of its controls."""

import html
import json
import re

_READ = """figure => [...figure.querySelectorAll(".live-control")].map((control) => {
  const range = control.querySelector("input[type=range]");
  const select = control.querySelector("select");
  const radios = [...control.querySelectorAll("input[type=radio]")];
  const box = control.querySelector("input[type=checkbox]");
  if (range) return range.valueAsNumber;
  if (select) return select.selectedIndex;
  if (radios.length) return radios.findIndex((radio) => radio.checked);
  return box ? box.checked : null;
})"""
_SAYS = """figure => [...figure.querySelectorAll(".live-html")]
  .filter((part) => !part.querySelector(".aiinfra-chart")).map((part) => part.innerHTML)"""


def settle(figure):
    """Waits until the figure is live and has answered everything that was asked of it."""
    figure.page.wait_for_function(
        "figure => figure.dataset.state === 'live' && figure.getAttribute('aria-busy') !== 'true'",
        arg=figure.element_handle(),
    )


def settings(figure):
    """The position of every control, in order: a number, an index, True or False; None for a button."""
    return figure.evaluate(_READ)


def says(figure):
    """[(text, [exact numbers])] of every part of the figure that says something."""
    return [_read(part) for part in figure.evaluate(_SAYS)]


def move(control):
    """Changes a control the way a reader does: a key on a slider, a click on the others."""
    if control.locator("input[type=range]").count():
        slider = control.locator("input[type=range]")
        at_end = slider.evaluate("slider => slider.value === slider.max")
        slider.press("ArrowLeft" if at_end else "ArrowRight")
    elif control.locator("select").count():
        select = control.locator("select")
        count = select.locator("option").count()
        select.select_option(index=(select.evaluate("select => select.selectedIndex") + 1) % count)
    elif control.locator("input[type=radio]").count():
        control.locator("input[type=radio]:not(:checked)").last.check()
    elif control.locator("input[type=checkbox]").count():
        control.locator("input[type=checkbox]").click()
    else:
        control.locator("button").click()


def python_says(figure, first, now):
    """The same as `says`, computed here: runs the figure's cell and sets the controls that differ from `first`."""
    source = json.loads(figure.locator(".live-cell").text_content())["source"]
    root = _run(source)
    controls = [widget for widget in _walk(root) if not _is_text(widget)]
    for control, was, position in zip(controls, first, now, strict=True):
        if position != was:
            _set(control, position)
    return [_read(text.value) for text in _walk(root) if _is_text(text) and "aiinfra-chart" not in text.value]


def _run(source):
    *lines, last = source.rstrip().rsplit("\n", 1)
    namespace = {"__name__": "__main__"}
    exec("\n".join(lines), namespace)
    return eval(last, namespace)


def _walk(widget):
    if hasattr(widget, "children"):
        for child in widget.children:
            yield from _walk(child)
    else:
        yield widget


def _is_text(widget):
    return type(widget).__name__ in {"HTML", "Label"}


def _set(control, position):
    if hasattr(control, "options"):
        control.index = position
    elif hasattr(control, "base"):
        control.value = control.base**position
    else:
        control.value = type(control.value)(position)


def _read(part):
    text = html.unescape(re.sub(r"<[^>]*>", "", part))
    return " ".join(text.split()), [float(number) for number in re.findall(r'data-value="([^"]*)"', part)]
