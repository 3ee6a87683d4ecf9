"""What an entry of the corpus is: a notebook, as readable Python, and the grade that it must get."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
LAB = ROOT / "labs" / "accelerators.ipynb"
FIRST, SECOND = "one_way_bytes_per_s", "rank_offers"
POINTS = {FIRST: 4, SECOND: 6}

RIGHT = "def one_way_bytes_per_s(n_links, link_gb_per_s):\n    return n_links * link_gb_per_s / 2 * 1e9\n"
RIGHT_SECOND = """
def rank_offers(offers):
    def worth(offer):
        halved = offer["sparse"] + (offer["accumulate"] == "fp16")
        return offer["tflops"] / 2**halved / offer["price_usd"]
    return [offer["name"] for offer in sorted(offers, key=worth, reverse=True)]
"""
ANSWERS = {FIRST: RIGHT, SECOND: RIGHT_SECOND}


@dataclass(frozen=True)
class Entry:
    """A submission. Its `tasks` are (status, points) of each task; none where it can't be graded."""

    name: str
    make: Callable[[Path], None]  # puts the submission at a path that ends in .ipynb
    tasks: dict[str, tuple[str, float]]
    says: str  # in the feedback


def answers(name, first=RIGHT, status="error", points=0.0, says="", second=RIGHT_SECOND, second_is=("right", 6.0)):
    """The lab with an answer to each task; mostly the `first` misbehaves, and the second is right."""
    given = {FIRST: first, SECOND: second}
    return Entry(name, lambda path: save(path, lab(given)), {FIRST: (status, points), SECOND: second_is}, says)


def harmless(name, first, says="Right on all"):
    """An answer that does something odd and is right."""
    return answers(name, first, "right", 4.0, says)


def unreadable(name, make, says):
    """A file that can't be graded."""
    return Entry(name, make, {}, says)


def notebook(name, change, first=("right", 4.0), second=("right", 6.0), says=""):
    """The lab with right answers, after `change(notebook)`."""

    def make(path):
        changed = lab(ANSWERS)
        change(changed)
        save(path, changed)

    return Entry(name, make, {FIRST: first, SECOND: second}, says)


def lab(given):
    """The lab as a parsed notebook, with the answers `given` by task."""
    parsed = json.loads(LAB.read_text(encoding="utf-8"))
    for cell in parsed["cells"]:
        cell["source"] = given.get(cell["metadata"].get("task"), cell["source"])
    return parsed


def save(path, parsed):
    path.write_text(json.dumps(parsed), encoding="utf-8")


def place_of(parsed, task):
    """The index of the answer cell of `task`."""
    return next(i for i, cell in enumerate(parsed["cells"]) if cell["metadata"].get("task") == task)
