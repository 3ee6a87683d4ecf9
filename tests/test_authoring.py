"""Notebooks from their source, and a new chapter from the template."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from aiinfra.authoring import notebooks

ROOT = Path(__file__).parents[1]


def source(*, ring="    # BEGIN ANSWER\n    return 1\n    # END ANSWER", more=""):
    return f"""# %% [markdown]
# # A lab

# %% tags=["answer"] task="one_way_bytes_per_s"
def one_way_bytes_per_s(n_links, link_gb_per_s):
    # BEGIN ANSWER
    secret = 5
    return secret
    # END ANSWER

# %% tags=["answer"] task="ring_all_reduce_s"
def ring_all_reduce_s(message_bytes, n_ranks, link_bytes_per_s, alpha_s):
{ring}
{more}
"""


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A project with one lab of two tasks."""
    monkeypatch.setattr(
        notebooks.checks, "tasks", lambda stem: dict.fromkeys(("one_way_bytes_per_s", "ring_all_reduce_s"))
    )
    for folder in ("solutions", "labs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "_config.yml").write_text("repository:\n  url: ''\n", encoding="utf-8")
    return tmp_path


def build(root, text):
    (root / "solutions" / "accelerators.py").write_text(text, encoding="utf-8")
    return notebooks.build(root, "accelerators")


def test_the_learners_notebook_has_no_answer_and_the_solution_no_marker(root):
    solution, lab = build(root, source())
    assert "return secret" in notebooks.text(solution)
    assert "BEGIN ANSWER" not in notebooks.text(solution) + notebooks.text(lab)
    assert "secret" not in notebooks.text(lab)
    stub = next(cell.source for cell in lab.cells if cell.metadata.get("task") == "one_way_bytes_per_s")
    assert stub == "def one_way_bytes_per_s(n_links, link_gb_per_s):\n    ..."


def test_the_same_source_makes_the_same_bytes(root):
    first = [notebooks.text(notebook) for notebook in build(root, source())]
    assert [notebooks.text(notebook) for notebook in build(root, source())] == first


def test_cells_have_the_same_ids_in_both_notebooks_and_answers_their_tasks(root):
    solution, lab = build(root, source())
    assert [cell.id for cell in solution.cells] == [cell.id for cell in lab.cells]
    assert {"one_way_bytes_per_s", "ring_all_reduce_s"} <= {cell.id for cell in lab.cells}


def test_cells_for_the_solution_only_are_left_out(root):
    solution, lab = build(root, source(more='\n# %% tags=["solution"]\nprint("for instructors")'))
    assert len(lab.cells) == len(solution.cells) - 1
    assert "for instructors" not in notebooks.text(lab)


WORDS = """
# %% [markdown] tags=["written"] task="why" points=3
# Your answer:
#
# BEGIN ANSWER
# Because secret.
# END ANSWER
"""


def test_an_answer_in_words_has_its_model_in_the_solution_alone(root):
    solution, lab = build(root, source(more=WORDS))
    assert solution.cells[-1].source == "Your answer:\n\nBecause secret."
    assert lab.cells[-1].source == "Your answer:\n\n..."
    assert (lab.cells[-1].metadata, lab.cells[-1].id) == ({"tags": ["written"], "task": "why", "points": 3}, "why")


@pytest.mark.parametrize(
    ("was", "now", "says"),
    [
        (" points=3", "", "needs points, such as points=2; it has None"),
        ("points=3", "points=0", "it has 0"),
        (' task="why"', "", "needs a task of its own"),
        ('task="why"', 'task="ring_all_reduce_s"', "needs a task of its own"),
        ('["written"]', '["answer"]', "must have the tasks"),
        ("[markdown] ", "", "the tag 'written' is for Markdown"),
        ("# BEGIN ANSWER\n# Because secret.\n# END ANSWER", "# ...", "needs an answer and one of the tags"),
    ],
)
def test_a_cell_for_words_that_is_incomplete_is_refused(root, was, now, says):
    with pytest.raises(notebooks.SourceError, match=says):
        build(root, source(more=WORDS.replace(was, now)))


@pytest.mark.parametrize(
    ("ring", "says"),
    [
        ("    # BEGIN ANSWER\n    return 1", ":13: # BEGIN ANSWER is not closed"),
        ("    return 1\n    # END ANSWER", ":14: # END ANSWER without # BEGIN ANSWER"),
        ("    # BEGIN ANSWER\n    # BEGIN ANSWER\n    # END ANSWER", ":14: # BEGIN ANSWER inside the answer"),
        ("    # begin answer\n    return 1\n    # end answer", "write the marker as '# BEGIN ANSWER'"),
        ("    return 1", "needs an answer and one of the tags"),
    ],
)
def test_unbalanced_or_missing_markers_are_refused_with_their_line(root, ring, says):
    with pytest.raises(notebooks.SourceError, match=says):
        build(root, source(ring=ring))


def test_an_answer_that_runs_into_the_next_cell_is_refused(root):
    with pytest.raises(notebooks.SourceError, match="is not closed by # END ANSWER in its cell"):
        build(root, source(ring="    # BEGIN ANSWER\n    return 1", more="\n# %%\n    # END ANSWER"))


def test_a_lab_must_have_each_task_once(root):
    with pytest.raises(notebooks.SourceError, match="answer cells must have the tasks"):
        build(root, source().replace('task="ring_all_reduce_s"', 'task="ring"'))


def test_the_badge_and_the_install_line_come_from_the_configured_address(root, monkeypatch):
    assert "Colab" not in notebooks.text(build(root, source())[1])
    monkeypatch.setenv("AIINFRA_REPOSITORY_URL", "https://github.com/someone/course")
    lab = notebooks.text(build(root, source())[1])
    assert "https://colab.research.google.com/github/someone/course/blob/labs/labs/accelerators.ipynb" in lab
    assert "git+https://github.com/someone/course@v" in lab


def test_stale_notebooks_are_found(root):
    solution, lab = build(root, source())
    assert len(notebooks.stale(root)) == 2
    (root / "labs" / "accelerators.ipynb").write_text(notebooks.text(lab), encoding="utf-8")
    (root / "solutions" / "accelerators.ipynb").write_text(notebooks.text(solution), encoding="utf-8")
    assert notebooks.stale(root) == ["solutions/accelerators.ipynb has no outputs; run make notebooks"]
    lab.cells[0].source += " changed by hand"
    (root / "labs" / "accelerators.ipynb").write_text(notebooks.text(lab), encoding="utf-8")
    assert any(problem.startswith("labs/accelerators.ipynb is not what") for problem in notebooks.stale(root))


def test_committed_solutions_have_outputs_and_no_errors():
    for path in (ROOT / "solutions").glob("*.ipynb"):
        outputs = [out for cell in nbformat.read(path, 4).cells for out in cell.get("outputs", [])]
        assert outputs
        assert not [out for out in outputs if out.output_type == "error"]


def authoring(root, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)


def test_a_new_chapter_is_complete_and_passes_its_own_tests(tmp_path):
    """make new, make notebooks, make check and the chapter's tests, in a copy of the project."""
    kept = ("book", "labs", "solutions", "src", "tests", "pyproject.toml", "_config.yml", "_toc.yml")
    for name in kept:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    made = authoring(tmp_path, "aiinfra.authoring", "new", "demo_chapter")
    assert made.returncode == 0, made.stderr
    again = authoring(tmp_path, "aiinfra.authoring", "new", "demo_chapter")
    assert (again.returncode, "exists already" in again.stderr) == (1, True)
    assert authoring(tmp_path, "aiinfra.authoring", "check").returncode == 1
    generated = authoring(tmp_path, "aiinfra.authoring", "notebooks")
    assert generated.returncode == 0, generated.stderr
    checked = authoring(tmp_path, "aiinfra.authoring", "check")
    assert checked.returncode == 0, checked.stdout
    for linted in (("check",), ("format", "--check")):
        lint = authoring(tmp_path, "ruff", *linted, "src", "solutions", "tests/chapters")
        assert lint.returncode == 0, lint.stdout
    tested = authoring(tmp_path, "pytest", "-p", "no:xdist", "-o", "addopts=--import-mode=importlib",
                       "tests/chapters/test_demo_chapter.py")  # fmt: skip
    assert tested.returncode == 0, tested.stdout


@pytest.mark.parametrize("stem", ["Upper", "with-dash", "1st", "class", ""])
def test_a_stem_that_cannot_be_a_module_is_refused(tmp_path, stem):
    refused = authoring(ROOT, "aiinfra.authoring", "new", stem)
    assert (refused.returncode, "STEM must be lower case" in refused.stderr) == (1, True)
