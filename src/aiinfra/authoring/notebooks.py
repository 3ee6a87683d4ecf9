"""One source per lab: `solutions/<stem>.py` makes the solution's notebook and the learner's.

The source is a percent-format notebook. Between the lines "# BEGIN ANSWER" and "# END ANSWER" stands what the
learner is to write; their notebook has `...` there. A Markdown cell tagged "written" asks for an answer in words. Cells
tagged "solution" are left out. The same source always makes the same bytes: cell ids come from the cells' text, nothing
from the clock.
"""

import copy
import hashlib
import os
import re
import tempfile
from pathlib import Path

import jupytext
import nbformat
import yaml

import aiinfra
from aiinfra import checks

BEGIN, END = "# BEGIN ANSWER", "# END ANSWER"
LEARNERS_TAGS = ("answer", "prediction", "written")
_IN_WORDS = "BEGIN ANSWER"  # the marker as a Markdown cell has it, where "# " is how its source is written


class SourceError(ValueError):
    """A lab's source that can't be turned into notebooks; the message names file and line or cell."""


def stems(root):
    """Stems of all labs under `root`, in alphabetical order."""
    return sorted(path.stem for path in (root / "solutions").glob("*.py"))


def repository_url(root):
    """The project's public address, from the environment or `_config.yml`; "" where it has none."""
    configured = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))["repository"]["url"]
    return os.environ.get("AIINFRA_REPOSITORY_URL", configured or "").removesuffix("/")


def build(root, stem):
    """(solution, lab): both notebooks of `stem`, without outputs."""
    path = root / "solutions" / f"{stem}.py"
    text = path.read_text(encoding="utf-8")
    _check_markers(path, text)
    notebook = jupytext.reads(text, fmt="py:percent")
    _check_tasks(path, stem, notebook)
    cells = [_cell(cell) for cell in notebook.cells]
    cells[1:1] = _setup_cells(root, stem)
    _name_cells(cells)
    solution, lab = _notebook(cells), _notebook(copy.deepcopy(cells))
    lab.cells = [cell for cell in lab.cells if "solution" not in cell.metadata.get("tags", [])]
    for cell in solution.cells:
        markers = {BEGIN, END, BEGIN.removeprefix("# "), END.removeprefix("# ")}
        cell.source = "\n".join(line for line in cell.source.splitlines() if line.strip() not in markers)
    for cell in lab.cells:
        cell.source = without_answers(cell.source)
    return solution, lab


def without_answers(source):
    """`source` with `...` in place of each answer, at the answer's indentation."""
    pattern = r"^([ \t]*)(?:# )?BEGIN ANSWER\n.*?^[ \t]*(?:# )?END ANSWER$"
    return re.sub(pattern, r"\1...", source, flags=re.MULTILINE | re.DOTALL)


def _check_markers(path, text):
    opened = None
    for line_number, line in enumerate(text.splitlines(), start=1):
        marker = line.strip()
        if marker == BEGIN:
            if opened:
                raise SourceError(f"{path}:{line_number}: {BEGIN} inside the answer begun on line {opened}")
            opened = line_number
        elif marker == END:
            if not opened:
                raise SourceError(f"{path}:{line_number}: {END} without {BEGIN}")
            opened = None
        elif line.startswith("# %%") and opened:
            raise SourceError(f"{path}:{opened}: {BEGIN} is not closed by {END} in its cell")
        elif marker.upper() in (BEGIN, END):
            raise SourceError(f"{path}:{line_number}: write the marker as {marker.upper()!r}, got {marker!r}")
    if opened:
        raise SourceError(f"{path}:{opened}: {BEGIN} is not closed by {END} in its cell")


def _check_tasks(path, stem, notebook):
    """Every task has one answer cell, every answer cell has a task, and markers stand in learners' cells only."""
    known = list(checks.tasks(stem))
    found = [cell.metadata.get("task") for cell in notebook.cells if "answer" in cell.metadata.get("tags", [])]
    if found != known:
        raise SourceError(f"{path}: answer cells must have the tasks {known}, in this order; they have {found}")
    for cell in notebook.cells:
        learners = set(cell.metadata.get("tags", [])) & set(LEARNERS_TAGS)
        first = cell.source.partition("\n")[0]
        if (_IN_WORDS in cell.source) != bool(learners):
            raise SourceError(f"{path}: cell {first!r} needs an answer and one of the tags {LEARNERS_TAGS}, or neither")
        if ("written" in learners) != (cell.cell_type == "markdown" and bool(learners)):
            raise SourceError(f"{path}: cell {first!r}: the tag 'written' is for Markdown, the other tags are for code")
        if "written" in learners:
            _check_written(path, first, cell.metadata, known)
            known.append(cell.metadata["task"])


