"""From a submission to its result: what the sandbox told is compared with what is right, outside of it."""

import concurrent.futures
import functools
import math
import threading
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

from aiinfra.checks import judge, tasks
from aiinfra.grading import completion
from aiinfra.grading.completion import Completion, Item
from aiinfra.grading.execution.assemble import Answer, assemble
from aiinfra.grading.execution.run import Stopped, Told, run
from aiinfra.grading.execution.sandbox import Limits
from aiinfra.grading.execution.warm import Warm, worth_importing
from aiinfra.grading.intake import notebooks
from aiinfra.grading.parameters import inject_into_cells
from aiinfra.units import nearest

_TURN_S = 0.2
GRADED, NOT_GRADED, TROUBLE = "graded", "not graded", "grader's trouble"
_PACKAGE = (
    "This answer leans on the course's package: `{use}`. The package holds the answers, so it is not there while "
    "notebooks are graded, and an answer cell that uses it earns nothing. Write the steps yourself."
)
_OWN_CELLS = " Only answer cells are graded: put every import and helper that the function needs into its own cell."


@dataclass(frozen=True)
class Lab:
    """What is graded: the instructor's notebook as code and Markdown cells, the tasks by name, and what else counts."""

    stem: str
    cells: list
    tasks: dict
    text: list = field(default_factory=list)
    items: tuple[Item, ...] = ()

    @property
    def max_points(self):
        """Of the tasks by name, then of the predictions and written answers."""
        return {task.name: task.points for task in self.tasks.values()} | {i.name: i.max_points for i in self.items}


@dataclass(frozen=True)
class Settings:
    """How it is graded. Hidden inputs follow from `seed` and the student's name, so no two students have the same."""

    lab: Lab
    seed: int
    isolated: bool = True
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class TaskResult:
    """One task of one student. `status` is a Verdict's, "missing" or "package"; `source` and `showed` are theirs."""

    task: str
    status: str
    says: str
    points: float
    max_points: int
    misconception: str | None = None
    n_right: int = 0
    n_cases: int = 0
    read_again: str = ""
    source: str = ""
    showed: str = ""
    note: str = ""
    cases: list = field(default_factory=list)
    outcomes: list = field(default_factory=list)
    comment: str = ""
    by_hand: bool = False


@dataclass(frozen=True)
class Result:
    """One student. `notes` are remarks for student and instructor; `trouble` is a traceback of the grader's own."""

    student: str
    status: str
    points: float
    max_points: int
    tasks: tuple[TaskResult, ...] = ()
    notes: tuple[str, ...] = ()
    file: str = ""
    seconds: float = 0.0
    trouble: str = ""
    late: bool = False
    number: str = ""
    name: str = ""
    parameters: dict = field(default_factory=dict)
    completion: tuple[Completion, ...] = ()


