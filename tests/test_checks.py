"""The checks' mechanism: what a learner reads for every kind of answer."""

import math

import numpy as np
import pytest

from aiinfra.checks import check, tasks
from aiinfra.checks.tasks import Misconception, Task, judge, outcome, plain, same

AREA = Task(
    name="area",
    reference=lambda a, b: a * b,
    inputs=lambda rng: (rng.uniform(2, 3), rng.uniform(4, 5)),
    misconceptions=(Misconception("perimeter", lambda a, b: 2 * (a + b), "This is the way around."),),
)


def verdict(answer):
    cases = AREA.cases("seed")
    return judge(AREA, cases, [outcome(answer, case) for case in cases])


@pytest.mark.parametrize(
    ("answer", "status", "says"),
    [
        (lambda a, b: b * a, "right", "Right on all 6 inputs."),
        (lambda a, b: np.float64(a) * b, "right", "Right on all 6 inputs."),
        (lambda a, b: np.array(a * b), "right", "Right on all 6 inputs."),
        (lambda a, b: None, "not attempted", "Not attempted yet"),
        (lambda a, b: ..., "not attempted", "Not attempted yet"),
        (lambda a, b: 2 * (a + b), "wrong", "This is the way around."),
        (lambda a, b: 8 * a * b, "wrong", "Every answer is 8 times the right one"),
        (lambda a, b: a * b + 1, "wrong", "which is too large."),
        (lambda a, b: math.nan, "wrong", "returned nan; expected a finite number"),
        (lambda a, b: "12", "wrong", "returned '12', which is a str; expected a number"),
        (lambda a, b: [a, b], "wrong", "which is a list of number; expected a number"),
        (lambda a, b: object(), "error", "raised TypeError: the answer is of type object"),
        (lambda a, b: 1 / 0, "error", "raised ZeroDivisionError: division by zero"),
        (lambda a: a, "error", "raised TypeError"),
        (lambda a, b: exit(), "error", "raised SystemExit"),
    ],
)
def test_what_an_answer_is_told(answer, status, says):
    found = verdict(answer)
    assert found.status == status
    assert says in found.says


def test_half_right_is_counted_and_not_called_a_misconception():
    cases = AREA.cases("seed")
    outcomes = [outcome(AREA.reference, case) for case in cases[:4]] + [{"value": 1.0}, {"error": "late"}]
    found = judge(AREA, cases, outcomes)
    assert (found.n_right, found.n_cases, found.misconception) == (4, 6, None)


def test_missing_outcomes_are_an_error():
    assert judge(AREA, AREA.cases(1), []).status == "error"


def test_inputs_are_the_same_for_the_same_seed_only():
    assert AREA.cases(1) == AREA.cases(1) != AREA.cases(2)


def test_inputs_that_cannot_tell_a_misconception_from_the_answer_are_not_used():
    rounded = Misconception("rounded", lambda a, b: float(round(a) * round(b)), "This rounds before it multiplies.")
    task = Task("area", AREA.reference, lambda rng: (rng.choice((2, 2.5)), rng.choice((4, 4.5))), (rounded,))
    assert (2, 4) not in {case for seed in range(50) for case in task.cases(seed)}
    hopeless = Task("area", AREA.reference, AREA.inputs, (Misconception("the same", lambda a, b: b * a, "No."),))
    with pytest.raises(RuntimeError, match="area: no inputs in 10,000 draws"):
        hopeless.cases(0)


def test_an_answer_that_changes_its_arguments_cannot_spoil_them():
    case = ([1, 2, 3],)
    assert outcome(lambda values: values.clear() or 0, case) == {"value": 0}
    assert case == ([1, 2, 3],)


def test_plain_and_same():
    assert plain((1, [2.5, None], {"a": np.int64(3)})) == [1, [2.5, None], {"a": 3}]
    assert same([1.0, {"a": 2.0}], [1.0 + 1e-9, {"a": 2.0}], 1e-6)
    assert not same([1.0], [1.0, 2.0], 1e-6)
    assert not same(True, 1.0, 1e-6)
    assert not same(math.nan, math.nan, 1e-6)
    with pytest.raises(TypeError, match="20001 items"):
        plain([0] * 20_001)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (None, "… ring_all_reduce_s: Not attempted yet: ring_all_reduce_s is None, expected a function."),
        ("text", "✗ ring_all_reduce_s: ring_all_reduce_s is a str, expected a function."),
        (math.nan, "✗ ring_all_reduce_s: ring_all_reduce_s is a float, expected a function."),
        (tasks("accelerators")["ring_all_reduce_s"].reference, "✓ ring_all_reduce_s: Right on all 6 inputs."),
    ],
)
def test_check_prints_and_never_raises(answer, says, capsys):
    check("accelerators", answer, "ring_all_reduce_s")
    assert capsys.readouterr().out.splitlines()[0] == says


def test_an_unknown_task_or_chapter_is_named():
    with pytest.raises(ValueError, match="no task 'ring_all_reduce'; nearest: 'ring_all_reduce_s'"):
        check("accelerators", lambda: 0, "ring_all_reduce")
    with pytest.raises(ValueError, match="no tasks for chapter 'nowhere'"):
        tasks("nowhere")
