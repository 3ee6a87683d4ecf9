"""Finding the notebooks of a folder, and whose they are.

`alice.ipynb` is alice's, and so is every notebook in the folder `alice`. Where a student has several, the one changed
last counts and the others are named in the gradebook; of two changed at the same moment, the first by name.
Hidden files, checkpoints and symbolic links to folders are passed over; a symbolic link to a notebook is a submission
that can't be graded, so that its student has a row and learns why.
"""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Submission:
    """One student's notebook. `path` is None where the student's folder holds none; `others` are those not graded."""

    student: str
    path: Path | None
    others: tuple[Path, ...] = ()


def find(folder, without=None):
    """The submissions in `folder`, by student; the folder `without` (where the results go) is left out."""
    without = os.path.realpath(without) if without else None
    found: dict[str, list[Path]] = {}
    for entry in sorted(Path(folder).iterdir()):
        if entry.name.startswith(".") or os.path.realpath(entry) == without:
            continue
        if _is_notebook(entry.name):
            found.setdefault(entry.name[: -len(".ipynb")], []).append(entry)
        elif entry.is_dir() and not entry.is_symlink():
            found.setdefault(entry.name, []).extend(_notebooks_below(entry, without))
    return [_submission(student, paths) for student, paths in sorted(found.items())]


def _is_notebook(name):
    return name.endswith(".ipynb") and not name.startswith(".")


def _notebooks_below(folder, without):
    paths = []
    for here, folders, files in os.walk(folder, followlinks=False):
        folders[:] = [n for n in folders if not n.startswith(".") and os.path.realpath(Path(here, n)) != without]
        paths += [Path(here, name) for name in files if _is_notebook(name)]
        paths += [Path(here, name) for name in folders if _is_notebook(name)]  # not a file: its student learns why
    return sorted(paths)


def _submission(student, paths):
    newest_first = sorted(paths, key=lambda path: (-os.lstat(path).st_mtime_ns, str(path)))
    return Submission(student, newest_first[0] if newest_first else None, tuple(newest_first[1:]))
