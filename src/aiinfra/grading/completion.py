"""What counts by being done: predictions, and answers in words, which a person may give points for afterwards.

Both are declared by the cells of the lab alone, so that every lab has them without more ado:

- A cell tagged "prediction" is one point. It is earned by committing to a range, whatever the truth turns out to be.
- A Markdown cell tagged "written" has its points in its metadata. All of them are earned by an answer that is there,
  until a person gives a number in manual.csv, which then holds.

Nothing is run for this; cells are read.
"""

import ast
import re
from dataclasses import dataclass

from aiinfra.grading.execution.package_use import parse

PREDICTION_POINTS = 1
MAX_TEXT_CHARS = 20_000
_WRAPPED = re.compile(r"(?<=\S)\n(?=[^\s*+>|#\d-])")  # a line's end inside a paragraph, a space as in Markdown


@dataclass(frozen=True)
class Item:
    """What a lab asks for. `stub` is the source of its cell there, `question` the text of a prediction's."""

    name: str
    kind: str  # "prediction" or "written"
    max_points: int
    question: str = ""
    stub: str = ""


@dataclass(frozen=True)
class Completion:
    """What a learner did about an `Item`. `status` is "done" or "missing"; `text` is theirs, a range or their words."""

    name: str
    kind: str
    status: str
    points: float
    max_points: int
    question: str = ""
    text: str = ""
    comment: str = ""
    by_hand: bool = False


def items(code, text):
    """Every `Item` that the cells of a lab declare, predictions first. Raises ValueError for a cell without points."""
    found = []
    for cell in code:
        if "prediction" in cell["tags"]:
            found += [Item(key, "prediction", PREDICTION_POINTS, question) for key, question, _ in _calls(cell)]
    for cell in text:
        if "written" in cell["tags"]:
            name, points = cell["metadata"].get("task"), cell["metadata"].get("points")
            if not isinstance(name, str) or type(points) is not int or points < 1:
                raise ValueError(f"a cell tagged 'written' needs task and points, got task={name!r}, points={points!r}")
            found.append(Item(name, "written", points, stub=cell["source"]))
    return tuple(found)


def judge(wanted, lab_text, code, text):
    """A `Completion` for each of the `wanted` items, from a learner's cells; `lab_text` are the lab's own texts."""
    ranges: dict[str, str] = {}
    for cell in code:
        for key, _, given in _calls(cell):
            ranges[key] = given or ranges.get(key, "")  # a later cell left open does not undo an earlier one
    own = {_squeezed(cell["source"]) for cell in lab_text}
    return tuple(_completion(item, ranges, own, text) for item in wanted)


def _completion(item, ranges, own, text):
    given = ranges.get(item.name, "") if item.kind == "prediction" else _words(item, own, text)
    status = "done" if given else "missing"
    points = float(item.max_points) if given else 0.0
    return Completion(item.name, item.kind, status, points, item.max_points, item.question, given)


def _calls(cell):
    """(key, question, the range as text or "") of each `predict(key, question, low=, high=)` in a cell."""
    if "predict" not in cell["source"]:
        return
    tree = parse(cell["source"])
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "predict":
            ends = dict(zip(("key", "question", "low", "high"), node.args, strict=False))
            ends |= {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
            key, question = (getattr(ends.get(name), "value", None) for name in ("key", "question"))
            if isinstance(key, str):
                yield key, question if isinstance(question, str) else "", _range(ends.get("low"), ends.get("high"))


def _range(low, high):
    for end in (low, high):
        if end is None or (isinstance(end, ast.Constant) and not isinstance(end.value, int | float)):
            return ""
    return f"{ast.unparse(low)[:40]} to {ast.unparse(high)[:40]}"


def _words(item, own, text):
    """What the learner wrote into the item's cell, and into cells that they put below it."""
    place = next((i for i, cell in enumerate(text) if cell["metadata"].get("task") == item.name), None)
    if place is None:
        return ""
    written = [text[place]["source"]]
    for cell in text[place + 1 :]:
        if cell["metadata"].get("task") or _squeezed(cell["source"]) in own:
            break
        written.append(cell["source"])
    given = {line.strip() for line in item.stub.splitlines()}
    lines = [line for line in "\n\n".join(written).splitlines() if not line.strip() or line.strip() not in given]
    words = _WRAPPED.sub(" ", "\n".join(lines).strip())
    if not any(letter.isalnum() for letter in words):
        return ""
    return words if len(words) <= MAX_TEXT_CHARS else words[:MAX_TEXT_CHARS] + "\n[cut off]"


def _squeezed(source):
    return "".join(source.split())
