"""Grading a class: what is left to do, doing it, and writing down each result as soon as it is there."""

import contextlib
import dataclasses
import datetime
import os
import platform
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from aiinfra.grading.grade import TROUBLE, Settings, grade_all
from aiinfra.grading.intake.roster import Roster
from aiinfra.grading.intake.submissions import Submission
from aiinfra.grading.records import answers, feedback, gradebook, lms, manual, summary
from aiinfra.grading.records.journal import Journal, fingerprint
from aiinfra.grading.records.progress import Progress, printable


@dataclass(frozen=True)
class Plan:
    """What is to be graded and how.

    only : frozenset of str    students to grade; empty for all
    resume : bool              keep finished results that would come out the same
    lms : str or None          "canvas" or "moodle"
    assignment : str           its name in Canvas
    """

    settings: Settings
    submissions: list[Submission]
    only: frozenset = frozenset()
    resume: bool = False
    roster: Roster | None = None
    lms: str | None = None
    assignment: str = ""
    deadline: datetime.datetime | None = None


def run(plan, out, jobs, execute=None):
    """Grade by `plan` into the folder `out`, say how it went, and return the exit status.

    For `execute` see `grade_all`.
    """
    journal = Journal(out, plan.settings.lab.stem)
    marks = {submission.student: fingerprint(plan.settings, submission) for submission in plan.submissions}
    todo = _left(plan, journal, marks)
    before = journal.set_aside() if journal.results and not plan.resume and not plan.only else None
    journal.keep(_kept(plan, journal, todo))
    print(f"{len(plan.submissions)} students; {len(todo)} to grade, {len(journal.results)} kept.", flush=True)
    if before:
        print(f"Everything is graded again, as there is no --resume; the earlier results are in {before}.")
    writer = _Writer(plan, Path(out), journal)
    writer.write_table()
    kept = [journal.results[student][1] for student in marks if student in journal.results]
    progress = Progress(len(plan.submissions), kept)

    def each(result):
        journal.add(marks[result.student], result)
        writer.write_one(result)
        progress.add(result)

    try:
        grade_all(todo, plan.settings, jobs, each, execute)
    except KeyboardInterrupt:
        progress.close()
        n_graded = sum(student in journal.results for student in marks)
        print(f"Interrupted: {n_graded} of {len(marks)} are graded. Go on with --resume.", file=sys.stderr)
        return 130
    finally:
        progress.close()
        results, problems = writer.write_all()
    return _report(plan, out, results, problems)


@contextlib.contextmanager
def alone(out):
    """Keep a second grader out of the same folder, where the system can. Raises BlockingIOError where one is in it."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with Path(out, ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _left(plan, journal, marks):
    if plan.only:
        return [submission for submission in plan.submissions if submission.student in plan.only]
    if plan.resume:
        return [each for each in plan.submissions if not journal.knows(each.student, marks[each.student])]
    return plan.submissions


def _kept(plan, journal, todo):
    """Students whose earlier results stay. Who is not among the submissions any more stays under --only alone."""
    again = {submission.student for submission in todo}
    among = {submission.student for submission in plan.submissions} if not plan.only else journal.results
    return [student for student in journal.results if student in among and student not in again]


class _Writer:
    """Writes results into the folder, with the points that a person gave."""

    def __init__(self, plan, out, journal):
        self._plan, self._out, self._journal = plan, out, journal
        self._lab = plan.settings.lab
        self._students = [submission.student for submission in plan.submissions]
        (out / "feedback").mkdir(exist_ok=True)
        self._given, _ = self._read_manual()

    def _read_manual(self):
        students = {*self._students, *self._journal.results}
        return manual.read(self._out / manual.FILE, students, self._lab.max_points)

    def _results(self):
        results = [result for _, result in self._journal.results.values()]
        return [manual.apply(result, self._given, self._lab.max_points) for result in results]

    def write_one(self, result):
        self._write_feedback(manual.apply(result, self._given, self._lab.max_points))
        self.write_table()

    def write_table(self):
        """The gradebook, and the seed, should the run be killed."""
        gradebook.write_gradebook(self._out / "gradebook.csv", self._results(), list(self._lab.tasks), self._lab.items)
        if gradebook.earlier_seed(self._out / "results.json") != self._plan.settings.seed:
            gradebook.write_results(self._out / "results.json", [], self._about())

    def _write_feedback(self, result):
        feedback.write_feedback(feedback.path_of(self._out / "feedback", result.student), result, self._lab.stem)

    def write_all(self):
        """Everything once more, with manual.csv as it is now; (results, problems of manual.csv)."""
        written = [item.name for item in self._lab.items if item.kind == "written"]
        manual.add_rows(self._out / manual.FILE, self._journal.results, written)
        self._given, problems = self._read_manual()
        results = self._results()
        for result in results:
            self._write_feedback(result)
        self.write_table()
        gradebook.write_results(self._out / "results.json", results, self._about())
        gradebook.replace(self._out / "summary.html", summary.page(results, self._lab))
        if written:
            gradebook.replace(self._out / "answers.html", answers.page(results, self._lab))
        if self._plan.lms:
            lms.write(self._plan.lms, self._out, results, self._plan.roster, self._plan.assignment)
        return sorted(results, key=lambda result: result.student), problems

    def _about(self):
        settings = self._plan.settings
        packages = ("aiinfra", "papermill", "nbclient", "ipykernel")
        return {
            "lab": settings.lab.stem,
            "seed": settings.seed,
            "sandbox": "bubblewrap" if settings.isolated else "none",
            "deadline": self._plan.deadline and self._plan.deadline.isoformat(),
            "limits": dataclasses.asdict(settings.limits),
            "max_points": settings.lab.max_points,
            "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
        }


def _report(plan, out, results, problems):
    print(_table(results, plan.settings.lab.tasks))
    print(f"\nGradebook: {out / 'gradebook.csv'}")
    if plan.lms:
        print(f"Import:    {out / plan.lms}.csv, for {plan.lms.capitalize()}")
    print(f"Summary:   {out / 'summary.html'}")
    print(f"Feedback:  {out / 'feedback'}{os.sep}, a page for each student")
    if any(item.kind == "written" for item in plan.settings.lab.items):
        print(f"By hand:   {out / 'answers.html'}, to read; points go into {manual.FILE}, then grade with --resume")
    print(f"Details:   {out / 'results.json'}")
    if not plan.settings.isolated:
        print("Graded WITHOUT a sandbox: the notebooks could do whatever you can.")
    for problem in problems:
        print(f"Not used: {printable(problem)}", file=sys.stderr)
    return 1 if problems or any(result.status == TROUBLE for result in results) else 0


def _table(results, task_names):
    """The results as a table for the terminal: a mark for each task, and what needs a sentence."""
    rows = [("student", "points", "tasks", "status", "remarks")]
    for result in results:
        marks = " ".join(feedback.WORDS[task.status][0] for task in result.tasks)
        named = [
            task.misconception or ("uses the package" if task.status == "package" else "") for task in result.tasks
        ]
        remarks = "; ".join([*filter(None, named), *result.notes])
        row = (result.student, f"{result.points:g} of {result.max_points}", marks, result.status, remarks[:90])
        rows.append(tuple(map(printable, row)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    legend = f"Tasks in order: {', '.join(task_names)}.\n✓ right  ✗ wrong  ! did not run through  … not attempted"
    return "\n".join(["", *lines, "", legend])
