"""The journal of a run: every finished result at once on the disk, so that a killed run can go on where it was.

One line of JSON for each result, appended and flushed. A result is taken over only if all that it follows from is the
same: the lab, its tasks, the seed, the limits, the student's parameters and the content of their notebook. Only the
last line of a killed run may be incomplete; a line that is no result is passed over.
"""

import contextlib
import dataclasses
import hashlib
import importlib.util
import json
import os
import shutil
from pathlib import Path

import aiinfra
from aiinfra.grading.completion import Completion
from aiinfra.grading.grade import TROUBLE, Result, TaskResult
from aiinfra.grading.intake import notebooks
from aiinfra.grading.records.gradebook import finite, replace

FILE, ASIDE = "journal.jsonl", "journal.before.jsonl"


class Journal:
    """The results of a folder by student, and the open file that new ones are appended to."""

    def __init__(self, folder, stem):
        self._path, self._stem = Path(folder, FILE), stem
        self.results: dict[str, tuple[str, Result]] = dict(_entries(self._path, stem))

    def set_aside(self):
        """Copy the journal as it is now, and return where to; given back its name, it can be resumed."""
        aside = self._path.with_name(ASIDE)
        shutil.copy(self._path, aside)
        return aside

    def keep(self, students):
        """Forget the results of all but `students`, here and on the disk."""
        self.results = {student: self.results[student] for student in students}
        head = json.dumps({"lab": self._stem})
        lines = [head, *(_line(fingerprint, result) for fingerprint, result in self.results.values())]
        replace(self._path, "".join(line + "\n" for line in lines))

    def add(self, fingerprint, result):
        """Append `result`; it is on the disk when this returns."""
        self.results[result.student] = fingerprint, result
        with self._path.open("a", encoding="ascii") as file:
            file.write(_line(fingerprint, result) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def knows(self, student, fingerprint):
        """Whether there is a result that grading again would give again. The grader's own trouble is never kept."""
        known = self.results.get(student)
        return known is not None and known[0] == fingerprint and known[1].status != TROUBLE


def lab_of(folder):
    """The stem of the lab whose results are in `folder`, or None."""
    with (
        contextlib.suppress(OSError, ValueError, UnicodeDecodeError),
        Path(folder, FILE).open(encoding="ascii") as file,
    ):
        head = json.loads(file.readline())
        return head.get("lab") if isinstance(head, dict) else None
    return None


def fingerprint(settings, submission):
    """A hash of all that a result follows from."""
    try:
        content = notebooks.content(submission.path) if submission.path else b""
        said = hashlib.sha256(content).hexdigest()
    except notebooks.Unreadable as error:
        said = str(error)
    about = dataclasses.asdict(submission) | {"path": said, "others": []}
    return hashlib.sha256(json.dumps([_rules(settings), about], sort_keys=True, default=str).encode()).hexdigest()


def _rules(settings):
    """What is the same for all students: the lab, its tasks as code, and how they are run."""
    spec = importlib.util.find_spec(f"aiinfra.checks.{settings.lab.stem}")
    code = Path(spec.origin).read_bytes() if spec and spec.origin else b""
    return [
        aiinfra.__version__,
        settings.lab.stem,
        settings.lab.cells,
        settings.lab.text,
        hashlib.sha256(code).hexdigest(),
        settings.lab.max_points,
        settings.seed,
        settings.isolated,
        dataclasses.asdict(settings.limits),
    ]


def _line(fingerprint, result):
    entry = {"fingerprint": fingerprint, "result": finite(dataclasses.asdict(result))}
    return json.dumps(entry, allow_nan=False)


def _entries(path, stem):
    """(student, (fingerprint, result)) of every line that is one; of two of a student the later holds."""
    if lab_of(path.parent) != stem:
        return
    with path.open("rb") as file:
        for line in file:
            with contextlib.suppress(ValueError, TypeError, KeyError):
                entry = json.loads(line)
                result = result_of(entry["result"])
                yield result.student, (entry["fingerprint"], result)


def result_of(entry):
    """The `Result` whose fields a dict holds. Raises TypeError or KeyError where it is none of this version's."""
    return Result(
        **{
            **entry,
            "tasks": tuple(TaskResult(**task) for task in entry["tasks"]),
            "completion": tuple(Completion(**done) for done in entry["completion"]),
            "notes": tuple(entry["notes"]),
        }
    )
