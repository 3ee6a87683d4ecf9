"""The command `aiinfra release`: what learners get, which is their notebook, its data and a page of instructions.

With a roster and `--parameters per-student`, a notebook for each student as well. Nothing that is there already and
differs is overwritten, and nothing is written where an answer would get out.
"""

import os
import shutil
from pathlib import Path

import nbformat

from aiinfra.grading import parameters
from aiinfra.grading.command import refuse
from aiinfra.grading.grade import load_lab
from aiinfra.grading.intake import roster

EPILOG = """\
DIR receives STEM.ipynb, instructions.md, and the files of labs/STEM/ where the lab has data. With --parameters
per-student it also receives students/NAME/STEM.ipynb for everybody on the roster; the folders have the names that
Canvas or Moodle use, so that Moodle takes their zip as feedback files. The secret of the class must not lie in DIR, and
grading needs it again."""
_LEARNERS = {"answer", "prediction", "written"}
_TELLING_CHARS = 12  # a line of an answer that is shorter says nothing


def add_arguments(parser):
    """Say what `aiinfra release` takes."""
    parser.epilog = EPILOG
    parser.add_argument("--lab", metavar="STEM", required=True, help="the lab, such as accelerators")
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="where the files go")
    parser.add_argument("--lab-notebook", metavar="PATH", type=Path, help="default labs/STEM.ipynb")
    parser.add_argument("--parameters", choices=["per-student"], help="also a notebook for each student")
    parser.add_argument(
        "--roster", metavar="CSV", type=Path, help="the class: from Canvas, Moodle, or a column student"
    )
    parser.add_argument("--secret", metavar="FILE", type=Path, help="the class's secret; made where there is none")


def main(options):
    """Write the files, say which, and return the exit status: 0, or 2 where nothing was written."""
    try:
        files = _files(options)
        _refuse_changed(files)
        _write(files)
    except (ValueError, OSError) as error:
        return refuse(str(error), "release")
    students = [path for path in files if path.parent.parent == options.out / "students"]
    for path in files:
        if path not in students:
            print(f"wrote {path}")
    if students:
        print(f"wrote {len(students)} notebooks in {options.out / 'students'}, each with its own parameters")
    return 0


def _files(options):
    """The content of every file to be written, by path. Raises ValueError where something would get out."""
    stem = options.lab
    path = options.lab_notebook or Path("labs", f"{stem}.ipynb")
    lab = load_lab(stem, path)
    notebook = nbformat.read(path, 4)
    leak = leaks(notebook, path.parent.parent / "solutions" / f"{stem}.ipynb")
    if leak:
        raise ValueError(f"{path} is not for learners: {leak}")
    files = {options.out / f"{stem}.ipynb": _text(notebook)}
    files[options.out / "instructions.md"] = instructions(lab, notebook)
    for data in sorted(path for path in Path(path.parent, stem).rglob("*") if path.is_file()):
        files[options.out / stem / data.relative_to(path.parent / stem)] = data.read_bytes()
    if options.parameters:
        files |= _students_files(options, lab, notebook)
    elif options.roster or options.secret:
        raise ValueError("--roster and --secret are for --parameters per-student, which is missing")
    return files


def _students_files(options, lab, notebook):
    if not options.roster or not options.secret:
        raise ValueError("--parameters per-student needs --roster CSV and --secret FILE")
    if options.secret.resolve().is_relative_to(options.out.resolve()):
        raise ValueError(f"--secret {options.secret} must not lie in {options.out}, which learners get")
    wanted = parameters.names(lab.cells)
    if not wanted:
        raise ValueError(f"lab {lab.stem!r} has no cell tagged 'parameters': the same notebook is for everybody")
    people = roster.read(options.roster)
    secret = parameters.read_secret(options.secret, create=True)
    suffix = "_assignsubmission_file_" if people.kind == "moodle" else ""
    files = {}
    for person in people.people:
        values = parameters.derive(secret, lab.stem, person.key, wanted)
        path = options.out / "students" / f"{person.student}{suffix}" / f"{lab.stem}.ipynb"
        files[path] = _text(parameters.inject(notebook, values))
    return files


def leaks(notebook, solution):
    """Why a notebook must not go to learners, in a few words, or None.

    notebook : NotebookNode
    solution : Path           the solved notebook; where there is none, learners' cells must at least have a `...`
    """
    for cell in notebook.cells:
        tags = set(cell.metadata.get("tags", []))
        if "solution" in tags:
            return "it has a cell for the solution alone"
        if cell.get("outputs"):
            return "it has outputs; make notebooks makes it without"
        if tags & _LEARNERS and "..." not in cell.source:
            return f"the cell {cell.source.strip().partition(chr(10))[0]!r} has no ... to be replaced"
    if not Path(solution).exists():
        return None
    stubs = {cell.id: {line.strip() for line in cell.source.splitlines()} for cell in notebook.cells}
    released = "\n".join(cell.source for cell in notebook.cells)
    for cell in nbformat.read(solution, 4).cells:
        if set(cell.metadata.get("tags", [])) & _LEARNERS:
            answer = [line.strip() for line in cell.source.splitlines() if line.strip() not in stubs.get(cell.id, ())]
            telling = [line for line in answer if len(line) >= _TELLING_CHARS]
            if telling and all(line in released for line in telling):
                return f"it has the answer {telling[0]!r}"
    return None


def instructions(lab, notebook):
    """One page for learners, in Markdown: what to do, what counts, how to hand in."""
    title = next(
        (line for cell in notebook.cells for line in cell.source.splitlines() if line.startswith("# ")), "# Lab"
    )
    points = "\n".join(f"| {name} | {most} |" for name, most in _points(lab))
    return f"""{title}

1. Open `{lab.stem}.ipynb` in JupyterLab or Colab and work from top to bottom.
2. Predict before you compute: replace `...` by `low=` and `high=`. A prediction counts when it is made, not for being
   right.
3. Write the functions marked `...`. The cell below each says what is right, or which misconception it sees.
4. Answer the questions in words in the cells that ask for it.
5. Choose *Restart kernel and run all cells*, save, and hand in the one file `{lab.stem}.ipynb`. Not a zip.

| what counts | points |
|---|---|
{points}
| **together** | **{sum(lab.max_points.values())}** |

Your functions are called on inputs that you have not seen; a task gives part of its points where only some come out
right. Put every import and helper that a function needs into its own cell: other cells of yours are not graded. The
package `aiinfra` is not there while notebooks are graded. Of several files that you hand in, the newest before the
deadline counts.
"""


def _points(lab):
    predictions = [item for item in lab.items if item.kind == "prediction"]
    yield from ((f"`{task.name}`", task.points) for task in lab.tasks.values())
    yield from ((f"`{item.name}`, in words", item.max_points) for item in lab.items if item.kind == "written")
    if predictions:
        yield f"{len(predictions)} predictions", sum(item.max_points for item in predictions)


def _text(notebook):
    nbformat.validate(notebook)
    return nbformat.writes(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _refuse_changed(files):
    """Raise ValueError where a file is there that would change."""
    changed = [path for path, content in files.items() if path.exists() and path.read_bytes() != _bytes(content)]
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise ValueError(f"{changed[0]}{more} is there and differs; remove it, or choose another folder")


def _bytes(content):
    return content.encode() if isinstance(content, str) else content


def _write(files):
    """Write all files, each whole."""
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{os.getpid()}.part")
        temporary.write_bytes(_bytes(content))
        shutil.move(temporary, path)
