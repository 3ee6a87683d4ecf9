"""Points that a person gives: manual.csv beside the gradebook.

It has a row for each answer in words; points and comment are empty at first. A number given there replaces what the
grader gave, for any task of the lab; a comment goes to the student. The grader adds rows for students who are new and
never changes one, so that the file survives every re-grading.
"""

import csv
import io
import math
from dataclasses import dataclass, replace
from pathlib import Path

from aiinfra.grading.grade import NOT_GRADED, TaskResult, points_of
from aiinfra.grading.records.gradebook import inert
from aiinfra.grading.records.gradebook import replace as write_whole
from aiinfra.units import nearest

FILE = "manual.csv"
COLUMNS = ("student", "task", "points", "comment")
BY_HAND = "graded by hand"


@dataclass(frozen=True)
class Given:
    """What a person gave for one task of one student. `points` is None where only a comment was given."""

    points: float | None
    comment: str


def read(path, students, max_points):
    """({(student, task): Given}, problems), each problem a sentence with the number of its line.

    students : collection of str
    max_points : dict              by the name of a task
    """
    path = Path(path)
    if not path.exists():
        return {}, []
    text = _text(path)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text))
    students = {student.strip(): student for student in students}
    given: dict[tuple[str, str], Given] = {}
    problems = []
    header = [name.strip().lower() for name in next(rows, [])]
    if header[: len(COLUMNS)] != list(COLUMNS):
        return {}, [f"{path}, line 1: the columns must be {', '.join(COLUMNS)}; they are {', '.join(header)}"]
    for row in rows:
        if not any(cell.strip() for cell in row):
            continue
        place = f"{path}, line {rows.line_num}"
        cells = [cell.strip() for cell in (*row, "", "", "", "")[: len(COLUMNS)]]
        student, task, points, comment = (_bare(cells[0]), *cells[1:])
        if not points and not comment:
            continue
        problem = _problem((student, task), points, given, students, max_points)
        if problem:
            problems.append(f"{place}: {problem}")
        else:
            given[students[student], task] = Given(_number(points), comment)
    return given, problems


def _text(path):
    raw = path.read_bytes()
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("cp1252", errors="replace")  # as Excel saves "CSV"


def _delimiter(text):
    """Excel writes a semicolon where the comma is the decimal sign."""
    return ";" if ";" in text.partition("\n")[0] else ","


def _number(points):
    return float(points.replace(",", ".")) if points else None


def _problem(key, points, given, students, max_points):
    student, task = key
    if student not in students:
        return f"student {student!r} handed in nothing here; {nearest(student, students)}"
    if task not in max_points:
        return f"task {task!r} is not in this lab; {nearest(task, max_points)}"
    if (students[student], task) in given:
        return f"{student!r} has points or a comment for {task!r} in an earlier line, which holds"
    try:
        value = _number(points) or 0.0
    except ValueError:
        value = math.nan
    if not 0 <= value <= max_points[task]:
        return f"points must be a number from 0 to {max_points[task]}, got {points!r}"
    return None


def _bare(student):
    """The name that `inert` protected."""
    return student[1:] if student[:1] == "'" and inert(student[1:]) == student else student


def add_rows(path, students, written):
    """Append an empty row for each answer in words, of the tasks `written`, that has none; make the file if need be."""
    path = Path(path)
    text = _text(path) if path.exists() else ""
    delimiter = _delimiter(text)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    there = {(_bare(row[0].strip()), row[1].strip()) for row in rows if len(row) > 1}
    new = [(student, task) for student in sorted(students) for task in written if (student.strip(), task) not in there]
    if not new and path.exists():
        return
    table = io.StringIO()
    writer = csv.writer(table, delimiter=delimiter, lineterminator="\n")
    if not text:
        writer.writerow(COLUMNS)
    writer.writerows([inert(student), task, "", ""] for student, task in new)
    write_whole(path, text + ("" if not text or text.endswith("\n") else "\n") + table.getvalue())


def apply(result, given, max_points):
    """`result` with what a person gave for it; a notebook that could not be graded can be given points, too."""
    mine = {task: entry for (student, task), entry in given.items() if student == result.student}
    if not mine:
        return result
    tasks = tuple(_with(task, mine.get(task.task)) for task in result.tasks)
    done = tuple(_with(item, mine.get(item.name)) for item in result.completion)
    status = result.status
    if status == NOT_GRADED and any(entry.points is not None for entry in mine.values()):
        status = BY_HAND
        tasks = tuple(
            TaskResult(task, "by hand", "", entry.points or 0.0, max_points[task], comment=entry.comment, by_hand=True)
            for task, entry in mine.items()
        )
    return replace(result, tasks=tasks, completion=done, status=status, points=points_of(tasks, done))


def _with(entry, given):
    if given is None:
        return entry
    points = entry.points if given.points is None else given.points
    return replace(entry, points=points, comment=given.comment, by_hand=given.points is not None)
