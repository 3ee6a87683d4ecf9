"""Tasks and their misconceptions: one module a chapter, each with `TASKS`."""

import importlib

from aiinfra.checks.tasks import Verdict, judge, outcome
from aiinfra.units import nearest

_SEED = "in the notebook"  # the grader draws other inputs
_MARKS = {"right": "✓", "wrong": "✗", "error": "✗", "not attempted": "…"}


def tasks(stem):
    """The tasks of chapter `stem` by name, in the order of its lab. Raises ValueError for an unknown chapter."""
    try:
        module = importlib.import_module(f"aiinfra.checks.{stem}")
    except ModuleNotFoundError:
        raise ValueError(f"there are no tasks for chapter {stem!r}") from None
    return {task.name: task for task in module.TASKS}


def example(stem, name, number=0):
    """The arguments of one call to the function of a task, the same for the same `number`.

    For the lab to show; neither a check nor the grader uses them.
    """
    return tasks(stem)[name].cases(f"example {number}", n=1)[0]


def check(stem, function, name=None):
    """Judge `function` as the answer to the task of chapter `stem` that has its name (or `name`), and say so.

    Never raises because of what the learner wrote: None, text, NaN and a function that raises are told apart.
    """
    name = name or getattr(function, "__name__", None)
    known = tasks(stem)
    if name not in known:
        raise ValueError(f"chapter {stem!r} has no task {name!r}; {nearest(name, known)}")
    task = known[name]
    if callable(function):
        cases = task.cases(_SEED)
        verdict = judge(task, cases, [outcome(function, case) for case in cases])
    elif function is None or function is Ellipsis:
        verdict = Verdict("not attempted", f"Not attempted yet: {name} is {function!r}, expected a function.")
    else:
        verdict = Verdict("error", f"{name} is a {type(function).__name__}, expected a function.")
    print(f"{_MARKS[verdict.status]} {name}: {verdict.says}")
    if verdict.status == "wrong" and task.read_again:
        print(f"  Read again: {task.read_again}")
