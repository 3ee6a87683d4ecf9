"""The grader without its sandbox: finding, reading, assembling, judging and writing down."""

import csv
import json
import os
from pathlib import Path

import pytest

from aiinfra import cli
from aiinfra.checks import tasks
from aiinfra.grading.execution import available, harness
from aiinfra.grading.execution.assemble import assemble
from aiinfra.grading.execution.inside.driver import text_of
from aiinfra.grading.execution.package_use import imported_names, package_use, parse
from aiinfra.grading.execution.run import Told, _follow
from aiinfra.grading.grade import Result, TaskResult, _judge, load_lab
from aiinfra.grading.intake import notebooks
from aiinfra.grading.intake.submissions import find
from aiinfra.grading.records import gradebook
from aiinfra.grading.records.feedback import page

ROOT = Path(__file__).parents[1]
NAMES = ["one_way_bytes_per_s", "ring_all_reduce_s"]
ONE_WAY, RING = NAMES


def cell(source, task=None, tags=()):
    metadata = {"tags": list(tags), **({"task": task} if task else {})}
    return {"cell_type": "code", "source": source, "metadata": metadata, "tags": list(tags)}


def stub(name):
    return cell(f"def {name}(x):\n    ...", name, ["answer"])


LAB = [
    cell(
        "import math\nimport torch\nfrom aiinfra.checks import check\nfrom aiinfra import collectives, models\nseed = 0"
    ),
    cell("predict(...)", tags=["prediction"]),
    cell("all_reduce()"),
    stub(ONE_WAY),
    cell(f"check('accelerators', {ONE_WAY})"),
    stub(RING),
    cell("slow()", tags=["measurement"]),
]


def assembled(*learner):
    return assemble(LAB, list(learner), NAMES)


# Reading


def test_read_takes_code_cells_of_a_real_lab():
    cells = notebooks.read(ROOT / "labs" / "accelerators.ipynb")
    assert set(NAMES) <= {c["metadata"]["task"] for c in cells if "answer" in c["tags"]}


@pytest.mark.parametrize(
    "content, says",
    [
        (b"", "not valid JSON"),
        (b"{'a': 1", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b"\xff\xfe{\x00", "not UTF-8"),
        (b"[1, 2]", "no nbformat"),
        (b'{"nbformat": 3, "worksheets": []}', "format 3; format 4 is needed"),
        (b'{"nbformat": 4, "cells": "none"}', "no list of cells"),
        (json.dumps({"nbformat": 4, "cells": [cell("x = 1\n" * 8_000)] * 30}).encode(), "1,000,000 characters of code"),
    ],
)
def test_read_says_what_is_wrong(tmp_path, content, says):
    path = tmp_path / "a.ipynb"
    path.write_bytes(content)
    with pytest.raises(notebooks.Unreadable, match=says):
        notebooks.read(path)


def test_read_refuses_what_is_no_plain_small_file(tmp_path):
    (tmp_path / "secret.ipynb").write_text('{"nbformat": 4, "cells": []}')
    (tmp_path / "link.ipynb").symlink_to(tmp_path / "secret.ipynb")
    with pytest.raises(notebooks.Unreadable, match="symbolic link"):
        notebooks.read(tmp_path / "link.ipynb")
    os.mkfifo(tmp_path / "pipe.ipynb")
    with pytest.raises(notebooks.Unreadable, match="not a file"):
        notebooks.read(tmp_path / "pipe.ipynb")
    (tmp_path / "folder.ipynb").mkdir()
    with pytest.raises(notebooks.Unreadable, match="not a file"):
        notebooks.read(tmp_path / "folder.ipynb")
    with (tmp_path / "huge.ipynb").open("wb") as file:
        file.truncate(notebooks.MAX_BYTES + 1)
    with pytest.raises(notebooks.Unreadable, match="Clear all outputs"):
        notebooks.read(tmp_path / "huge.ipynb")


def test_code_cells_passes_over_what_is_no_cell():
    odd = [
        None,
        3,
        {},
        {"cell_type": "code", "source": ["a", 1, "b"], "metadata": [1]},
        {"cell_type": "code", "source": 5},
    ]
    assert notebooks.code_cells({"cells": odd}) == [{"source": "ab", "metadata": {}, "tags": []}]


# Finding


