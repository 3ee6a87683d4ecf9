"""The grader on a corpus of hostile and broken notebooks: each has the grade that it must have, and leaves no trace."""

import html
import os
import socket
import tempfile

import psutil
import pytest

from aiinfra.checks import accelerators
from aiinfra.grading.execution.sandbox import Limits
from aiinfra.grading.grade import Settings, grade_all, load_lab
from aiinfra.grading.intake.submissions import find
from aiinfra.grading.records.feedback import page
from tests.grading_corpus import behaviour, files
from tests.grading_corpus.entry import LAB, POINTS, Entry

ENTRIES = behaviour.ENTRIES + files.ENTRIES
MARKER = f"86398.{os.getpid()}"  # seconds that only a process of this run sleeps
# What computes is stopped by processor time, on any machine; what waits, by the clock, after a long time for a cell.
LIMITS = Limits(cell_s=3, cell_clock_s=15, memory_bytes=1 << 30, file_bytes=32 << 20, disk_bytes=64 << 20)
JOBS = 4  # some wait


@pytest.fixture(scope="module")
def corpus(sandbox, tmp_path_factory):
    """(results by student, feedback pages by student) of the whole corpus, with good notebooks among it."""
    folder, scratch = tmp_path_factory.mktemp("corpus"), tmp_path_factory.mktemp("scratch")
    children = {child.pid for child in psutil.Process().children()}
    with pytest.MonkeyPatch.context() as patch, socket.create_server(("127.0.0.1", 0)) as server:
        patch.setattr(accelerators, "TASKS", [task for task in accelerators.TASKS if task.name in POINTS])
        patch.setattr(tempfile, "tempdir", str(scratch))
        words = {"MARKER": MARKER, "FOLDER": str(folder), "PORT": str(server.getsockname()[1])}
        for entry in all_of_it():
            entry.make(folder / f"{entry.name}.ipynb")
            fill_in(folder / f"{entry.name}.ipynb", words)
        results = {}
        settings = Settings(load_lab("accelerators", LAB), seed=7, limits=LIMITS)
        grade_all(find(folder), settings, JOBS, lambda result: results.update({result.student: result}))
    left = [child.cmdline() for child in psutil.Process().children() if child.pid not in children]
    return results, {name: as_written(page(result, "accelerators")) for name, result in results.items()}, left, scratch


def said(result):
    """What the grader said about `result`, in one line."""
    return repr([*result.notes, *(task.says for task in result.tasks)])


def as_written(text):
    """`text` as it is in a file: half a surrogate has no place in one."""
    return text.encode("utf-8", "backslashreplace").decode()


def all_of_it():
    """The corpus, with each of the good notebooks several times among it."""
    good = [
        Entry(f"{entry.name} {n}", entry.make, entry.tasks, entry.says) for entry in behaviour.GOOD for n in range(2)
    ]
    return ENTRIES + good


def fill_in(path, words):
    if path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 20:
        content = path.read_bytes()
        for word, value in words.items():
            content = content.replace(word.encode(), value.encode())
        path.write_bytes(content)


@pytest.mark.parametrize("entry", all_of_it(), ids=lambda entry: entry.name)
def test_the_grade_and_what_the_feedback_says(corpus, entry):
    result, feedback = corpus[0][entry.name], corpus[1][entry.name]
    got = {task.task: (task.status, task.points) for task in result.tasks}
    expected = "graded" if entry.tasks else "not graded"
    assert (result.trouble, result.status, got) == ("", expected, entry.tasks), said(result)
    assert entry.says in html.unescape(feedback), said(result)
    assert "<script>" not in feedback and "onerror=alert(1)>" not in feedback.replace("&#34;", '"')


def test_nothing_is_left(corpus):
    _, _, left, scratch = corpus
    assert left == []
    assert list(scratch.iterdir()) == []
    lines = [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
    assert [line for line in lines if MARKER in line] == []


def test_the_corpus_is_large():
    assert len({entry.name for entry in ENTRIES}) == len(ENTRIES) >= 40
