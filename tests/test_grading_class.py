"""A class of twelve in the real sandbox: from a zip of Canvas or Moodle to grades, killed half way, by hand, again."""

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from aiinfra import cli
from aiinfra.checks import tasks
from tests import grading_class

ROOT = Path(__file__).parents[1]
STEMS = sorted(path.stem for path in (ROOT / "labs").glob("*.ipynb"))
POINTS = {
    "adeyemitolu_101": "39",
    "bauerjonas_102": "29",
    "chenwei_103": "33",
    "díazlucía_104": "39",
    "eriksennora_105": "0",
    "fofanaawa_106": "33",
    "garcíaiker_107": "0",
    "haddadrami_108": "33",
    "itoyui_109": "33",
    "jovanovićana_110": "39",
    "kowalskijan_111": "35",
    "lopesrui_112": "0",
}


pytestmark = pytest.mark.usefixtures("sandbox")


@pytest.fixture(scope="module")
def canvas(tmp_path_factory):
    """(the zip of Canvas, the folder that it was graded into)."""
    folder = tmp_path_factory.mktemp("canvas")
    grading_class.canvas_zip(folder / "submissions.zip")
    assert grade(folder / "submissions.zip", folder / "graded") == 0
    return folder / "submissions.zip", folder / "graded"


def line(source, out, *more):
    return ["grade", str(source), "--lab", "accelerators", "--out", str(out), "--seed", "5", *map(str, more)]


def grade(source, out, *more):
    before = os.getcwd()
    os.chdir(ROOT)
    try:
        return cli.main(line(source, out, *more))
    finally:
        os.chdir(before)


def rows(out):
    """The gradebook by student, without the names of files, which tell the folder."""
    with (out / "gradebook.csv").open(encoding="utf-8", newline="") as file:
        table = {row["student"]: row for row in csv.DictReader(file)}
    for row in table.values():
        row.pop("file")
    return table


def test_the_class_of_canvas(canvas):
    _, out = canvas
    table = rows(out)
    assert {student: row["points"] for student, row in table.items()} == POINTS
    assert {student for student, row in table.items() if row["late"]} == {"díazlucía_104"}
    assert {student for student, row in table.items() if row["status"] != "graded"} == {
        "garcíaiker_107",
        "lopesrui_112",
    }
    assert table["bauerjonas_102"]["remarks"] == (
        "one_way_bytes_per_s: both directions; ring_all_reduce_s: latency forgotten"
    )
    assert "5103_accelerators-1.ipynb is newer" in table["chenwei_103"]["remarks"]
    assert (table["kowalskijan_111"]["explain_purchase"], table["kowalskijan_111"]["predictions"]) == ("0", "3")
    pages = {path.stem: path.read_text(encoding="utf-8") for path in (out / "feedback").iterdir()}
    assert pages.keys() == POINTS.keys()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in pages["jovanovićana_110"] and "<script" not in "".join(
        pages.values()
    )
    assert "NameError" in pages["fofanaawa_106"] and "Only answer cells are graded" in pages["fofanaawa_106"]
    assert "both directions" in (out / "summary.html").read_text(encoding="utf-8")


def test_the_class_of_moodle_has_the_same_points(tmp_path):
    source = grading_class.moodle_zip(tmp_path / "lab.zip")
    roster = grading_class.moodle_worksheet(tmp_path / "worksheet.csv")
    assert grade(source, tmp_path / "out", "--roster", roster, "--lms", "moodle") == 0
    by_number = {student.rpartition("_")[2]: row["points"] for student, row in rows(tmp_path / "out").items()}
    assert by_number == {student.rpartition("_")[2]: points for student, points in POINTS.items()}
    with (tmp_path / "out" / "moodle.csv").open(encoding="utf-8", newline="") as file:
        grades = {row["Identifier"].split()[1]: row["Grade"] for row in csv.DictReader(file)}
    assert grades == by_number | {"107": "", "112": ""}


def test_a_run_that_is_killed_and_resumed_gives_the_same(canvas, tmp_path):
    source, uninterrupted = canvas
    out = tmp_path / "out"
    for n_before, how in ((2, signal.SIGKILL), (3, signal.SIGTERM), (2, signal.SIGINT)):
        command = [sys.executable, "-m", "aiinfra.cli", *line(source, out, "--resume", "--jobs", "1")]
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        seen = [process.stderr.readline() for _ in range(n_before)]
        process.send_signal(how)
        process.communicate(timeout=60)
        finished = rows(out)
        assert all(said.split()[1] in finished for said in seen), seen
        assert {row["points"] for row in finished.values()} <= set(POINTS.values())
        json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert grade(source, out, "--resume") == 0
    assert rows(out) == rows(uninterrupted)
    again, first = ((path / "results.json").read_text(encoding="utf-8") for path in (out, uninterrupted))
    assert _timeless(again) == _timeless(first)


def _timeless(text):
    read = json.loads(text)
    for student in read["students"]:
        student.pop("seconds"), student.pop("file")
    return read