def _check_written(path, first, metadata, taken):
    """A written answer has a name of its own, which is also its cell's id, and points."""
    name, points = metadata.get("task"), metadata.get("points")
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9_]{0,50}", name) or name in taken:
        raise SourceError(f'{path}: cell {first!r} needs a task of its own, such as task="why"; it has {name!r}')
    if type(points) is not int or points < 1:
        raise SourceError(f"{path}: cell {first!r} needs points, such as points=2; it has {points!r}")


def _cell(cell):
    kind = {"markdown": nbformat.v4.new_markdown_cell, "code": nbformat.v4.new_code_cell}[cell.cell_type]
    metadata = {key: cell.metadata[key] for key in ("tags", "task", "points") if key in cell.metadata}
    return kind(cell.source, metadata=metadata)


def _setup_cells(root, stem):
    """The cells that make a lab run on Colab: a badge, and installing the package where it is missing."""
    url = repository_url(root)
    release = os.environ.get("AIINFRA_RELEASE", f"v{aiinfra.__version__}")  # a term must not break in its middle
    missing = f'%pip install -q "aiinfra[labs,torch] @ git+{url}@{release}"'
    if not url:
        missing = 'raise ImportError("install the package of this course first: see its README, Do the labs") from None'
    source = f"try:\n    import aiinfra\nexcept ImportError:\n    {missing}"
    setup = nbformat.v4.new_code_cell(source, metadata={"tags": ["setup"]})
    if not url.startswith("https://github.com/"):
        return [setup]
    colab = url.replace("https://github.com/", "https://colab.research.google.com/github/")
    badge = f"[Open this lab in Colab]({colab}/blob/labs/labs/{stem}.ipynb)"
    return [nbformat.v4.new_markdown_cell(badge), setup]


def _name_cells(cells):
    seen: dict[str, int] = {}
    for cell in cells:
        digest = hashlib.sha256(cell.source.encode()).hexdigest()[:10]
        seen[digest] = seen.get(digest, 0) + 1
        cell.id = cell.metadata.get("task") or f"c{digest}-{seen[digest]}"


def _notebook(cells):
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return nbformat.from_dict({"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells})


def execute(notebook, progress=print):
    """`notebook` with the outputs of running it top to bottom, in an empty folder."""
    from nbclient import NotebookClient

    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "AIINFRA_PREDICTIONS": str(Path(folder, "predictions.jsonl"))}
        client = NotebookClient(notebook, timeout=120, store_widget_state=False, record_timing=False,
                                resources={"metadata": {"path": folder}})  # fmt: skip
        client.execute(env=environment)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    notebook.metadata = _notebook([]).metadata
    return notebook


def text(notebook):
    """The notebook as the text of its file, the same for the same notebook."""
    nbformat.validate(notebook)
    return nbformat.writes(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def without_outputs(notebook):
    stripped = copy.deepcopy(notebook)
    for cell in stripped.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return stripped


def stale(root):
    """Problems of generated notebooks under `root`: missing, different from their source, or without outputs."""
    problems = []
    for stem in stems(root):
        for folder, wanted in zip(("solutions", "labs"), build(root, stem), strict=True):
            path = root / folder / f"{stem}.ipynb"
            there = nbformat.read(path, 4) if path.exists() else None
            if there is None or text(without_outputs(there)) != text(wanted):
                problems.append(f"{path.relative_to(root)} is not what solutions/{stem}.py makes; run make notebooks")
            elif folder == "solutions" and not any(cell.get("execution_count") for cell in there.cells):
                problems.append(f"{path.relative_to(root)} has no outputs; run make notebooks")
    return problems


def write(root, force=False, progress=print):
    """Generate all notebooks under `root`; a solution is executed again only where its cells changed, or by `force`."""
    current = [] if force else stems(root)
    fresh = {stem for stem in current if not any(f"/{stem}.ipynb" in problem for problem in stale(root))}
    for stem in stems(root):
        if stem in fresh:
            progress(f"{stem}: up to date")
            continue
        progress(f"{stem}: running its solution")
        solution, lab = build(root, stem)
        (root / "labs" / f"{stem}.ipynb").write_text(text(lab), encoding="utf-8")
        (root / "solutions" / f"{stem}.ipynb").write_text(text(execute(solution)), encoding="utf-8")