def test_find_by_file_and_by_folder_newest_first(tmp_path):
    for name in (
        "zoë 李.ipynb",
        "ben/lab.ipynb",
        "ben/deeper/lab-2.ipynb",
        "ben.ipynb",
        "ben/.ipynb_checkpoints/x.ipynb",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    (tmp_path / "empty").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "notes.txt").write_text("not a notebook")
    (tmp_path / "elsewhere").symlink_to("/")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "ben" / "around").symlink_to("..")
    for seconds, name in enumerate(["ben.ipynb", "ben/lab.ipynb", "ben/deeper/lab-2.ipynb"]):
        os.utime(tmp_path / name, (seconds, seconds))
    found = find(tmp_path, without=tmp_path / "out")
    assert [submission.student for submission in found] == ["ben", "empty", "zoë 李"]
    assert found[0].path == tmp_path / "ben" / "deeper" / "lab-2.ipynb"
    assert found[0].others == (tmp_path / "ben" / "lab.ipynb", tmp_path / "ben.ipynb")
    assert found[1].path is None


# Assembling


def test_only_answer_cells_are_taken():
    learner = [cell("import os; os.environ.clear()"), cell(f"def {ONE_WAY}(x):\n    return x", ONE_WAY, ["answer"])]
    learner += [cell("predict(low=1, high=2)", tags=["prediction"]), cell("steal()", tags=["measurement", "setup"])]
    result = assembled(*learner, stub(RING))
    assert result.answers[ONE_WAY].cells == (f"def {ONE_WAY}(x):\n    return x",)
    assert result.answers[RING].cells == (LAB[5]["source"],)
    assert result.setup == ()


def test_setup_is_what_the_answers_need():
    ring = cell(f"def {RING}(x):\n    return math.sqrt(x) + seed", RING)
    assert assembled(ring).setup == ("import math\nseed = 0",)
    lab = [cell("seed = 3", tags=["parameters"]), *LAB, cell("late = 1", tags=["setup"])]
    assert assemble(lab, [ring], NAMES).setup == ("seed = 3", "import math\nseed = 0", "late = 1")


def test_an_answer_without_metadata_is_found_by_name():
    result = assembled(cell("x = 1"), cell(f"{RING} = lambda x: x"))
    assert result.answers[RING].cells == (f"{RING} = lambda x: x",)
    assert "lost its label" in result.answers[RING].note
    assert result.answers[ONE_WAY].cells == ()


def test_the_first_definition_that_is_not_the_stub_counts():
    first, second = (cell(f"def {RING}(x):\n    return {n}", RING) for n in (1, 2))
    result = assembled(stub(RING), first, second)
    assert result.answers[RING].cells == (first["source"],)
    assert result.answers[RING].note == f"2 cells define {RING}; the first of them was graded."
    assert assembled(stub(RING), cell(f"def {RING}(x):\n    return 3")).answers[RING].source.endswith("...")


def test_a_split_cell_is_mended_and_a_merged_one_serves_both():
    half = cell("def step(x):\n    return x", RING, ["answer"])
    rest = cell(f"def {RING}(x):\n    return step(x)", RING, ["answer"])
    assert assembled(half, rest).answers[RING].cells == (half["source"], rest["source"])
    merged = cell(f"def {ONE_WAY}(x):\n    return x\n\ndef {RING}(x):\n    return x", ONE_WAY, ["answer"])
    result = assembled(merged)
    assert result.answers[ONE_WAY].cells == result.answers[RING].cells == (merged["source"],)


def test_a_cell_with_a_syntax_error_or_magics_is_still_the_answer():
    broken = cell(f"x = (\ndef {RING}(x) return x", RING, ["answer"])
    assert assembled(broken).answers[RING].cells == (broken["source"],)
    magic = cell(f"%matplotlib inline\n!ls\ndef {RING}(x):\n    return x")
    assert assembled(magic).answers[RING].cells == (magic["source"],)


def test_an_endless_cell_is_not_read():
    result = assembled(cell(f"def {RING}(x):\n    return x\n" + "#" * notebooks.MAX_CELL_CHARS, RING))
    assert result.answers[RING].cells == ()


# Use of the package