def test_resume_grades_what_changed_and_only_grades_one(tmp_path, capsys):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for student in ("ada", "bob", "cyd"):
        (folder / f"{student}.ipynb").write_bytes(grading_class.notebook({}))
    assert grade(folder, out) == 0
    (folder / "ada.ipynb").write_bytes(grading_class.notebook({"peak_from_clock": "..."}))
    (folder / "bob.ipynb").write_bytes(grading_class.notebook({"peak_from_clock": "..."}))
    capsys.readouterr()
    assert grade(folder, out, "--only", "ada") == 0
    said = capsys.readouterr()
    assert "3 students; 1 to grade, 2 kept." in said.out and said.err.startswith("[3/3] ada ")
    assert {student: row["points"] for student, row in rows(out).items()} == {"ada": "35", "bob": "39", "cyd": "39"}
    (folder / "cyd.ipynb").unlink()
    assert grade(folder, out, "--resume") == 0
    assert "2 students; 1 to grade, 1 kept." in capsys.readouterr().out
    assert {student: row["points"] for student, row in rows(out).items()} == {"ada": "35", "bob": "35"}


def test_points_by_hand_survive_grading_again(tmp_path, capsys):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    (folder / "ada.ipynb").write_bytes(grading_class.notebook({}))
    assert grade(folder, out) == 0
    grading_class.line_by_hand(out / "manual.csv", "ada", "1.5", "Which limit?")
    first = (out / "journal.jsonl").read_bytes()
    capsys.readouterr()
    assert grade(folder, out) == 0
    assert "the earlier results are in" in capsys.readouterr().out
    assert (out / "journal.before.jsonl").read_bytes() == first
    assert (rows(out)["ada"]["explain_purchase"], rows(out)["ada"]["points"]) == ("1.5", "36.5")
    assert "Which limit?" in (out / "feedback" / "ada.html").read_text(encoding="utf-8")
    with (out / "manual.csv").open("a", encoding="utf-8") as file:
        file.write("bob,explain_purchase,3,\n")
    capsys.readouterr()
    assert grade(folder, out, "--resume") == 1
    assert "manual.csv, line 3: student 'bob' handed in nothing here" in capsys.readouterr().err
    assert rows(out)["ada"]["points"] == "36.5"


def test_parameters_reach_the_notebook_that_is_run(tmp_path):
    """An answer that uses the scenario is graded with the student's own, whatever their notebook says."""
    (tmp_path / "in").mkdir()
    (tmp_path / "secret").write_text("0123456789abcdef")
    uses = "print('my scenario is', scenario)\ndef one_way_bytes_per_s(n, gb):\n    return n * gb * 5e8"
    (tmp_path / "in" / "ada.ipynb").write_bytes(grading_class.notebook({"one_way_bytes_per_s": uses}))
    more = ["--parameters", "per-student", "--secret", tmp_path / "secret"]
    assert grade(tmp_path / "in", tmp_path / "out", *more) == 0
    (student,) = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))["students"]
    (showed,) = (task["showed"] for task in student["tasks"] if task["task"] == "one_way_bytes_per_s")
    assert showed == f"my scenario is {student['parameters']['scenario']}\n"
    assert student["parameters"]["scenario"] > 0


def test_a_second_grader_is_kept_out(tmp_path, capsys):
    import fcntl

    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "ada.ipynb").write_text("{")
    (tmp_path / "out").mkdir()
    source = grading_class.canvas_zip(tmp_path / "submissions.zip")
    with (tmp_path / "out" / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert grade(tmp_path / "in", tmp_path / "out") == grade(source, tmp_path / "out") == 2
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".lock"]
    assert "another grader is writing into" in capsys.readouterr().err


def test_the_transcript_in_the_guide_is_what_the_commands_print(tmp_path):
    """Where this fails: python -m tests.grading_class, and read what changed."""
    assert grading_class.transcript(tmp_path) == grading_class.TRANSCRIPT.read_text(encoding="utf-8")
    results = json.loads((tmp_path / "graded" / "results.json").read_text(encoding="utf-8"))
    for student in results["students"]:  # graded with the numbers that were released
        released = (tmp_path / "handout" / "students" / student["student"] / "accelerators.ipynb").read_text("utf-8")
        assert f"scenario = {student['parameters']['scenario']}" in released


def test_the_self_test_says_what_the_sandbox_keeps_out(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("aiinfra.grading.selftest._try_lab", lambda *_: [])
    assert cli.main(["grade", "--self-test", "--lab", "accelerators"]) == 0
    said = capsys.readouterr().out
    assert said.count("✓ a notebook") == 11 and "can not reach the network" in said


@pytest.mark.parametrize("stem", STEMS)
def test_the_self_test_of_every_lab(stem, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("aiinfra.grading.selftest._try_sandbox", lambda root, isolated: [])
    status = cli.main(["grade", "--self-test", "--lab", stem])
    said = capsys.readouterr().out
    assert (status, "✗" in said) == (0, False), said
    n_known = sum(len(task.misconceptions) for task in tasks(stem).values())
    assert f"{n_known} of {n_known} misconceptions were named and lost their own task alone" in said


def test_the_self_test_finds_what_is_wrong(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for folder in ("labs", "solutions"):
        (tmp_path / folder).mkdir()
    (tmp_path / "solutions" / "accelerators.ipynb").write_bytes(
        grading_class.notebook({"ring_all_reduce_s": grading_class.LATENCY_FORGOTTEN})
    )
    (tmp_path / "labs" / "accelerators.ipynb").write_bytes(grading_class.notebook(None))
    monkeypatch.setattr("aiinfra.grading.selftest._try_sandbox", lambda root, isolated: [])
    assert cli.main(["grade", "--self-test"]) == 1
    said = capsys.readouterr().out
    assert "✗ the solution has 33 of 39 points" in said and "of the above failed" in said
