"""What an instructor does over a term, without the sandbox: rosters, parameters, release, points by hand, exports."""

import csv
import dataclasses
import io
import json
import os
import stat
from pathlib import Path

import nbformat
import pytest

from aiinfra import cli
from aiinfra.authoring import tree
from aiinfra.grading import parameters, release
from aiinfra.grading.completion import Completion
from aiinfra.grading.grade import GRADED, NOT_GRADED, TROUBLE, Result, Settings, TaskResult, load_lab
from aiinfra.grading.intake import roster
from aiinfra.grading.intake.submissions import Submission
from aiinfra.grading.records import answers, gradebook, journal, lms, manual, progress, summary
from aiinfra.grading.records.feedback import page, path_of
from tests import grading_class

ROOT = Path(__file__).parents[1]
STEMS = sorted(path.stem for path in (ROOT / "labs").glob("*.ipynb"))
LAB = load_lab("accelerators", ROOT / "labs" / "accelerators.ipynb")
MOST = {"ring": 6, "why": 4, "share": 1}


def result(student="ada_7", points=5.0, status=GRADED, **more):
    tasks = (TaskResult("ring", "wrong", "Say why.", points, 6, "latency forgotten"),)
    done = (Completion("share", "prediction", "done", 1.0, 1), Completion("why", "written", "done", 4.0, 4, text="So."))
    if status != GRADED:
        return Result(student, status, 0.0, 11, notes=("Not JSON.",), **more)
    return Result(student, status, points + 5.0, 11, tasks, completion=done, **more)


# The journal


def settings(seed=1):
    return Settings(LAB, seed)


def test_the_journal_gives_back_what_it_was_given(tmp_path):
    book = journal.Journal(tmp_path, "accelerators")
    book.keep([])
    odd = dataclasses.replace(result("caf\udce9 \n=1"), parameters={"scenario": 3}, late=True, notes=("a", "b"))
    book.add("mark", odd)
    again = journal.Journal(tmp_path, "accelerators")
    assert again.results == {odd.student: ("mark", odd)}
    assert again.knows(odd.student, "mark") and not again.knows(odd.student, "other") and not again.knows("bob", "mark")
    assert (journal.lab_of(tmp_path), journal.Journal(tmp_path, "hbm").results) == ("accelerators", {})


