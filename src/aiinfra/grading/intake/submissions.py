"""Finding the notebooks of a folder or a zip file, whose they are, and which of a student's versions counts.

Whose: `alice.ipynb` is alice's, and so is every notebook in the folder `alice`. Names as Canvas and Moodle give them
in a download of all submissions are understood, each by itself: `doejane_LATE_12345_67890_lab.ipynb` of Canvas,
`Jane Doe_12345_assignsubmission_file_/lab.ipynb` of Moodle, and Moodle's older `..._file_lab.ipynb`.

Which: RULE, below. Hidden files, checkpoints and symbolic links to folders are passed over; a symbolic link to a
notebook is a submission that can't be graded, so that its student has a row and learns why.
"""

import os
import re
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path

from aiinfra.grading.intake import archives

RULE = (
    "Of several notebooks of one student the newest counts; late ones only where none came in time, and are marked "
    "late. Newest: by Canvas's file number, elsewhere by the time of change, then the first by name. Late: with LATE "
    "in Canvas's name of the file, elsewhere changed after the deadline. Downloads of Canvas and Moodle carry no times "
    "of their own, so that the deadline says nothing about them. Being late costs no points here."
)
_MOODLE = re.compile(r"(?P<name>.+?)(?:_(?P<number>\d+))?_assignsubmission_[a-z]+_(?P<file>.*)", re.DOTALL)
_CANVAS = tuple(
    re.compile(who + r"_(?P<serial>\d+)_(?P<file>.+)", re.DOTALL)
    for who in (r"(?P<name>)(?P<late>LATE_)?(?P<number>anon_\w+?)", r"(?P<name>.+?)_(?P<late>LATE_)?(?P<number>\d+)")
)


@dataclass(frozen=True)
class Submission:
    """One student's notebook, and what is known about how it came.

    path : Path or None    None where there is nothing to grade; `problem` then says why
    others : tuple         the student's notebooks that are not graded; `notes` say why
    late : bool            came after the deadline
    number : str           by which Canvas or Moodle knows the student
    name : str             as Canvas or Moodle writes it
    parameters : dict      of the lab, for this student alone
    """

    student: str
    path: Path | None = None
    others: tuple[Path, ...] = ()
    problem: str = ""
    notes: tuple[str, ...] = ()
    late: bool = False
    number: str = ""
    name: str = ""
    parameters: dict = field(default_factory=dict)


@dataclass(frozen=True)
class _Version:
    """One file of a student. `serial` orders versions: a file number of Canvas, or a time of change."""

    student: str
    file: str
    path: Path | None
    problem: str
    late: bool
    serial: float
    number: str
    name: str


def find(source, without=None, deadline=None, unpack_to=None):
    """The submissions in the folder or zip file `source`, by student.

    without : Path         where the results go; passed over
    deadline : datetime    with a time zone; what was changed after it is late
    unpack_to : Path       where a zip file's notebooks are put; needed for one

    Raises ValueError for an archive that can't be used.
    """
    source = Path(source)
    entries = archives.unpack(source, unpack_to) if source.is_file() else list(_files(source, without))
    found: dict[str, list[_Version]] = {}
    for entry in entries:
        version = _version(entry, deadline)
        if version:
            found.setdefault(version.student, []).append(version)
    return [_submission(student, versions) for student, versions in sorted(found.items())]


def is_notebook(name):
    return name.lower().endswith(".ipynb") and not name.startswith(".")


def _files(folder, without):
    """Every file in `folder` as an `archives.Entry`, and empty folders, as students who handed in nothing."""
    without = os.path.realpath(without) if without else None
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith(".") or os.path.realpath(entry) == without:
            continue
        if entry.is_symlink() and entry.is_dir():
            continue
        if entry.is_dir() and not is_notebook(entry.name):
            yield archives.Entry((entry.name, ""))
            yield from _files_below(folder, entry, without)
        else:
            yield archives.Entry((entry.name,), entry)


def _files_below(folder, student, without):
    for here, folders, files in os.walk(student, followlinks=False):
        odd = [name for name in folders if is_notebook(name)]  # not a file: its student learns why
        folders[:] = [n for n in folders if not n.startswith(".") and os.path.realpath(Path(here, n)) != without]
        for name in sorted([*files, *odd]):
            path = Path(here, name)
            if not name.startswith("."):
                yield archives.Entry(path.relative_to(folder).parts, path)


def _version(entry, deadline):
    """The `_Version` that an entry is, or None where it is nobody's: a stray file beside the students' own."""
    first, file = entry.parts[0] if entry.parts else "", entry.parts[-1] if entry.parts else ""
    flat = len(entry.parts) == 1
    if moodle := _MOODLE.fullmatch(first):
        file = moodle["file"] if flat else file
        who, late, serial = moodle, False, _changed(entry.path)
    elif flat and (canvas := next(filter(None, (pattern.fullmatch(first) for pattern in _CANVAS)), None)):
        who, late, serial, file = canvas, bool(canvas["late"]), float(canvas["serial"]), canvas["file"]
    else:
        if flat and not is_notebook(first):
            return None
        student = first[: -len(".ipynb")] if flat else first
        serial = _changed(entry.path)
        late = bool(deadline and entry.path and serial / 1e9 > deadline.timestamp())
        return _Version(_normal(student), file, _graded_path(entry, file), entry.problem, late, serial, "", "")
    name, number = _normal(who["name"] or ""), who["number"] or ""
    student = "_".join(part for part in (name, number) if part)
    return _Version(student, file, _graded_path(entry, file), entry.problem, late, serial, number, name)


def _normal(name):
    """Letters with accents as one character, however the student's computer writes them in names of files."""
    return unicodedata.normalize("NFC", name)


def _changed(path):
    try:
        return float(os.lstat(path).st_mtime_ns) if path else 0.0
    except OSError:
        return 0.0


def _graded_path(entry, file):
    return entry.path if is_notebook(file) else None


def _submission(student, versions):
    """What counts of a student's `versions`, by RULE."""
    about = {"student": student, "number": versions[0].number, "name": versions[0].name}
    notebooks = [version for version in versions if version.path]
    if not notebooks:
        return Submission(**about, problem=_nothing(versions), late=all(version.late for version in versions))
    notebooks.sort(key=lambda version: (version.late, -version.serial, str(version.path)))
    first, others = notebooks[0], notebooks[1:]
    notes = ["Handed in late."] if first.late else []
    notes += [f"{other.path.name} was not graded: {_why_not(other, first)}." for other in others]
    notes += [version.problem for version in versions if version.problem]
    return Submission(
        **about, path=first.path, others=tuple(other.path for other in others), notes=tuple(notes), late=first.late
    )


def _why_not(other, first):
    if other.late and not first.late:
        return f"it is late, and {first.path.name} came in time"
    if other.serial == first.serial:
        return f"{first.path.name} is as new and comes first by name"
    return f"{first.path.name} is newer"


def _nothing(versions):
    """Why there is nothing to grade."""
    problems = [version.problem for version in versions if version.problem]
    if problems:
        return problems[0]
    files = [version.file for version in versions if version.file and not version.file.startswith(".")]
    packed = [file for file in files if file.lower().endswith((".zip", ".tar", ".gz", ".7z", ".rar"))]
    if packed:
        return f"{packed[0]} is an archive, which is not opened. Hand in the notebook itself."
    if files:
        return f"There is no notebook: what was handed in is {', '.join(sorted(files)[:3])}. Hand in a file .ipynb."
    return "There is no notebook in the student's folder."
