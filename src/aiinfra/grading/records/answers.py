"""The answers in words of a whole class on one page, for the instructor who reads them and fills in manual.csv."""

from pathlib import Path

from aiinfra.grading.completion import judge
from aiinfra.grading.intake import notebooks
from aiinfra.grading.records.feedback import template


def page(results, lab, solutions=Path("solutions")):
    """The page as text; `solutions` is the folder whose notebook has the model answers, if it is there."""
    models = _models(lab, solutions)
    tasks = []
    for item in lab.items:
        if item.kind == "written":
            found = [(result, _of(result, item.name)) for result in sorted(results, key=lambda each: each.student)]
            entries = [(result, done) for result, done in found if done and done.text]
            missing = [result.student for result, done in found if not (done and done.text)]
            tasks.append({"item": item, "model": models.get(item.name, ""), "entries": entries, "missing": missing})
    return template("answers.html.jinja").render(stem=lab.stem, tasks=tasks)


def _of(result, name):
    return next((done for done in result.completion if done.name == name), None)


def _models(lab, solutions):
    """The model answers by task: what the solution's cells have beyond the lab's."""
    try:
        code, text = notebooks.read_all(Path(solutions, f"{lab.stem}.ipynb"))
    except notebooks.Unreadable:
        return {}
    return {done.name: done.text for done in judge(lab.items, lab.text, code, text)}
