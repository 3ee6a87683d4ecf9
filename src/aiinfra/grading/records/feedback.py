"""One page for each learner: their code, what was checked, what was wrong with it and where to read again.

The page is one file without scripts and without anything from elsewhere. Whatever comes from a learner's notebook is
text in it: the template escapes everything, and no output of a notebook is ever shown as HTML.
"""

import functools
import hashlib
import os
import re
from pathlib import Path

import jinja2

from aiinfra.grading.records.gradebook import replace

WORDS = {
    "right": ("✓", "Right"),
    "wrong": ("✗", "Not right yet"),
    "error": ("!", "Did not run through"),
    "missing": ("…", "Answer cell missing"),
    "not attempted": ("…", "Not attempted"),
    "package": ("✗", "Uses the package's answer"),
    "by hand": ("✎", "Points given by hand"),
}
_MAX_NAME_BYTES = 200
_MAX_CALLS = 3


def write_feedback(path, result, stem):
    """Write the page of one `result` to `path`."""
    replace(path, page(result, stem))


def path_of(folder, student):
    """Where the page of a student is; a name that is too long for the system is cut, and stays the student's alone."""
    name = os.fsencode(student)
    if len(name) > _MAX_NAME_BYTES:
        student = name[: _MAX_NAME_BYTES - 20].decode(errors="ignore") + "-" + hashlib.sha256(name).hexdigest()[:12]
    return Path(folder, f"{student}.html")


@functools.cache
def template(name):
    """A template of this folder; whatever is put into one is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def page(result, stem):
    """The page as text."""
    tasks = [
        {"result": task, "mark": WORDS[task.status], "where": _where(task.read_again), "calls": _calls(task)}
        for task in result.tasks
    ]
    predictions = [done for done in result.completion if done.kind == "prediction"]
    written = [done for done in result.completion if done.kind == "written"]
    return template("feedback.html.jinja").render(
        result=result, stem=stem, tasks=tasks, opening=_opening(result), predictions=predictions, written=written
    )


def _opening(result):
    """The first sentence: what the result means for the learner."""
    n_right = sum(task.status == "right" for task in result.tasks)
    if result.status == "graded by hand":
        return "Your notebook could not be run by the grader. Your instructor read it and gave points by hand."
    if not result.tasks:
        return "Your notebook could not be graded. The reason is below; it can be put right."
    if n_right == len(result.tasks):
        return "Every task is right, on inputs that you had not seen."
    if all(task.status in ("not attempted", "missing") for task in result.tasks):
        return "There is nothing to grade yet. Start with the first task: its cell in the lab says what is asked."
    if n_right:
        verb = "is" if n_right == 1 else "are"
        return f"{n_right} of {len(result.tasks)} tasks {verb} right. The others say below what to look at."
    return "No task is right yet. Each says below what to look at, and where to read again."


def _calls(task):
    """Some of the calls that were made, and what came back, one a line."""
    lines = []
    for case, outcome in list(zip(task.cases, task.outcomes, strict=False))[:_MAX_CALLS]:
        call = f"{task.task}({', '.join(_short(argument) for argument in case)})"
        back = _short(outcome["value"]) if "value" in outcome else f"raised {_short(outcome.get('error'))}"
        lines.append(f"{call}\n    → {back}")
    return "\n".join(lines)


def _short(value):
    text = f"{value:.6g}" if isinstance(value, float) else str(value) if isinstance(value, str) else repr(value)
    return text if len(text) <= 200 else text[:197] + "..."


def _where(read_again):
    """A place of the book in words: "accelerators.html#a-ring-all-reduce" -> ("accelerators", "A ring all reduce")."""
    if not read_again:
        return None
    page_name, _, anchor = read_again.partition("#")
    words = re.sub(r"[-_]+", " ", anchor).strip()
    return page_name.removesuffix(".html"), words[:1].upper() + words[1:]
