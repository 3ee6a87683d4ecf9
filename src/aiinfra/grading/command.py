"""The command `aiinfra grade`."""

import os
import platform
import secrets
import sys
from importlib.metadata import version
from pathlib import Path

EPILOG = """\
SUBMISSIONS holds alice.ipynb, or a folder alice with her notebook, for each student; of several the newest counts.
DIR receives gradebook.csv, a page for each student in feedback/, and results.json with everything."""
_UNSAFE = "Without a sandbox a notebook can do whatever you can. If you trust every notebook, say --no-sandbox."


def add_arguments(parser):
    """Say what `aiinfra grade` takes."""
    parser.epilog = EPILOG
    parser.add_argument("submissions", metavar="SUBMISSIONS", type=Path, help="folder of notebooks")
    parser.add_argument("--lab", metavar="STEM", required=True, help="the lab, such as accelerators")
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="where the results go")
    parser.add_argument("--lab-notebook", metavar="PATH", help="the released notebook; default labs/STEM.ipynb")
    parser.add_argument(
        "--seed", type=int, help="of the hidden inputs; keep it to yourself; default drawn once for each DIR"
    )
    parser.add_argument("--jobs", metavar="N", type=int, default=os.cpu_count() or 1, help="notebooks at a time")
    parser.add_argument(
        "--no-sandbox", action="store_true", help="run the notebooks with all your rights; only for notebooks you trust"
    )


def main(options):
    """Grade, say how it went, and return the exit status: 0 all graded, 1 trouble of the grader's own, 2 wrong use."""
    from aiinfra.grading.available import why_not
    from aiinfra.grading.grade import Settings, load_lab

    if not options.submissions.is_dir():
        return _refuse(f"there is no folder {options.submissions}")
    if options.jobs < 1:
        return _refuse(f"--jobs must be at least 1, got {options.jobs}")
    try:
        lab = load_lab(options.lab, options.lab_notebook)
        options.out.joinpath("feedback").mkdir(parents=True, exist_ok=True)
    except (ValueError, OSError) as error:
        return _refuse(str(error))
    problem = None if options.no_sandbox else why_not()
    if problem:
        return _refuse(f"{problem}\n{_UNSAFE}")
    return _grade(options, Settings(lab, _seed(options), isolated=not options.no_sandbox))


def _refuse(sentence):
    print(f"aiinfra grade: {sentence}", file=sys.stderr)
    return 2


def _seed(options):
    """The seed that was given, that of an earlier run into the same folder, or a new one that nobody can guess."""
    from aiinfra.grading.gradebook import earlier_seed

    if options.seed is not None:
        return options.seed
    earlier = earlier_seed(options.out / "results.json")
    return secrets.randbelow(10**9) if earlier is None else earlier


def _grade(options, settings):
    from aiinfra.grading.feedback import write_feedback
    from aiinfra.grading.grade import TROUBLE, Result, grade_all
    from aiinfra.grading.gradebook import write_gradebook, write_results
    from aiinfra.grading.submissions import find

    submissions = find(options.submissions, without=options.out)
    results: list[Result] = []
    out = options.out
    about = _about(settings)
    write_results(out / "results.json", results, about)  # keeps the seed, should the run be killed

    def each(result):
        results.append(result)
        write_feedback(out / "feedback" / f"{result.student}.html", result, settings.lab.stem)
        write_gradebook(out / "gradebook.csv", results, list(settings.lab.tasks))
        print(
            f"[{len(results)}/{len(submissions)}] {_printable(result.student)} {result.seconds:.1f} s", file=sys.stderr
        )

    write_gradebook(out / "gradebook.csv", results, list(settings.lab.tasks))
    try:
        grade_all(submissions, settings, options.jobs, each)
    except KeyboardInterrupt:
        print(f"Interrupted: {len(results)} of {len(submissions)} are graded.", file=sys.stderr)
        return 130
    finally:
        write_results(out / "results.json", results, about)
    print(_table(results, settings.lab.tasks))
    print(f"\nGradebook: {out / 'gradebook.csv'}")
    print(f"Feedback:  {out / 'feedback'}{os.sep}, a page for each student")
    print(f"Details:   {out / 'results.json'}")
    if not settings.isolated:
        print("Graded WITHOUT a sandbox: the notebooks could do whatever you can.")
    return 1 if any(result.status == TROUBLE for result in results) else 0


def _about(settings):
    import dataclasses

    packages = ("aiinfra", "papermill", "nbclient", "ipykernel")
    return {
        "lab": settings.lab.stem,
        "seed": settings.seed,
        "sandbox": "bubblewrap" if settings.isolated else "none",
        "limits": dataclasses.asdict(settings.limits),
        "max_points": {task.name: task.points for task in settings.lab.tasks.values()},
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
    }


def _table(results, task_names):
    """The results as a table for the terminal: a mark for each task, and what needs a sentence."""
    from aiinfra.grading.feedback import WORDS

    rows = [("student", "points", "tasks", "status", "remarks")]
    for result in sorted(results, key=lambda result: result.student):
        marks = " ".join(WORDS[task.status][0] for task in result.tasks)
        named = [
            task.misconception or ("uses the package" if task.status == "package" else "") for task in result.tasks
        ]
        remarks = "; ".join([*result.notes, *filter(None, named)])
        row = (result.student, f"{result.points:g} of {result.max_points}", marks, result.status, remarks[:90])
        rows.append(tuple(map(_printable, row)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    legend = f"Tasks in order: {', '.join(task_names)}.\n✓ right  ✗ wrong  ! did not run through  … not attempted"
    return "\n".join([*lines, "", legend])


def _printable(text):
    """`text` without what a terminal would obey."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