def load_lab(stem, path=None):
    """The `Lab` of chapter `stem`, from labs/<stem>.ipynb or `path`. Raises ValueError where it can't be used."""
    path = Path(path or f"labs/{stem}.ipynb")
    known = tasks(stem)
    if not path.exists():
        raise ValueError(f"there is no {path} here; run this in the course's folder or say --lab-notebook PATH")
    try:
        cells, text = notebooks.read_all(path)
        items = completion.items(cells, text)
    except (notebooks.Unreadable, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None
    answered = {cell["metadata"].get("task") for cell in cells if "answer" in cell["tags"]}
    for name in known:
        if name not in answered:
            raise ValueError(f"{path} has no answer cell for task {name!r}; {nearest(name, answered - {None})}")
    return Lab(stem, cells, known, text, items)


def grade_all(submissions, settings, jobs, each, execute=None):
    """Grade `submissions`, `jobs` at a time, and call `each(result)` here, in this thread, as they come in.

    One submission never costs another its grade. Interrupted, it ends what is running and raises KeyboardInterrupt.

    execute : callable   runs one assembled notebook, with the arguments and the result of `run.run`, such as that of a
                         cluster; default here, in sandboxes with the imports done
    """
    if execute is None and settings.isolated and submissions:
        with Warm(settings.limits, worth_importing(settings.lab.cells)) as warm:
            return grade_all(submissions, settings, jobs, each, functools.partial(run, warm=warm))
    stop = threading.Event()
    pool = concurrent.futures.ThreadPoolExecutor(max_workers=jobs)
    try:
        waiting = {pool.submit(grade, submission, settings, stop, execute or run) for submission in submissions}
        while waiting:
            # In short turns: Ctrl-C that comes just before a wait would else be noticed only at the wait's end.
            done, waiting = concurrent.futures.wait(waiting, _TURN_S, concurrent.futures.FIRST_COMPLETED)
            for future in done:
                each(future.result())
    except BaseException:
        stop.set()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def grade(submission, settings, stop, execute=run):
    """The `Result` of one submission, whatever it holds. Raises Stopped alone. For `execute` see `grade_all`."""
    started = time.monotonic()
    max_points = sum(settings.lab.max_points.values())
    about = {"student": submission.student, "max_points": max_points, "file": str(submission.path or "")}
    about |= {name: getattr(submission, name) for name in ("late", "number", "name", "parameters")}
    notes = list(submission.notes)
    try:
        results, done, more = _grade_tasks(submission, settings, stop, execute)
        about |= {"status": GRADED, "points": points_of(results, done), "tasks": results, "completion": done}
        notes += more
    except notebooks.Unreadable as error:
        about |= {"status": NOT_GRADED, "points": 0.0}
        notes.append(str(error))
    except Stopped:
        raise
    except Exception as error:  # a fault of the grader's costs one notebook its grade, and says so, not the batch
        about |= {"status": TROUBLE, "points": 0.0, "trouble": traceback.format_exc()}
        notes.append(
            f"The grader failed ({type(error).__name__}: {str(error)[:300]}). This is not the student's fault."
        )
    return Result(**about, notes=tuple(notes), seconds=round(time.monotonic() - started, 2))


def _grade_tasks(submission, settings, stop, execute):
    if submission.path is None:
        raise notebooks.Unreadable(submission.problem)
    known = settings.lab.tasks
    code, text = notebooks.read_all(submission.path)
    assembled = assemble(inject_into_cells(settings.lab.cells, submission.parameters), code, known)
    cases = {
        name: known[name].cases(f"{settings.seed} {submission.student!a}")
        for name, answer in assembled.answers.items()
        if answer.cells
    }
    told = execute(assembled, cases, settings.limits, settings.isolated, stop)
    results = tuple(_judge(known[name], assembled.answers[name], cases.get(name, []), told) for name in known)
    done = completion.judge(settings.lab.items, settings.lab.text, code, text)
    return results, done, ([] if settings.isolated else ["Graded without a sandbox."])


def points_of(tasks, done):
    """All points of a student, from results of tasks and of what counts by being done."""
    return round(math.fsum(each.points for each in (*tasks, *done)), 2)


def _judge(task, answer: Answer, cases, told: Told):
    outcomes = told.outcomes.get(task.name, [])
    result = {
        "task": task.name,
        "max_points": task.points,
        "points": 0.0,
        "n_cases": len(cases),
        "source": answer.source,
        "showed": told.showed.get(task.name, ""),
        "note": answer.note,
        "cases": cases,
        "outcomes": outcomes,
    }
    use = answer.package or _masked_use(outcomes)
    if not answer.cells:
        result |= {"status": "missing", "says": f"The answer cell is missing: no cell defines {task.name}."}
    elif use:
        result |= {"status": "package", "says": _PACKAGE.format(use=use), "read_again": task.read_again}
    elif task.name in told.problems:
        result |= {"status": "error", "says": told.problems[task.name]}
    else:
        result |= _verdict(task, cases, outcomes)
    return TaskResult(**result)


def _masked_use(outcomes):
    used = any("NotWhileGrading" in outcome.get("error", "") for outcome in outcomes)
    return "seen when it was called" if used else None


def _verdict(task, cases, outcomes):
    verdict = judge(task, cases, outcomes)
    points = float(task.points) if verdict.status == "right" else 0.0
    if verdict.status in ("wrong", "error") and not verdict.misconception:
        points = round(task.points * verdict.n_right / verdict.n_cases, 2)
    unknown_name = any(outcome.get("error", "").startswith("NameError") for outcome in outcomes)
    return {
        "status": verdict.status,
        "says": verdict.says + (_OWN_CELLS if unknown_name else ""),
        "points": points,
        "misconception": verdict.misconception,
        "n_right": verdict.n_right,
        "read_again": "" if verdict.status == "right" else task.read_again,
    }
