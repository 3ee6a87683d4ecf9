"""Predictions and answers in words: declared by a lab's cells, found in a learner's, never run."""

import json
from pathlib import Path

import pytest

from aiinfra.grading import completion
from aiinfra.grading.grade import load_lab
from aiinfra.grading.intake import notebooks

ROOT = Path(__file__).parents[1]
STUB = 'predict(\n    "share",\n    "Share in percent",\n    ...\n)'


def code(source):
    return {"source": source, "metadata": {}, "tags": ["prediction"]}


def words(source, task="why", points=3):
    return {
        "source": source,
        "metadata": {"task": task, "points": points} if task else {},
        "tags": ["written"] if task else [],
    }


PROMPT = words("**Your answer:**\n\n...")
NEXT = words("## The next part", task=None)
LAB_TEXT = [PROMPT, NEXT]
ITEMS = completion.items([code(STUB)], LAB_TEXT)


def judged(code_cells=(), text=()):
    return {
        each.name: (each.status, each.points, each.text) for each in completion.judge(ITEMS, LAB_TEXT, code_cells, text)
    }


def test_items_of_the_real_lab_and_of_its_solution():
    lab = load_lab("accelerators", ROOT / "labs" / "accelerators.ipynb")
    assert [(item.kind, item.max_points) for item in lab.items] == [("prediction", 1)] * 3 + [("written", 4)]
    solved = completion.judge(lab.items, lab.text, *notebooks.read_all(ROOT / "solutions" / "accelerators.ipynb"))
    assert [each.status for each in solved] == ["done"] * 4
    empty = completion.judge(lab.items, lab.text, *notebooks.read_all(ROOT / "labs" / "accelerators.ipynb"))
    assert [each.points for each in empty] == [0.0] * 4


@pytest.mark.parametrize(
    "source, given",
    [
        ('predict("share", "Share", low=3, high=8)', "3 to 8"),
        ('predict("share", "Share", 3, 4 * 2)', "3 to 4 * 2"),
        ('x = 2\npredict("share", "Share", low=x, high=8.5)', "x to 8.5"),
        ('predict(key="share", question="Share", low=-1, high=1)', "-1 to 1"),
        (STUB, ""),
        ('predict("share", "Share", low=3)', ""),
        ('predict("share", "Share", low=3, high=...)', ""),
        ('predict("share", "Share", low="a", high=3)', ""),
        ('predict("other", "Share", low=1, high=3)', ""),
        ('predict("share", "Share", low=1, high=', ""),
        ('predict(*["share"])', ""),
        ("predict(" * 3000, ""),
    ],
)
def test_a_prediction_is_a_range_that_was_committed_to(source, given):
    assert judged([code(source)])["share"] == (("done", 1.0, given) if given else ("missing", 0.0, ""))


def test_a_copy_of_the_cell_that_was_left_open_undoes_nothing():
    assert judged([code('predict("share", "", low=1, high=2)'), code(STUB)])["share"] == ("done", 1.0, "1 to 2")


@pytest.mark.parametrize(
    "cells, given",
    [
        ([words("**Your answer:**\n\nPower decides."), NEXT], "Power decides."),
        ([words("**Your answer:**\n\n...\nPower decides."), NEXT], "Power decides."),
        ([words("Power\n\ndecides."), NEXT], "Power\n\ndecides."),
        ([words("Power\ndecides:\n- 18 kW\n- 60 of C"), NEXT], "Power decides:\n- 18 kW\n- 60 of C"),
        ([PROMPT, words("Below it.", task=None), NEXT], "Below it."),
        ([PROMPT, NEXT, words("Somewhere else.", task=None)], ""),
        ([words("**Your answer:**"), NEXT], ""),
        ([words("**Your answer:**\n\n---"), NEXT], ""),
        ([words("电力决定。"), NEXT], "电力决定。"),
        ([NEXT], ""),
    ],
)
def test_an_answer_in_words_is_what_the_learner_added(cells, given):
    assert judged(text=cells)["why"] == (("done", 3.0, given) if given else ("missing", 0.0, ""))


def test_a_very_long_answer_is_cut_off():
    text = judged(text=[words("x" * 100_000)])["why"][2]
    assert len(text) < 21_000 and text.endswith("[cut off]")


@pytest.mark.parametrize(
    "metadata", [{"task": "why"}, {"points": 3}, {"task": "why", "points": "3"}, {"task": "why", "points": 0}]
)
def test_a_lab_must_declare_points(tmp_path, metadata):
    lab = json.loads((ROOT / "labs" / "accelerators.ipynb").read_text(encoding="utf-8"))
    lab["cells"].append({"cell_type": "markdown", "source": "?", "metadata": {"tags": ["written"], **metadata}})
    (tmp_path / "lab.ipynb").write_text(json.dumps(lab), encoding="utf-8")
    with pytest.raises(ValueError, match="a cell tagged 'written' needs task and points"):
        load_lab("accelerators", tmp_path / "lab.ipynb")