def test_a_line_that_was_cut_off_costs_that_result_alone(tmp_path):
    book = journal.Journal(tmp_path, "accelerators")
    book.keep([])
    for student in ("ada", "bob"):
        book.add("mark", result(student))
    path = tmp_path / journal.FILE
    whole = path.read_bytes()
    start = whole.rindex(b'{"fingerprint"')
    for end in (start, start + 1, (start + len(whole)) // 2, len(whole) - 2):
        path.write_bytes(whole[:end])
        again = journal.Journal(tmp_path, "accelerators")
        assert list(again.results) == ["ada"]
        again.keep(["ada"])
        again.add("mark", result("bob"))
        assert list(journal.Journal(tmp_path, "accelerators").results) == ["ada", "bob"]


def test_trouble_of_the_grader_is_graded_again(tmp_path):
    book = journal.Journal(tmp_path, "accelerators")
    book.keep([])
    book.add("mark", result("ada", status=TROUBLE))
    assert not book.knows("ada", "mark")


def test_a_fingerprint_changes_with_all_that_a_result_follows_from(tmp_path):
    path = tmp_path / "ada.ipynb"
    path.write_text("one")
    submission = Submission("ada", path)
    first = journal.fingerprint(settings(), submission)
    assert first == journal.fingerprint(settings(), Submission("ada", path))
    (tmp_path / "elsewhere").mkdir()
    moved = path.rename(tmp_path / "elsewhere" / "lab.ipynb")
    assert journal.fingerprint(settings(), Submission("ada", moved)) == first
    lab = dataclasses.replace(LAB, cells=[*LAB.cells, {"source": "x", "metadata": {}, "tags": []}])
    others = [
        journal.fingerprint(settings(seed=2), Submission("ada", moved)),
        journal.fingerprint(dataclasses.replace(settings(), isolated=False), Submission("ada", moved)),
        journal.fingerprint(dataclasses.replace(settings(), lab=lab), Submission("ada", moved)),
        journal.fingerprint(settings(), Submission("ada", moved, parameters={"scenario": 2})),
        journal.fingerprint(settings(), Submission("ada", moved, late=True)),
        journal.fingerprint(settings(), Submission("bob", moved)),
        journal.fingerprint(settings(), Submission("ada", problem="Nothing.")),
        journal.fingerprint(settings(), Submission("ada", tmp_path / "gone.ipynb")),
    ]
    moved.write_text("two")
    others.append(journal.fingerprint(settings(), Submission("ada", moved)))
    assert len({first, *others}) == len(others) + 1


# Points by hand


def by_hand(tmp_path, text, students=("ada_7", "bob")):
    (tmp_path / "manual.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    return manual.read(tmp_path / "manual.csv", students, MOST)


def test_points_by_hand_replace_and_comments_go_along(tmp_path):
    given, problems = by_hand(
        tmp_path, "student,task,points,comment\nada_7,why,2.5,Which limit?\nada_7,ring,6,\nbob,why,,\n"
    )
    assert problems == []
    changed = manual.apply(result(), given, MOST)
    assert (changed.points, changed.tasks[0].points, changed.completion[1].points) == (9.5, 6.0, 2.5)
    assert (changed.completion[1].comment, changed.completion[1].by_hand) == ("Which limit?", True)
    assert manual.apply(result("bob"), given, MOST) == result("bob")
    html = page(changed, "accelerators")
    assert "Which limit?" in html and "9.5 <small>of 11 points" in html
    assert gradebook.remarks(changed).endswith("points by hand: ring, why")


def test_a_comment_alone_changes_no_points(tmp_path):
    given, _ = by_hand(tmp_path, "student,task,points,comment\nada_7,why,,Well said.\n")
    changed = manual.apply(result(), given, MOST)
    assert (changed.points, changed.completion[1].comment, changed.completion[1].by_hand) == (10.0, "Well said.", False)


def test_a_notebook_that_could_not_be_graded_can_be_given_points(tmp_path):
    given, _ = by_hand(tmp_path, "student,task,points,comment\nada_7,ring,4,Read on paper.\n")
    changed = manual.apply(result(status=NOT_GRADED), given, MOST)
    assert (changed.status, changed.points, changed.tasks[0].max_points) == (manual.BY_HAND, 4.0, 6)
    assert "gave points by hand" in page(changed, "accelerators")


def test_bad_rows_are_told_with_their_line(tmp_path):
    text = "student,task,points,comment\nada,why,2,\nada_7,wy,2,\nada_7,why,5,\nada_7,why,two,\nada_7,ring,-1,\n\n"
    text += 'bob,why,1,"over\ntwo lines"\nbob,why,2,\nada_7,share,nan,\nada_7,why,3,good\n'
    given, problems = by_hand(tmp_path, text)
    assert given == {("bob", "why"): manual.Given(1.0, "over\ntwo lines"), ("ada_7", "why"): manual.Given(3.0, "good")}
    assert [problem.removeprefix(f"{tmp_path / 'manual.csv'}, line ") for problem in problems] == [
        "2: student 'ada' handed in nothing here; nearest: 'ada_7'",
        "3: task 'wy' is not in this lab; nearest: 'why'",
        "4: points must be a number from 0 to 4, got '5'",
        "5: points must be a number from 0 to 4, got 'two'",
        "6: points must be a number from 0 to 6, got '-1'",
        "10: 'bob' has points or a comment for 'why' in an earlier line, which holds",
        "11: points must be a number from 0 to 1, got 'nan'",
    ]
    assert "the columns must be student, task, points, comment" in by_hand(tmp_path, "name,points\n")[1][0]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252"])
def test_manual_csv_as_spreadsheets_write_it(tmp_path, encoding):
    text = "student;task;points;comment\r\nzoë;why;2,5;schön\r\n"
    given, problems = by_hand(tmp_path, text.encode(encoding), ["zoë"])
    assert (given, problems) == ({("zoë", "why"): manual.Given(2.5, "schön")}, [])


def test_manual_csv_is_made_once_and_only_added_to(tmp_path):
    path = tmp_path / "manual.csv"
    manual.add_rows(path, ["bob", "=ada"], ["why"])
    assert path.read_text() == "student,task,points,comment\n'=ada,why,,\nbob,why,,\n"
    mine = path.read_text().replace("bob,why,,", 'bob,why,3,"Good, but ""why""?"').rstrip("\n")
    path.write_text(mine)
    manual.add_rows(path, ["bob", "=ada"], ["why"])
    assert path.read_text() == mine
    manual.add_rows(path, ["bob", "cyd", "=ada"], ["why"])
    assert path.read_text() == mine + "\ncyd,why,,\n"
    given, problems = manual.read(path, ["bob", "cyd", "=ada"], MOST)
    assert (given, problems) == ({("bob", "why"): manual.Given(3.0, 'Good, but "why"?')}, [])


# Rosters and parameters


def test_rosters_of_canvas_and_moodle_and_plain_ones(tmp_path):
    canvas = roster.read(grading_class.canvas_roster(tmp_path / "canvas.csv"))
    assert (canvas.kind, len(canvas.people), canvas.people[3].student) == ("canvas", 13, "díazlucía_104")
    assert canvas.of(Submission("x_104", number="104")).row["Student"] == "Díaz, Lucía"
    assert canvas.of(Submission("díazlucía@example.edu")).number == "104"
    assert canvas.of(Submission("nobody")) is None
    moodle = roster.read(grading_class.moodle_worksheet(tmp_path / "moodle.csv"))
    assert (moodle.kind, moodle.people[0].student) == ("moodle", "Tolu Adeyemi_101")
    (tmp_path / "plain.csv").write_text("\ufeffEmail;Student\na@b.c;ada/lovelace\n;\n")
    plain = roster.read(tmp_path / "plain.csv")
    assert (plain.kind, [(each.key, each.student) for each in plain.people]) == (
        "plain",
        [("ada/lovelace", "ada-lovelace")],
    )


@pytest.mark.parametrize(
    "text, says",
    [
        ("name\nada\n", "has the columns name; expected a column student"),
        ("", "has the columns none"),
        ("student\nada\nada\n", "line 3: 'ada' is there already"),
        ("student\n", "lists no student"),
        (b"\xff\xfe", "can't be read"),
    ],
)
def test_a_roster_that_can_not_be_used_is_refused(tmp_path, text, says):
    path = tmp_path / "class.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=says):
        roster.read(path)


def test_parameters_are_the_students_own_and_come_again():
    names = parameters.names(LAB.cells)
    assert names == ["scenario"]
    values = {
        student: parameters.derive(b"secret", "accelerators", student, names)["scenario"] for student in "abcdefgh"
    }
    assert values == {s: parameters.derive(b"secret", "accelerators", s, names)["scenario"] for s in "abcdefgh"}
    assert len(set(values.values())) == 8 and all(1 <= value <= parameters.HIGHEST for value in values.values())
    assert values["a"] != parameters.derive(b"other", "accelerators", "a", names)["scenario"]
    assert values["a"] != parameters.derive(b"secret", "hbm", "a", names)["scenario"]


def test_papermill_puts_parameters_below_the_labs_own():
    cells = parameters.inject_into_cells(LAB.cells, {"scenario": 7})
    place = next(i for i, cell in enumerate(cells) if "parameters" in cell["tags"])
    assert cells[place + 1]["tags"] == ["injected-parameters"]
    assert "scenario = 7" in cells[place + 1]["source"]
    assert len(cells) == len(LAB.cells) + 1
    without = [cell for cell in LAB.cells if "parameters" not in cell["tags"]]
    assert (parameters.names(without), parameters.inject_into_cells(without, {})) == ([], without)


def test_what_a_parameters_cell_may_set():
    cell = {"source": "a = 1\nb = 2.5\nc = d = 3\ne = True\nf: int = 2\ng = 'x'", "tags": ["parameters"]}
    assert parameters.names([cell, {"source": "z = 1", "tags": []}]) == ["a", "c", "d"]
    assert parameters.names([{"source": "a = (", "tags": ["parameters"]}]) == []


def test_a_secret_is_made_for_its_owner_alone_and_kept(tmp_path):
    secret = parameters.read_secret(tmp_path / "deep" / "secret.txt", create=True)
    assert stat.S_IMODE((tmp_path / "deep" / "secret.txt").stat().st_mode) == 0o600
    assert parameters.read_secret(tmp_path / "deep" / "secret.txt", create=True) == secret
    with pytest.raises(ValueError, match="can't be read"):
        parameters.read_secret(tmp_path / "none.txt")
    (tmp_path / "short.txt").write_text("1234\n")
    with pytest.raises(ValueError, match="at least 16 characters, has 4"):
        parameters.read_secret(tmp_path / "short.txt")


# Release


def released(*arguments):
    return cli.main(["release", *map(str, arguments)])


@pytest.mark.parametrize("stem", STEMS)
def test_a_release_never_has_an_answer(tmp_path, monkeypatch, capsys, stem):
    monkeypatch.chdir(ROOT)
    assert released("--lab", stem, "--out", tmp_path) == 0, capsys.readouterr().err
    text = "\n".join(path.read_text(encoding="utf-8") for path in tmp_path.rglob("*") if path.is_file())
    lab = "".join(cell.source for cell in nbformat.read(ROOT / "labs" / f"{stem}.ipynb", 4).cells)
    for cell in nbformat.read(ROOT / "solutions" / f"{stem}.ipynb", 4).cells:
        if {"answer", "written", "prediction", "solution"} & set(cell.metadata.get("tags", [])):
            for line in cell.source.splitlines():
                assert line in lab or json.dumps(line)[1:-1] not in text or len(line.strip()) < 12
    notebook = nbformat.read(tmp_path / f"{stem}.ipynb", 4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    assert f"| **together** | **{sum(load_lab(stem, ROOT / 'labs' / f'{stem}.ipynb').max_points.values())}** |" in text


@pytest.mark.parametrize(
    "change, says",
    [
        (lambda cells, solved: cells.append(solved("peak_from_clock")), "has no ... to be replaced"),
        (lambda cells, solved: cells.append(solved("explain_purchase")), "has no ... to be replaced"),
        (lambda cells, solved: cells.append({**solved("peak_from_clock"), "metadata": {}}), "it has the answer"),
        (lambda cells, solved: cells[2].update(outputs=[nbformat.v4.new_output("stream", text="x")]), "it has outputs"),
        (lambda cells, solved: cells[2]["metadata"].update(tags=["solution"]), "for the solution alone"),
    ],
)
def test_a_notebook_with_an_answer_is_not_released(tmp_path, monkeypatch, capsys, change, says):
    monkeypatch.chdir(tmp_path)
    for folder in ("labs", "solutions"):
        (tmp_path / folder).mkdir()
    solution = nbformat.read(ROOT / "solutions" / "accelerators.ipynb", 4)
    (tmp_path / "solutions" / "accelerators.ipynb").write_text(nbformat.writes(solution))
    lab = nbformat.read(ROOT / "labs" / "accelerators.ipynb", 4)
    change(lab.cells, lambda name: next(cell for cell in solution.cells if cell.metadata.get("task") == name))
    (tmp_path / "labs" / "accelerators.ipynb").write_text(json.dumps(lab))
    assert released("--lab", "accelerators", "--out", tmp_path / "out") == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_notebook_for_each_student_and_no_secret_among_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    people = grading_class.moodle_worksheet(tmp_path / "class.csv")
    line = ["--lab", "accelerators", "--out", tmp_path / "out", "--parameters", "per-student", "--roster", people]
    assert released(*line) == 2
    assert released(*line, "--secret", tmp_path / "out" / "secret") == 2
    says = capsys.readouterr().err
    assert "needs --roster CSV and --secret FILE" in says and "which learners get" in says
    assert released(*line, "--secret", tmp_path / "secret") == 0
    assert released(*line, "--secret", tmp_path / "secret") == 0
    folders = sorted((tmp_path / "out" / "students").iterdir())
    assert len(folders) == 12 and folders[0].name == "Ana Jovanović_110_assignsubmission_file_"
    notebook = nbformat.read(folders[0] / "accelerators.ipynb", 4)
    secret = parameters.read_secret(tmp_path / "secret")
    scenario = parameters.derive(secret, "accelerators", "110", ["scenario"])["scenario"]
    injected = next(cell for cell in notebook.cells if "injected-parameters" in cell.metadata.get("tags", []))
    assert f"scenario = {scenario}" in injected.source


def test_a_file_that_was_changed_is_not_overwritten(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert released("--lab", "accelerators", "--out", tmp_path) == 0
    (tmp_path / "instructions.md").write_text("Hand in by Friday.")
    (tmp_path / "accelerators.ipynb").unlink()
    assert released("--lab", "accelerators", "--out", tmp_path) == 2
    assert "instructions.md is there and differs; remove it" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["instructions.md"]


def test_data_of_a_lab_goes_along(tmp_path, monkeypatch):
    (tmp_path / "labs" / "accelerators" / "deep").mkdir(parents=True)
    (tmp_path / "labs" / "accelerators" / "deep" / "rates.csv").write_bytes(b"\x00\x01")
    (tmp_path / "labs" / "accelerators.ipynb").write_bytes((ROOT / "labs" / "accelerators.ipynb").read_bytes())
    monkeypatch.chdir(tmp_path)
    assert released("--lab", "accelerators", "--out", "out") == 0
    assert Path("out", "accelerators", "deep", "rates.csv").read_bytes() == b"\x00\x01"


# What learning management systems import


def exported(tmp_path, kind, results, people=None, assignment="Lab 1 (98765)"):
    lms.write(kind, tmp_path, results, people, assignment)
    return list(csv.reader(io.StringIO((tmp_path / f"{kind}.csv").read_text(encoding="utf-8"))))


CANVAS_RESULTS = [
    result("díazlucía_104", number="104", name="díazlucía", late=True),
    result("chenwei_103", 6.0, number="103", name="chenwei"),
    result("garcíaiker_107", status=NOT_GRADED, number="107", name="garcíaiker"),
]


def test_the_file_for_canvas(tmp_path):
    rows = exported(tmp_path, "canvas", CANVAS_RESULTS)
    assert rows == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Lab 1 (98765)"],
        ["    Points Possible", "", "", "", "", "11"],
        ["chenwei", "103", "", "", "", "11"],
        ["díazlucía", "104", "", "", "", "10"],
        ["garcíaiker", "107", "", "", "", ""],
    ]
    people = roster.read(grading_class.canvas_roster(tmp_path / "class.csv"))
    rows = exported(tmp_path, "canvas", CANVAS_RESULTS, people)
    assert rows[2:] == [
        ["Chen, Wei", "103", "S103", "chenwei@example.edu", "A", "11"],
        ["Díaz, Lucía", "104", "S104", "díazlucía@example.edu", "A", "10"],
        ["García, Iker", "107", "S107", "garcíaiker@example.edu", "A", ""],
    ]
    assert exported(tmp_path, "canvas", [result("ada@example.edu")])[2] == [
        "ada@example.edu",
        "",
        "",
        "ada@example.edu",
        "",
        "10",
    ]


def test_the_file_for_moodle(tmp_path):
    rows = exported(tmp_path, "moodle", CANVAS_RESULTS)
    assert rows[0][:5] == ["Identifier", "Full name", "Email address", "Status", "Grade"]
    assert {"Identifier", "Grade", "Last modified (grade)", "Feedback comments"} <= set(rows[0])
    assert [(row[0], row[4], row[9]) for row in rows[1:]] == [
        ("Participant 103", "11", "See the feedback page."),
        ("Participant 104", "10", "Late. See the feedback page."),
        ("Participant 107", "", "See the feedback page."),
    ]
    assert rows[1][7:9] == ["-", "-"]
    people = roster.read(grading_class.moodle_worksheet(tmp_path / "class.csv"))
    rows = exported(tmp_path, "moodle", CANVAS_RESULTS, people)
    assert rows[1][:6] == ["Participant 103", "Wei Chen", "103@example.edu", "Submitted", "11", "39.00"]
    assert exported(tmp_path, "moodle", [result("ada")])[:2] == [
        ["username", "grade", "feedback"],
        ["ada", "10", "ring: latency forgotten"],
    ]


# Pages, progress, names


def test_the_summary_counts_and_escapes_and_asks_for_nothing():
    lab = dataclasses.replace(LAB, items=())
    tasks = tuple(TaskResult(name, "right", "", task.points, task.points) for name, task in LAB.tasks.items())
    wrong = (dataclasses.replace(tasks[0], status="wrong", points=0.0, misconception="sparse"), *tasks[1:])
    results = [Result("ada", GRADED, 32.0, 32, tasks, seconds=1.5), Result("bob", GRADED, 28.0, 32, wrong, late=True)]
    results.append(Result("<b>cyd</b>", NOT_GRADED, 0.0, 32, notes=("<script>alert(1)</script>",)))
    html = summary.page(results, lab)
    assert (
        "<script" not in html
        and "&lt;b&gt;cyd&lt;/b&gt;" in html
        and "http://" not in html.replace("http://www.w3.org", "")
    )
    assert "<dt>median points</dt><dd>30 of 32</dd>" in html and "<dt>late</dt><dd>1</dd>" in html
    assert "<td>peak_from_clock</td><td>50 %</td><td>1 of 2</td>" in html
    assert "<td>peak_from_clock</td><td>sparse</td><td>1</td>" in html
    assert html.count('role="img"') == 4 and html.count("<svg") == 8
    assert "students</dt><dd>0</dd>" in summary.page([], lab)


def test_the_summary_has_its_numbers_without_pictures(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "vl_convert", None)
    tasks = tuple(TaskResult(name, "right", "", task.points, task.points) for name, task in LAB.tasks.items())
    html = summary.page([Result("ada", GRADED, 32.0, 32, tasks)], LAB)
    assert "<svg" not in html and "<details open>" in html


def test_the_feedback_page_shows_words_and_predictions_as_text():
    done = (
        Completion("share", "prediction", "done", 1.0, 1, "Share in <percent>", "3 to 8"),
        Completion("other", "prediction", "missing", 0.0, 1, "Another"),
        Completion("why", "written", "done", 4.0, 4, text="<img src=x onerror=alert(1)> **power**"),
    )
    html = page(
        dataclasses.replace(result(), completion=done, parameters={"scenario": 7}, notes=("Handed in late.",)), "x"
    )
    assert "&lt;img src=x onerror=alert(1)&gt; **power**" in html and "<img" not in html
    assert "Share in &lt;percent&gt;: <strong>3 to 8</strong>" in html and "Another: no range given" in html
    assert "<code>scenario = 7</code>" in html and "Handed in late." in html


def test_the_answers_of_a_class_are_on_one_page_with_the_model_answer():
    wrote = (
        Completion("explain_purchase", "written", "done", 2.0, 4, text="Money <decides>.", by_hand=True, comment="No."),
    )
    ada = dataclasses.replace(result("ada"), completion=wrote, parameters={"scenario": 7})
    html = answers.page([result("bob"), ada], LAB, ROOT / "solutions")
    assert "Money &lt;decides&gt;." in html
    assert "scenario = 7; 2 points by hand: No." in " ".join(html.split())
    assert "Nothing from: bob." in html and "Power decides. 18,000 W feed 60 of offer C" in html
    assert "Model answer" not in answers.page([ada], LAB, ROOT / "nowhere")


def test_a_page_of_a_student_with_a_very_long_name(tmp_path):
    names = ["é" * 120, "é" * 119 + "e", "ada"]
    paths = {path_of(tmp_path, name) for name in names}
    assert len(paths) == 3 and tmp_path / "ada.html" in paths
    for path in paths:
        gradebook.replace(path, "fits")


def test_progress_says_how_it_stands(capsys):
    shown = progress.Progress(3)
    shown.add(result("a\x1b[2J", late=True, seconds=1.25))
    shown.add(result("bob", status=NOT_GRADED))
    assert capsys.readouterr().err.splitlines() == ["[1/3] a?[2J 10 of 11 points, 1.2 s", "[2/3] bob not graded, 0.0 s"]
    assert shown.so_far() == "mean 10.0 points, 1 not graded, 1 late"
    resumed = progress.Progress(3, [result("a"), result("bob", status=NOT_GRADED)])
    resumed.add(result("cyd", points=6.0))
    assert capsys.readouterr().err == "[3/3] cyd 11 of 11 points, 0.0 s\n"
    assert resumed.so_far() == "mean 10.5 points, 1 not graded"


def grade(*arguments):
    return cli.main(["grade", *map(str, arguments)])


def test_wrong_use_of_the_new_options_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("aiinfra.grading.execution.available.why_not", lambda: None)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "ada.ipynb").write_text("{}")
    (tmp_path / "other").mkdir()
    journal.Journal(tmp_path / "other", "hbm").keep([])
    line = [tmp_path / "in", "--lab", "accelerators", "--out", tmp_path / "out"]
    tries = {
        (): "SUBMISSIONS is missing",
        (tmp_path / "in", "--out", tmp_path): "--lab is missing",
        (*line, "--only", "bob"): "--only 'bob': there is no such student; known: 'ada'",
        (*line, "--parameters", "per-student"): "need each other",
        (*line, "--parameters", "per-student", "--secret", tmp_path / "none"): "can't be read",
        (*line, "--assignment", "x"): "it needs --lms canvas",
        (*line, "--roster", tmp_path / "none.csv"): "can't be read",
        (tmp_path / "other", *line[1:]): "there is no notebook in",
        (*line[:-1], tmp_path / "other"): "holds the results of lab 'hbm'",
    }
    for arguments, says in tries.items():
        assert grade(*arguments) == 2, arguments
        assert says in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        grade(*line, "--deadline", "tomorrow")
    assert "expected a time such as 2026-11-20T23:59, got 'tomorrow'" in capsys.readouterr().err


def test_a_deadline_for_a_download_is_told_to_be_of_no_use(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("aiinfra.grading.execution.available.why_not", lambda: None)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "doejane_1_2_lab.ipynb").write_text("{")
    line = [tmp_path / "in", "--lab", "accelerators", "--out", tmp_path / "out", "--deadline", "2026-11-20T23:59"]
    assert grade(*line, "--only", "nobody") == 2
    assert "--deadline says nothing about 1 of the students" in capsys.readouterr().out


def test_the_guide_is_in_the_book_and_its_rule_is_the_graders():
    from aiinfra.grading.intake.submissions import RULE

    assert "book/instructors" in tree.toc(ROOT)
    text = " ".join((ROOT / "book" / "instructors.md").read_text(encoding="utf-8").split())
    assert RULE in text


def test_release_leaves_no_temporary_file(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(release.shutil, "move", os.replace)
    assert released("--lab", "accelerators", "--out", tmp_path) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["accelerators.ipynb", "instructions.md"]
