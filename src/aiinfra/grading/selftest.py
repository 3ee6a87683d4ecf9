"""`aiinfra grade --self-test`: does the grader work here, and does it grade every lab as it should?

The sandbox is tried with notebooks that do what they must not. Each lab is graded with its solution, with the empty
lab, and with every misconception in turn: the right answer to all tasks but some, whose answers hold one. Such an
answer is a table of what the misconception gives for the hidden inputs, which the grader alone can draw.
"""

import json
import sys
import tempfile
from pathlib import Path

from aiinfra.checks.tasks import Task, plain
from aiinfra.grading.execution.available import why_not
from aiinfra.grading.execution.sandbox import Limits
from aiinfra.grading.grade import Lab, Settings, grade_all, load_lab
from aiinfra.grading.intake.submissions import Submission
from aiinfra.grading.records.feedback import page

_KIND = "There is nothing to grade yet."
_PROBE = """
import os, pathlib, socket

def probe():
    def can(action):
        try:
            return bool(action())
        except (OSError, ImportError):
            return False
    forbidden = {
        "reach the network": lambda: socket.create_connection(("1.1.1.1", 53), 1),
        "reach this machine's own services": lambda: [name for _, name in socket.if_nameindex() if name != "lo"],
        "read the home folder": lambda: [name for name in os.listdir(HOME) if name not in PYTHON],
        "read labs, solutions and submissions": lambda: [name for name in os.listdir(COURSE) if name not in PYTHON],
        "write into the system": lambda: open("/usr/forged", "w"),
        "see processes of others": lambda: len([pid for pid in os.listdir("/proc") if pid.isdigit()]) > 12,
        "be root": lambda: os.getuid() == 0,
        "use the course's package": lambda: pathlib.Path(__import__("aiinfra").__file__).name == "__init__.py",
    }
    return [what for what, action in forbidden.items() if can(action)]
"""
_FORBIDDEN = (
    "reach the network", "reach this machine's own services", "read the home folder",
    "read labs, solutions and submissions", "write into the system", "see processes of others", "be root",
    "use the course's package",
)  # fmt: skip
_GREEDY = {
    "run for ever": ("while True:\n    pass", "did not end within"),
    "use more memory than it may": ("block = b'x' * (64 << 30)", "MemoryError"),
    "end its own process": ("import os\nos._exit(0)", "ended the process"),
}


def main(options):
    """Run it, print a short report, and return 0 where all is well, 1 where something is not, 2 for wrong use."""
    from aiinfra.grading.command import refuse

    root = Path.cwd()
    stems = [options.lab] if options.lab else sorted(path.stem for path in (root / "labs").glob("*.ipynb"))
    if not stems:
        return refuse(f"there is no lab in {root / 'labs'}; run this in the course's folder")
    problem = None if options.no_sandbox else why_not()
    if problem:
        return refuse(problem)
    print("Sandbox: bubblewrap" if not options.no_sandbox else "Sandbox: NONE, notebooks can do whatever you can")
    failed = _report(_try_sandbox(root, isolated=not options.no_sandbox), options.no_sandbox)
    for stem in stems:
        print(f"\nLab {stem}")
        try:
            failed += _report(_try_lab(root, stem, not options.no_sandbox, options.jobs, options.seed or 0))
        except (ValueError, OSError) as error:
            failed += _report([(False, str(error))])
    print(f"\n{'All is well.' if not failed else f'{failed} of the above failed.'}")
    return 1 if failed else 0


def _report(findings, only_said=False):
    """Print each (whether it is so, what) and return how many are not; `only_said` takes none of them for a failure."""
    failed = 0
    for holds, what in findings:
        print(f"  {'✓' if holds else '✗'} {what}", flush=True)
        failed += not holds
    return 0 if only_said else failed


def _try_sandbox(root, isolated):
    """(whether it is so, what) of what a notebook must not be able to do."""
    names = ["probe", *_GREEDY]
    tasks = {name: Task("probe", lambda: [], lambda rng: ()) for name in ("probe",)}
    lab = Lab("self-test", [_cell("def probe():\n    ...", "probe", "answer")], tasks)
    sources = {"probe": _probe(root)}
    sources |= {name: source for name, (source, _) in _GREEDY.items()}
    settings = Settings(lab, seed=0, isolated=isolated, limits=Limits(cell_s=5))
    results = _grade({name: {"cells": [_cell(sources[name], "probe", "answer")]} for name in names}, settings, 2)
    probe = results["probe"].tasks[0]
    could = probe.outcomes[0].get("value") if probe.outcomes else None
    if not isinstance(could, list):
        yield False, f"a notebook runs in the sandbox: {probe.says}{results['probe'].trouble[-500:]}"
        return
    for what in _FORBIDDEN:
        yield what not in could, f"a notebook can not {what}"
    for what, (_, expected) in _GREEDY.items():
        says = results[what].tasks[0].says if results[what].tasks else str(results[what].notes)
        yield expected in says, f"a notebook that would {what} is stopped"


