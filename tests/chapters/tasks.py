"""What must hold of every chapter's tasks; each chapter's tests call it."""

import itertools

from aiinfra.checks import tasks
from aiinfra.checks.tasks import judge, outcome, plain, same

SEEDS = range(20)


def verdict(task, answer, cases):
    return judge(task, cases, [outcome(answer, case) for case in cases])


def assert_accepts(stem, name, answer):
    """`answer` is right on the inputs of many seeds."""
    task = tasks(stem)[name]
    for seed in SEEDS:
        found = verdict(task, answer, task.cases(seed))
        assert found.status == "right", f"{name}, seed {seed}: {found.says}"


def assert_tasks_are_sound(stem):
    """Each task accepts its reference, knows a stub, and tells every misconception from all else on every input."""
    for name, task in tasks(stem).items():
        assert task.misconceptions, f"{name} has no misconception"
        assert len({known.name for known in task.misconceptions}) == len(task.misconceptions)
        assert_accepts(stem, name, task.reference)
        cases_by_seed = [task.cases(seed) for seed in SEEDS]
        assert verdict(task, lambda *_: None, cases_by_seed[0]).status == "not attempted"
        assert verdict(task, lambda *_: float("nan"), cases_by_seed[0]).status == "wrong"
        assert verdict(task, lambda *_: "text", cases_by_seed[0]).status == "wrong"
        assert verdict(task, lambda *_: 1 / 0, cases_by_seed[0]).status == "error"
        for known in task.misconceptions:
            for cases in cases_by_seed:
                found = verdict(task, known.answer, cases)
                assert (found.status, found.misconception, found.n_right) == ("wrong", known.name, 0)
        _assert_all_differ(task, itertools.chain.from_iterable(cases_by_seed))


def _assert_all_differ(task, cases):
    answers = {"reference": task.reference, **{known.name: known.answer for known in task.misconceptions}}
    for case in cases:
        given = {name: plain(answer(*case)) for name, answer in answers.items()}
        for (a, one), (b, other) in itertools.combinations(given.items(), 2):
            assert not same(one, other, task.rel_tol), f"{task.name}{case}: {a!r} and {b!r} both give {one}"
