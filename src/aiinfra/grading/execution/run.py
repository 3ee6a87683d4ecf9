"""Running an assembled notebook, again where it has to be, so that one answer costs only its own task.

A cell that does not end, that ends its own process or that uses too much takes the whole notebook with it. Its task is
then left out, and the rest runs again in a fresh sandbox. Interrupting the cell instead would be faster, but an
`except:` can swallow an interrupt, and the rest should not run beside what a broken cell left behind. For the same
reason an answer that fails after another one broke has a second run, alone.
"""

import dataclasses
import json
import secrets
import time
from dataclasses import dataclass, field

from aiinfra.grading.execution import harness, sandbox

_WHY = {
    "cell time": "Stopped: it did not end within {cell_s} seconds of computing.",
    "cell clock": "Stopped: it did not end within {cell_clock_s} seconds.",
    "time": "Stopped: the time of the whole notebook was over.",
    "memory": "Stopped: it used more than {gigabytes:.0f} GB of memory.",
    "processes": "Stopped: it started too many processes.",
    "output": "Stopped: it produced too much output.",
    "died": "The cell ended the process that it ran in.",
}


class Trouble(Exception):
    """The grader's own trouble, not the learner's: the sandbox or the lab's own cells did not run."""


class Stopped(Exception):
    """The grader was told to stop."""


@dataclass
class Told:
    """What a notebook told, by task: the `outcomes` of its function, or the `problems` for which there are none; the
    `errors` that its cells raised and what they `showed`."""

    outcomes: dict[str, list] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    showed: dict[str, str] = field(default_factory=dict)

    slow: set[str] = field(default_factory=set)  # tasks whose own cell was stopped for its time

    def waiting(self, names):
        """Those of `names` that nothing is known of yet."""
        return [name for name in names if name not in self.outcomes and name not in self.problems]

    def clean(self, name):
        """Whether the function of task `name` returned a value every time."""
        return all("value" in outcome for outcome in self.outcomes.get(name, [{}]))

    def hindered(self, names):
        """Those of `names` that may have failed for what the cell of another left behind, such as a full memory."""
        broken = self.errors.keys() | self.problems.keys()
        return [name for name in names if not self.clean(name) and name not in self.slow and broken - {name}]

    def adopt(self, other, name):
        """Take what `other` says about task `name` in place of what this says."""
        self.problems.pop(name, None)
        self.errors.pop(name, None)
        self.outcomes[name] = other.outcomes[name]
        self.showed[name] = other.showed.get(name, "")


@dataclass(frozen=True)
class _Cell:
    kind: str  # "setup", "answer" or "harness"
    source: str
    tasks: tuple[str, ...] = ()


def run(assembled, cases, limits, isolated, stop, warm=None):
    """What the `assembled` notebook `Told` about `cases`, a list of argument tuples for each task.

    For `limits` to `warm` see `sandbox.run`.

    Raises Trouble and Stopped.
    """
    told, deadline = Told(), time.monotonic() + limits.notebook_clock_s
    how = {"isolated": isolated, "stop": stop, "warm": warm}
    _run_together(told, assembled, cases, limits, deadline, how)
    for name in told.hindered(cases):
        alone, own = Told(), dataclasses.replace(assembled, answers={name: assembled.answers[name]})
        _run_together(alone, own, {name: cases[name]}, limits, deadline, how)
        if alone.clean(name):
            told.adopt(alone, name)
    return told


def _run_together(told, assembled, cases, limits, deadline, how):
    """Run until every task is settled. Each run settles at least one, so there are at most as many runs as tasks."""
    troubled = False
    while waiting := told.waiting(cases):
        left_s = int(deadline - time.monotonic())
        if left_s < 1:
            _settle(told, waiting, "Not reached: the time of the whole notebook was over.")
            return
        left = dataclasses.replace(limits, notebook_clock_s=left_s)
        try:
            _run_once(told, assembled, {name: cases[name] for name in waiting}, left, how)
        except Trouble:
            if troubled:
                raise
            troubled = True  # a busy machine may fail to start a kernel; it has a second chance


def _run_once(told, assembled, cases, limits, how):
    nonces = {name: secrets.token_hex(16) for name in cases}
    cells = _cells(assembled, told, cases, nonces)
    sources = [cell.source.encode("utf-8", "replace").decode() for cell in cells]  # half a surrogate is no text
    finished = sandbox.run({"cells": sources}, limits, **how)
    if finished.killed == "stopped":
        raise Stopped
    begun, done, end = _follow(finished.lines, cells)
    for cell, event in done:
        _note(told, cell, event, cases, nonces)
    if not any(cell.kind != "setup" for cell in begun):
        complaint = finished.complaint.strip()[-500:] or finished.killed or end
        raise Trouble(f"The notebook did not get as far as the first answer: {complaint}")
    last = begun[-1]
    if last not in [cell for cell, _ in done]:
        cause = finished.killed or end
        if cause in ("time", "cell time", "cell clock"):
            told.slow.update(last.tasks)
        why = _WHY.get(cause, _WHY["died"]).format(gigabytes=limits.memory_bytes / 1e9, **dataclasses.asdict(limits))
        _settle(told, told.waiting([name for name in last.tasks if name in cases]) or told.waiting(cases), why)
    else:
        _settle(told, told.waiting(cases), "Not reached: the notebook ended before.")


def _cells(assembled, told, cases, nonces):
    """The cells of one run: the setup, the answers that did no harm so far, and a harness for each task in `cases`."""
    cells = [_Cell("setup", source) for source in assembled.setup]
    owners: dict[str, list[str]] = {}  # of a cell; one that defines two functions belongs to two tasks
    for name, answer in assembled.answers.items():
        for source in answer.cells:
            owners.setdefault(source, []).append(name)
    for source, names in owners.items():
        if not any(name in told.problems for name in names):
            cells.append(_Cell("answer", source, tuple(names)))
    return cells + [_Cell("harness", harness.cell(name, cases[name], nonces[name]), (name,)) for name in cases]


def _follow(lines, cells):
    """The cells begun, (cell, event) of those done, and how it ended, as far as `lines` make sense."""
    begun, done, end = [], [], "died"
    for line in lines:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(event, dict):
            continue
        index = event.get("begin", event.get("done"))
        known = type(index) is int and 0 <= index < len(cells)
        if known and "begin" in event:
            begun.append(cells[index])
        elif known:
            done.append((cells[index], event))
        elif isinstance(event.get("end"), str):
            end = event["end"]
    return begun, done, end


def _note(told, cell, event, cases, nonces):
    """Put what the end of `cell` says into `told`; the first word on a task counts."""
    for name in cell.tasks:
        if cell.kind == "answer":
            told.showed[name] = _text(event.get("text"))
            if event.get("error"):
                told.errors[name] = _text(event["error"])
        elif name in told.waiting(cases):
            _note_outcomes(told, name, event.get("reports"), nonces[name], len(cases[name]))


def _note_outcomes(told, name, reports, nonce, n_cases):
    try:
        found = harness.outcomes(reports if isinstance(reports, list) else [], nonce, n_cases)
    except harness.Malformed as error:
        told.problems[name] = f"The answers could not be read: {error}."
        return
    if isinstance(found, list):
        told.outcomes[name] = found
    elif name in told.errors:
        told.problems[name] = f"The cell stopped before it defined {name}: {told.errors[name]}"
    else:
        told.problems[name] = f"{name} is {'missing' if found == 'nothing' else f'a {found}'}, expected a function."


def _settle(told, names, problem):
    told.problems.update(dict.fromkeys(names, problem))


def _text(value):
    return value[:10_000] if isinstance(value, str) else ""
