"""The list of a class, as an instructor has it: exported from Canvas or Moodle, or a table with a column `student`.

It says who is missing among the submissions, whom to release a notebook for, and under which numbers and logins a
learning management system knows the students. Which kind it is follows from its columns.
"""

import csv
import io
import re
from dataclasses import dataclass
from pathlib import Path

_HINT = (
    "expected a column student, or Canvas's export of grades (columns Student and ID), or Moodle's grading worksheet "
    "(column Identifier)"
)


@dataclass(frozen=True)
class Person:
    """One student of the list. `number` is what names of downloaded files have; `row` is the list's own."""

    name: str
    number: str
    logins: tuple[str, ...]
    row: dict

    @property
    def key(self):
        """What stays the same from release to grading, and is the student's alone."""
        return self.number or self.name

    @property
    def student(self):
        """The name of the student's folder and files."""
        return re.sub(r"[\0/\\]", "-", "_".join(part for part in (self.name, self.number) if part))


@dataclass(frozen=True)
class Roster:
    """`kind` is "canvas", "moodle" or "plain"."""

    kind: str
    columns: tuple[str, ...]
    people: tuple[Person, ...]

    def of(self, submission):
        """The `Person` whose submission it is, or None."""
        for person in self.people:
            if submission.number:
                if person.number == submission.number:
                    return person
            elif submission.student in (person.student, person.name, *person.logins):
                return person
        return None


def read(path):
    """The `Roster` in a CSV file. Raises ValueError, with the line, for one that can't be used."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the roster {path} can't be read: {error}") from None
    delimiter = ";" if ";" in text.partition("\n")[0] else ","
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    columns = tuple(column.strip() for column in rows.fieldnames or ())
    rows.fieldnames = list(columns)
    kind, person_of = _kind(columns, path)
    people: dict[str, Person] = {}
    for row in rows:
        row = {column: (value or "").strip() for column, value in row.items() if isinstance(column, str)}
        person = person_of(row)
        if person is None:
            continue
        if person.key in people:
            raise ValueError(f"the roster {path}, line {rows.line_num}: {person.key!r} is there already")
        people[person.key] = person
    if not people:
        raise ValueError(f"the roster {path} lists no student")
    return Roster(kind, columns, tuple(people.values()))


def _kind(columns, path):
    lower = {column.lower() for column in columns}
    if {"Student", "ID"} <= set(columns):
        return "canvas", _of_canvas
    if "Identifier" in columns:
        return "moodle", _of_moodle
    if "student" in lower:
        return "plain", _of_table
    raise ValueError(f"the roster {path} has the columns {', '.join(columns) or 'none'}; {_HINT}")


def _of_canvas(row):
    """Canvas has rows that are no students: the points possible, and whether grades are posted by hand."""
    if not row["ID"].isdigit():
        return None
    name = "".join(letter for letter in row["Student"].lower() if letter.isalnum())  # as its files have it
    logins = (row.get("SIS Login ID", ""), row.get("SIS User ID", ""), row["Student"])
    return Person(name, row["ID"], tuple(filter(None, logins)), row)


def _of_moodle(row):
    number = re.search(r"(\d+)$", row["Identifier"])
    if not number:
        return None
    logins = (row.get("Email address", ""), row.get("Username", ""), row.get("ID number", ""))
    return Person(row.get("Full name", ""), number[1], tuple(filter(None, logins)), row)


def _of_table(row):
    name = next((value for column, value in row.items() if column.lower() == "student"), "")
    return Person(name, "", (), row) if name else None