DIRECT = [
    "from aiinfra.collectives import ring_all_reduce_s",
    "import aiinfra.collectives as c\ndef f(x):\n    return c.ring_all_reduce_s(x)",
    "def f(x):\n    import aiinfra\n    return aiinfra.collectives.ring_all_reduce_s(x)",
    "from aiinfra import *",
    "f = __import__('aiinfra').checks.tasks('accelerators')['ring_all_reduce_s'].reference",
    "import importlib\nf = importlib.import_module('aiinfra' + '.collectives').ring_all_reduce_s",
    "from importlib import import_module as get\nf = get('aiinfra.collectives').ring_all_reduce_s",
    "exec('from ' + 'ai' + 'infra.collectives import ring_all_reduce_s as f')",
    "m = 'aiinfra.checks'\nf = __import__(m)",
    "def f(x):\n    return collectives.ring_all_reduce_s(x)",
    "f = collectives.ring_all_reduce_s",
    "f = getattr(collectives, 'ring_' + 'all_reduce_s')",
    "def f(x, g=collectives.ring_all_reduce_s):\n    return g(x)",
    "@collectives.ring_all_reduce_s\ndef f(x):\n    return x",
    "class A:\n    g = collectives.ring_all_reduce_s",
    "f = lambda x: [collectives.ring_all_reduce_s(x) for _ in range(2)][0]",
    "def f(x):\n    def g():\n        return collectives.ring_all_reduce_s(x)\n    return g()",
    "_c = collectives\ncollectives = None\ndef f(x):\n    return _c.ring_all_reduce_s(x)",
    "%time\nfrom aiinfra.collectives import ring_all_reduce_s",
]
INNOCENT = [
    "def f(x):\n    return 2 * x",
    "def f(x):\n    return f(x - 1) if x else 0",
    "def f(x):\n    return x\ncheck('accelerators', f)",
    "def f(x):\n    '''As the book of aiinfra has it.'''\n    return x",
    "def f(x):\n    collectives = [x]\n    return collectives[0]",
    "def f(collectives):\n    return collectives",
    "collectives = 2\ndef f(x):\n    return collectives * x",
    "print('aiinfra says hello')",
]


@pytest.mark.parametrize("source", DIRECT)
def test_package_use_is_seen(source):
    assert package_use(parse(source), {"collectives", "check"})


@pytest.mark.parametrize("source", INNOCENT)
def test_package_use_is_not_imagined(source):
    assert package_use(parse(source), {"collectives", "check"}) is None


def test_imported_names():
    source = (
        "import aiinfra.checks\nimport aiinfra.units as u, math\nfrom aiinfra import models as m\nfrom os import path"
    )
    assert imported_names(parse(source)) == {"aiinfra", "u", "m"}


def test_names_imported_by_another_answer_cell_are_seen():
    learner = [cell(f"from aiinfra import hbm as h\ndef {ONE_WAY}(x):\n    return x", ONE_WAY)]
    learner += [cell(f"def {RING}(x):\n    return h.ring(x)", RING)]
    answers = assembled(*learner).answers
    assert answers[ONE_WAY].package == "from aiinfra import hbm as h"
    assert answers[RING].package == "h"


# The harness


def report(**said):
    return json.dumps({"nonce": "n", **said})


def harness_says(function, cases):
    """What the harness cell publishes, run here."""
    published = []

    class Shell:
        class display_pub:
            @staticmethod
            def publish(data, metadata):
                published.extend(data.values())

    exec(harness.cell("f", cases, "n"), {"f": function, "get_ipython": Shell})
    return harness.outcomes(published, "n", len(cases))


