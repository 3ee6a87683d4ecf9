"""What a task is, and how answers to it are judged: the same code in the learner's notebook and in the grader.

A task knows its reference, a source of random inputs, and the misconceptions that practitioners hold, each as code
with one sentence of feedback. Answers travel as plain JSON values ("outcomes"), so that they can be collected in
one process and compared in another.
"""

import copy
import itertools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass

MAX_ITEMS = 10_000  # of a list that an answer returns


@dataclass(frozen=True)
class Misconception:
    """A wrong answer that people really give. `answer` takes the task's inputs; `says` is shown to who gives it."""

    name: str
    answer: Callable
    says: str


@dataclass(frozen=True)
class Task:
    """One function that a learner writes.

    name : str              also the name of the learner's function
    reference : callable    the right answer
    inputs : callable       takes a `random.Random`, returns one tuple of arguments
    misconceptions : tuple  inputs are drawn again until each of them differs from the reference and from the others
    rel_tol : float         relative tolerance of numbers
    points : int            what the grader gives for a right answer
    read_again : str        where the book explains it, such as "accelerators.html#one-direction"
    """

    name: str
    reference: Callable
    inputs: Callable
    misconceptions: tuple[Misconception, ...] = ()
    rel_tol: float = 1e-6
    points: int = 1
    read_again: str = ""

    def cases(self, seed, n=6):
        """`n` tuples of arguments, the same for the same seed; each tells reference and misconceptions apart."""
        rng = random.Random(f"{self.name} {seed}")
        return [self._telling(rng) for _ in range(n)]

    def _telling(self, rng):
        for _ in range(10_000):
            case = self.inputs(rng)
            given = [
                plain(answer(*case)) for answer in (self.reference, *(known.answer for known in self.misconceptions))
            ]
            pairs = itertools.combinations(given, 2)
            if given[0] is not None and not any(same(one, other, self.rel_tol) for one, other in pairs):
                return case
        raise RuntimeError(f"{self.name}: no inputs in 10,000 draws tell all misconceptions apart")


@dataclass(frozen=True)
class Verdict:
    """How a task went. `status` is "right", "wrong", "not attempted" or "error"; `says` is one or two sentences."""

    status: str
    says: str
    n_right: int = 0
    n_cases: int = 0
    misconception: str | None = None


def outcome(function, case):
    """{"value": plain value} or {"error": text} of calling `function` on a copy of the arguments `case`."""
    try:
        return {"value": plain(function(*copy.deepcopy(case)))}
    except (Exception, SystemExit) as error:
        return {"error": f"{type(error).__name__}: {error}"[:300]}


def plain(value):
    """`value` as JSON has it: numbers, text, booleans, None, lists and dicts. Raises TypeError for anything else."""
    if value is Ellipsis:
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        if len(value) > MAX_ITEMS:
            raise TypeError(f"the answer has {len(value)} items; at most {MAX_ITEMS} are expected")
        return [plain(entry) for entry in value]
    if hasattr(value, "tolist"):  # NumPy arrays and scalars, torch tensors
        return plain(value.tolist())
    raise TypeError(f"the answer is of type {type(value).__name__}; expected numbers, text or lists of them")


def same(found, expected, rel_tol):
    """Whether two plain values agree: numbers within `rel_tol`, everything else exactly."""
    if _is_number(found) and _is_number(expected):
        return math.isclose(found, expected, rel_tol=rel_tol)
    if isinstance(found, list) and isinstance(expected, list):
        pairs = zip(found, expected, strict=False)
        return len(found) == len(expected) and all(same(a, b, rel_tol) for a, b in pairs)
    if isinstance(found, dict) and isinstance(expected, dict):
        return found.keys() == expected.keys() and all(same(found[k], expected[k], rel_tol) for k in expected)
    return type(found) is type(expected) and found == expected


def judge(task, cases, outcomes):
    """The `Verdict` on `outcomes`, one for each of `cases`; what they should be is computed here."""
    if len(outcomes) != len(cases):
        return Verdict("error", f"{task.name} was called {len(outcomes)} times of {len(cases)}.", 0, len(cases))
    expected = [plain(task.reference(*case)) for case in cases]
    right = [
        "value" in got and same(got["value"], want, task.rel_tol) for got, want in zip(outcomes, expected, strict=True)
    ]
    if all(right):
        return Verdict("right", f"Right on all {len(cases)} inputs.", len(cases), len(cases))
    if all("value" in got and got["value"] is None for got in outcomes):
        says = "Not attempted yet: the function returns nothing. (If you wrote it, is `return` missing?)"
        return Verdict("not attempted", says, 0, len(cases))
    named = _misconception(task, cases, outcomes)
    if named:
        return Verdict("wrong", named.says, sum(right), len(cases), named.name)
    first = right.index(False)
    status = "error" if "error" in outcomes[first] else "wrong"
    says = _first_wrong(task, cases[first], outcomes[first], expected[first]) + _factor(outcomes, expected)
    return Verdict(status, says, sum(right), len(cases))


def _misconception(task, cases, outcomes):
    for known in task.misconceptions:
        answers = [plain(known.answer(*case)) for case in cases]
        pairs = zip(outcomes, answers, strict=True)
        if all("value" in got and same(got["value"], wrong, task.rel_tol) for got, wrong in pairs):
            return known
    return None


def _first_wrong(task, case, got, expected):
    call = f"{task.name}({', '.join(_shown(argument) for argument in case)})"
    if "error" in got:
        return f"{call} raised {got['error']}."
    value = got["value"]
    if value is None:
        return f"{call} returned nothing."
    if _kind(value) != _kind(expected):
        return f"{call} returned {_shown(value)}, which is a {_kind(value)}; expected a {_kind(expected)}."
    if isinstance(value, float) and not math.isfinite(value):
        return f"{call} returned {value}; expected a finite number."
    if _is_number(expected):
        return f"{call} returned {_shown(value)}, which is too {'small' if value < expected else 'large'}."
    return f"{call} returned {_shown(value)}, which is not right."


def _factor(outcomes, expected):
    """A hint where every answer is wrong by the same factor: a unit or a constant is then at fault."""
    pairs = [(got.get("value"), want) for got, want in zip(outcomes, expected, strict=True)]
    if not all(_is_number(value) and _is_number(want) and value and want for value, want in pairs):
        return ""
    factors = [value / want for value, want in pairs]
    if not all(math.isclose(factor, factors[0], rel_tol=1e-4) for factor in factors):
        return ""
    return f" Every answer is {factors[0]:.4g} times the right one: look for a unit or a constant factor."


def _kind(value):
    """What a value is, in a word or a few: "number", "str", "list of dict"."""
    if isinstance(value, list) and value and len({_kind(entry) for entry in value}) == 1:
        return f"list of {_kind(value[0])}"
    return "number" if _is_number(value) else type(value).__name__


def _is_number(value):
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value):
    text = f"{value:.6g}" if isinstance(value, float) else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