def _probe(root):
    """The source of an answer that tries what it must not. The way to Python itself may be there."""
    prefixes = [Path(prefix) for prefix in (sys.prefix, sys.base_prefix)]
    python = [p.relative_to(top).parts[0] for p in prefixes for top in (root, Path.home()) if p.is_relative_to(top)]
    source = _PROBE
    for name, value in (("HOME", str(Path.home())), ("COURSE", str(root)), ("PYTHON", python)):
        source = source.replace(name, repr(value))
    return source


def _cell(source, task, tag):
    return {"cell_type": "code", "source": source, "metadata": {"task": task, "tags": [tag]}, "tags": [tag]}


def _grade(notebooks, settings, jobs):
    """Results by student of `notebooks`, by student."""
    results = {}
    with tempfile.TemporaryDirectory(prefix="aiinfra-self-test-") as folder:
        submissions = []
        for number, (student, notebook) in enumerate(notebooks.items()):
            path = Path(folder, f"{number}.ipynb")
            path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, **notebook}), "utf-8")
            submissions.append(Submission(student, path))
        grade_all(submissions, settings, jobs, lambda result: results.update({result.student: result}))
    return results


def _try_lab(root, stem, isolated, jobs, seed):
    """(whether it is so, what) of how a lab is graded."""
    lab = load_lab(stem, root / "labs" / f"{stem}.ipynb")
    settings = Settings(lab, seed=seed, isolated=isolated)
    solution = json.loads((root / "solutions" / f"{stem}.ipynb").read_text(encoding="utf-8"))
    empty = json.loads((root / "labs" / f"{stem}.ipynb").read_text(encoding="utf-8"))
    rounds = _rounds(lab.tasks)
    notebooks = {"solution": solution, "empty": empty}
    for number, held in enumerate(rounds):
        student = f"round {number}"
        notebooks[student] = _with(solution, {n: _table(lab.tasks[n], m, settings, student) for n, m in held.items()})
    results = _grade(notebooks, settings, jobs)
    most = sum(lab.max_points.values())
    yield results["solution"].points == most, f"the solution has {results['solution'].points:g} of {most} points"
    yield results["empty"].points == 0, f"the empty lab has {results['empty'].points:g} points"
    yield _KIND in page(results["empty"], stem), f"its feedback is kind: “{_KIND}”"
    n_held = 0
    for number, held in enumerate(rounds):
        for task in results[f"round {number}"].tasks or ():
            wanted = held[task.task].name if task.task in held else None
            n_held += wanted is not None
            points = 0 if wanted else task.max_points
            if (task.misconception, task.points) != (wanted, points):
                says = f"{task.points:g} points, {task.misconception or task.status}"
                yield False, f"{task.task} with {wanted or 'the right answer'}: expected {points} points, got {says}"
    n_known = sum(len(task.misconceptions) for task in lab.tasks.values())
    yield n_held == n_known, f"{n_held} of {n_known} misconceptions were named and lost their own task alone"


def _rounds(tasks):
    """Which misconception each task holds, notebook by notebook: half of the tasks at a time, the others right."""
    rounds = []
    names = list(tasks)
    for parity in (0, 1):
        mine = names[parity::2]
        for number in range(max((len(tasks[name].misconceptions) for name in mine), default=0)):
            known = {name: tasks[name].misconceptions[number : number + 1] for name in mine}
            rounds.append({name: held[0] for name, held in known.items() if held})
    return rounds


def _table(task, misconception, settings, student):
    """The source of a function that gives what `misconception` gives for the hidden inputs of `student`."""
    cases = task.cases(f"{settings.seed} {student!a}")
    given = {repr(case): plain(misconception.answer(*case)) for case in cases}
    return f"def {task.name}(*case):\n    return {given!r}[repr(case)]"


def _with(notebook, answers):
    """The notebook with other `answers`, by task."""
    cells = [
        {**cell, "source": answers.get(cell["metadata"].get("task"), cell["source"])} for cell in notebook["cells"]
    ]
    return {**notebook, "cells": cells}