def test_the_harness_reports_plain_values():
    cases = [(1, (2.5, None)), (2, (0.1, "text"))]
    assert harness_says(lambda n, pair: [n, *pair], cases) == [{"value": [1, 2.5, None]}, {"value": [2, 0.1, "text"]}]
    assert harness_says(None, cases) == "nothing"
    assert harness_says(3, cases) == "int"
    assert harness_says(lambda *_: 1 / 0, cases) == [{"error": "ZeroDivisionError: division by zero"}] * 2
    assert harness_says(lambda *_: "x" * 10**6, cases) == [{"error": "the answers are too long"}] * 2
    assert (
        harness_says(lambda *_: 10**400, cases) == [{"error": "OverflowError: a number in the answer is too large"}] * 2
    )
    deep = [[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]
    assert harness_says(lambda *_: deep, cases) == [{"error": "RecursionError: the answer is nested too deeply"}] * 2


def test_the_harness_wants_plain_inputs():
    with pytest.raises(ValueError, match="plain Python literals"):
        harness.cell("f", [(float("inf"),)], "n")
    with pytest.raises(ValueError, match="plain Python literals"):
        harness.cell("f", [(Path("x"),)], "n")


@pytest.mark.parametrize(
    "reports",
    [
        [],
        [report(outcomes=[{"value": 1}])] * 2,  # said twice
        [report(outcomes=[{"value": 1}]).replace('"n"', '"forged"')],
        [report(outcomes=[])],
        [report(outcomes=[{"value": 1, "error": "both"}])],
        [report(outcomes=[{"right": True}])],
        [report(outcomes=[{"error": 5}])],
        [report(outcomes="right")],
        ["[" * 100_000],
        ["not json", None, 7, {"nonce": "n"}],
        ['{"nonce": "n", "outcomes": [{"value": ' + "9" * 5000 + "}]}"],
        [report(outcomes=[{"value": "x" * harness.MAX_CHARS}])],
    ],
)
def test_a_malformed_report_is_an_error_and_nothing_worse(reports):
    with pytest.raises(harness.Malformed):
        harness.outcomes(reports, "n", 1)


def test_events_that_make_no_sense_are_passed_over():
    lines = [b"\xff", b"[1]", b'{"begin": 7}', b'{"begin": true}', b'{"begin": 0}', b'{"end": 3}', b"[" * 10_000]
    assert _follow(lines, ["cell"]) == (["cell"], [], "died")


def test_a_cell_shows_text_alone():
    html = {"output_type": "display_data", "data": {"text/html": "<script>1</script>", "text/plain": "a plot"}}
    error = {"output_type": "error", "traceback": ["\x1b[31mNameError\x1b[0m: x"]}
    assert text_of([{"output_type": "stream", "text": "hi\n"}, html, error], 100) == "hi\na plot\nNameError: x\n"
    assert text_of([{"output_type": "stream", "text": "x" * 200}], 100) == "x" * 100 + "\n[cut off]"


# Judging


def judged(function, source="def ring_all_reduce_s(): pass", **told):
    task = tasks("accelerators")[RING]
    cases = task.cases("7 alice")
    outcomes = {RING: [{"value": function(*case)} for case in cases]} if function else {}
    answer = assembled(cell(source, RING)).answers[RING]
    return _judge(task, answer, cases, Told(outcomes=outcomes, **told))


def test_points_of_a_task():
    task = tasks("accelerators")[RING]
    right = judged(task.reference)
    assert (right.status, right.points, right.misconception) == ("right", 6.0, None)
    latency = judged(lambda m, n, b, a: 2 * (n - 1) / n * m / b)
    assert (latency.status, latency.points, latency.misconception) == ("wrong", 0.0, "latency forgotten")
    n_calls = iter(range(6))
    half = judged(lambda *case: task.reference(*case) * (1 if next(n_calls) < 3 else 3))
    assert (half.status, half.points, half.n_right) == ("wrong", 3.0, 3)
    stopped = judged(None, problems={RING: "It was stopped."})
    assert (stopped.status, stopped.points, stopped.says) == ("error", 0.0, "It was stopped.")


def test_a_right_value_through_the_package_earns_nothing_and_is_named():
    use = judged(tasks("accelerators")[RING].reference, source="from aiinfra.collectives import ring_all_reduce_s")
    assert (use.status, use.points) == ("package", 0.0)
    both = f"import aiinfra.collectives as c\ndef {RING}(*a):\n    return c.ring_all_reduce_s(*a)"
    use = judged(tasks("accelerators")[RING].reference, source=both)
    assert (use.status, use.points) == ("package", 0.0)
    assert "import aiinfra.collectives as c" in use.says


def test_a_missing_import_gets_a_hint():
    task = tasks("accelerators")[RING]
    told = Told(outcomes={RING: [{"error": "NameError: name 'np' is not defined"}] * 6})
    result = _judge(task, assembled(cell(f"def {RING}(x): pass", RING)).answers[RING], task.cases("7"), told)
    assert result.status == "error"
    assert "Only answer cells are graded" in result.says


# Writing down

RESULT = Result(
    student="<b>Zoë</b>",
    status="graded",
    points=4,
    max_points=10,
    tasks=(
        TaskResult(
            ONE_WAY, "right", "Right on all 6 inputs.", 4.0, 4, source="a < b & c", showed="<script>alert(1)</script>"
        ),
        TaskResult(
            RING, "wrong", "Say why.", 0.0, 6, "latency forgotten", read_again="accelerators.html#a-ring-all-reduce"
        ),
    ),
    notes=("=1+1",),
)


def test_gradebook_rows(tmp_path):
    path = tmp_path / "gradebook.csv"
    refused = Result("=cmd|' /C calc'!A0", "not graded", 0.0, 10, notes=("Not a notebook.",), file="a.ipynb")
    gradebook.write_gradebook(path, [RESULT, refused], NAMES)
    rows = list(csv.DictReader(path.open(encoding="utf-8", newline="")))
    assert [row["student"] for row in rows] == ["<b>Zoë</b>", "'=cmd|' /C calc'!A0"]
    assert rows[0]["remarks"] == "'=1+1; ring_all_reduce_s: latency forgotten"
    assert (rows[0][ONE_WAY], rows[0][RING], rows[0]["points"], rows[1][RING]) == ("4", "0", "4", "")


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    gradebook.replace(tmp_path / ("a" * 250), "a long name")
    (tmp_path / ("a" * 250)).unlink()
    path = tmp_path / "gradebook.csv"
    gradebook.replace(path, "old")
    monkeypatch.setattr(os, "fsync", lambda fd: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        gradebook.replace(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_results_are_json_and_keep_the_seed(tmp_path):
    path = tmp_path / "results.json"
    odd = Result("a", "graded", 0.0, 4, (TaskResult(ONE_WAY, "wrong", "", 0.0, 4, outcomes=[{"value": float("nan")}]),))
    gradebook.write_results(path, [odd], {"seed": 12})
    read = json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(name))
    assert read["students"][0]["tasks"][0]["outcomes"] == [{"value": "nan"}]
    assert gradebook.earlier_seed(path) == 12
    assert gradebook.earlier_seed(tmp_path / "none.json") is None


def test_the_feedback_page_is_text_and_asks_for_nothing():
    html = page(RESULT, "accelerators")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "a &lt; b &amp; c" in html
    assert "&lt;b&gt;Zoë&lt;/b&gt;" in html
    assert "<script" not in html and "http" not in html.replace("http-equiv", "")
    assert "latency forgotten" in html and "“A ring all reduce”" in html


# The command


def grade(*arguments):
    return cli.main(["grade", *map(str, arguments)])


def test_wrong_use_is_told_in_a_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert grade(tmp_path / "none", "--lab", "accelerators", "--out", tmp_path / "out") == 2
    assert grade(tmp_path, "--lab", "accelerator", "--out", tmp_path / "out") == 2
    monkeypatch.chdir(tmp_path)
    assert grade(tmp_path, "--lab", "accelerators", "--out", tmp_path / "out") == 2
    assert grade(tmp_path, "--lab", "accelerators", "--out", tmp_path / "out", "--jobs", "0") == 2
    says = capsys.readouterr().err
    assert "there is no folder" in says and "no tasks for chapter 'accelerator'" in says
    assert "--lab-notebook PATH" in says and "--jobs must be at least 1" in says


def test_a_lab_without_the_answer_cell_of_a_task_is_refused(tmp_path):
    (tmp_path / "lab.ipynb").write_text(json.dumps({"nbformat": 4, "cells": [stub(ONE_WAY)]}))
    with pytest.raises(ValueError, match="no answer cell for task 'peak_from_clock'"):
        load_lab("accelerators", tmp_path / "lab.ipynb")


def test_without_a_sandbox_it_refuses(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert grade(tmp_path, "--lab", "accelerators", "--out", tmp_path / "out") == 2
    says = capsys.readouterr().err
    assert "sudo apt-get install bubblewrap" in says and "--no-sandbox" in says
    monkeypatch.setattr("sys.platform", "darwin")
    assert "needs Linux" in available.why_not()


@pytest.mark.parametrize(
    "complaint, apparmor, says",
    [
        ("bwrap: setting up uid map: Permission denied", True, "bwrap-userns-restrict"),
        ("bwrap: No permissions to create a new namespace", False, "does not let it make namespaces"),
        ("bwrap: Unknown option --size", False, "too old"),
        ("bwrap: execvp python: Permission denied", False, "can't run the Python"),
        ("bwrap: loopback: odd", False, "does not work here"),
    ],
)
def test_a_blocked_sandbox_is_explained(complaint, apparmor, says):
    assert says in available.explain(complaint, apparmor)
