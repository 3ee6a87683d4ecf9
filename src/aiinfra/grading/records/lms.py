"""Files that Canvas and Moodle import.

Canvas ("Import grades"): the columns before the assignment as Canvas exports them; the assignment's column is called by
its name and number, `Lab 1 (98765)`, or by its name alone; a row with the points possible comes first.

Moodle: the grading worksheet of the assignment ("Upload grading worksheet"), recognised by Identifier, Grade and Last
modified (grade). Where students have no number in Moodle, because their notebooks did not come from there: username and
grade, for "Import grades" of the gradebook.

A grade stays empty where there was nothing to grade; whether that is a zero is the instructor's decision.
"""

import csv
import io
from pathlib import Path

from aiinfra.grading.grade import GRADED
from aiinfra.grading.intake.roster import Roster
from aiinfra.grading.records.gradebook import inert, remarks, replace
from aiinfra.grading.records.manual import BY_HAND

_CANVAS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
_CANVAS_MORE = ("Integration ID", "Root Account")
_MOODLE = (
    "Identifier", "Full name", "Email address", "Status", "Grade", "Maximum Grade", "Grade can be changed",
    "Last modified (submission)", "Last modified (grade)", "Feedback comments",
)  # fmt: skip


def write(kind, folder, results, roster=None, assignment=""):
    """Write `folder`/canvas.csv or moodle.csv, by `kind`."""
    rows = {"canvas": _canvas_rows, "moodle": _moodle_rows}[kind](results, roster, assignment)
    table = io.StringIO()
    csv.writer(table, lineterminator="\r\n").writerows([inert(cell) for cell in row] for row in rows)
    replace(Path(folder, f"{kind}.csv"), table.getvalue())


def _grade(result):
    return f"{result.points:g}" if result.status in (GRADED, BY_HAND) else ""


def _known(results, roster, kind):
    """(result, its row in the instructor's list or {}) of each result, in the order of the list."""
    if roster is None or roster.kind != kind:
        roster = Roster(kind, (), ())
    pairs = [(result, roster.of(result)) for result in results]
    order = {person.key: number for number, person in enumerate(roster.people)}
    pairs.sort(key=lambda pair: (order[pair[1].key] if pair[1] else len(order), pair[0].student))
    return [(result, person.row if person else {}) for result, person in pairs]


def _canvas_rows(results, roster, assignment):
    columns = _CANVAS
    if roster and roster.kind == "canvas":
        columns = tuple(column for column in roster.columns if column in _CANVAS + _CANVAS_MORE)
    most = max((result.max_points for result in results), default=0)
    yield [*columns, assignment]
    yield ["    Points Possible", *[""] * (len(columns) - 1), most]
    for result, row in _known(results, roster, "canvas"):
        login = "" if result.number else result.student
        own = {"Student": result.name or result.student, "ID": result.number, "SIS Login ID": login} | row
        yield [*(own.get(column, "") for column in columns), _grade(result)]


def _moodle_rows(results, roster, _assignment):
    if not (roster and roster.kind == "moodle") and not any(result.number for result in results):
        yield ["username", "grade", "feedback"]
        for result in results:
            yield [result.student, _grade(result), remarks(result)]
        return
    columns = roster.columns if roster and roster.kind == "moodle" else _MOODLE
    yield list(columns)
    for result, row in _known(results, roster, "moodle"):
        own = {
            "Identifier": f"Participant {result.number}",
            "Full name": result.name or result.student,
            "Maximum Grade": f"{result.max_points:.2f}",
            "Grade can be changed": "Yes",
            "Last modified (submission)": "-",
            "Last modified (grade)": "-",
        }
        own |= row
        own["Grade"] = _grade(result) or row.get("Grade", "")
        own["Feedback comments"] = "Late. See the feedback page." if result.late else "See the feedback page."
        yield [own.get(column, "") for column in columns]
