"""The class on one page: how the points are distributed, which tasks went how, which misconceptions are common.

For the instructor: it names students only where somebody has to look. One file, no script, nothing from elsewhere; each
picture has its numbers in a table below it. Pictures need vl-convert; where it is missing, the tables remain.
"""

import math
import statistics
from collections import Counter

from aiinfra import charts
from aiinfra.grading.grade import GRADED
from aiinfra.grading.records.feedback import template

_BINS = 10


def page(results, lab):
    """The page as text. `results` with the points of manual.csv, `lab` a grade.Lab."""
    graded = [result for result in results if result.status == GRADED or result.tasks]
    figures = [_points(graded, sum(lab.max_points.values())), _tasks(graded, lab), _misconceptions(graded, lab)]
    figures.append(_times(graded))
    return template("summary.html.jinja").render(
        stem=lab.stem,
        facts=_facts(results, graded, sum(lab.max_points.values())),
        figures=[figure | {"pictures": _pictures(figure)} for figure in figures if figure["rows"]],
        looks=_looks(results),
    )


def _facts(results, graded, most):
    points = [result.points for result in graded]
    facts = [("students", str(len(results))), ("graded", str(len(graded)))]
    if points:
        middle = f"{statistics.median(points):g} of {most}"
        facts += [("median points", middle), ("mean points", f"{statistics.fmean(points):.1f} of {most}")]
    return [*facts, ("late", str(sum(result.late for result in results)))]


def _looks(results):
    """(student, why) of each result that a person should look at."""
    found = []
    for result in sorted(results, key=lambda result: result.student):
        reasons = [] if result.status == GRADED else [result.status, *result.notes]
        reasons += [f"{task.task} uses the package's answer" for task in result.tasks if task.status == "package"]
        if reasons:
            found.append((result.student, "; ".join(reasons)))
    return found


def _figure(title, says, columns, rows, spec):
    return {"title": title, "says": says, "columns": columns, "rows": rows, "spec": spec}


def _points(graded, most):
    width = max(math.ceil(most / _BINS), 1)
    n_bins = math.ceil(most / width)
    counts = Counter(min(int(result.points / width), n_bins - 1) for result in graded)
    names = [f"{n * width} to {min((n + 1) * width, most)}" for n in range(n_bins)]
    rows = [(name, counts[n]) for n, name in enumerate(names)] if graded else []
    x = charts.axis("name", f"points, of {most}", "ordinal", sort=names, axis={"labelAngle": -45})
    y = charts.axis("students", "students", axis={"tickMinStep": 1})
    data = [{"name": name, "students": counts[n]} for n, name in enumerate(names)]
    layer = {"mark": {"type": "bar", "color": charts.COLOURS[0]}, "encoding": {"x": x, "y": y}}
    says = ""
    if graded:
        quarter = sum(result.points < most / 4 for result in graded)
        says = f"Half of the class has {statistics.median(result.points for result in graded):g} points or more; "
        says += f"{quarter} of {len(graded)} have less than a quarter of {most}."
    return _figure("Points", says, ("points", "students"), rows, charts.chart("", data, [layer]))


def _tasks(graded, lab):
    """Share of the points that the class reached, task by task."""
    reached: dict[str, list[float]] = {}
    for result in graded:
        shares = [(task.task, task.points / task.max_points) for task in result.tasks]
        shares += [(done.name, done.points / done.max_points) for done in result.completion if done.kind == "written"]
        predicted = [done.points / done.max_points for done in result.completion if done.kind == "prediction"]
        shares += [("predictions", statistics.fmean(predicted))] if predicted else []
        for name, value in shares:
            reached.setdefault(name, []).append(value)
    share = {name: 100 * statistics.fmean(values) for name, values in reached.items()}
    full = {name: sum(value >= 1 for value in values) for name, values in reached.items()}
    rows = [(name, f"{share[name]:.0f} %", f"{full[name]} of {len(reached[name])}") for name in share]
    data = [{"name": name, "value": value} for name, value in share.items()]
    says = ""
    if share:
        hardest = min(lab.tasks, key=lambda name: share.get(name, 100.0))
        says = f"Of the tasks, {hardest} went worst: {share.get(hardest, 100.0):.0f} % of its points were reached."
    spec = _bars(data, "points reached (%)", list(share), 115.0, values=[0, 20, 40, 60, 80, 100])
    return _figure("Tasks", says, ("task", "points reached", "full points"), rows, spec)


def _misconceptions(graded, lab):
    held = Counter((task.task, task.misconception) for result in graded for task in result.tasks if task.misconception)
    common = sorted(held.items(), key=lambda item: (-item[1], item[0]))
    rows = [(task, misconception, n) for (task, misconception), n in common]
    named = Counter(misconception for _, misconception in held)
    data = [{"name": name if named[name] == 1 else f"{name}, {task}", "value": n} for (task, name), n in common[:12]]
    says = ""
    if common:
        (task, misconception), n = common[0]
        says = f"Most common: “{misconception}” in {task}, held by {n} of {len(graded)}. Read it again together."
    spec = _bars(data, "students", [row["name"] for row in data], _room(n for _, n in common))
    return _figure("Misconceptions", says, ("task", "misconception", "students"), rows, spec)


def _times(graded):
    seconds = sorted(result.seconds for result in graded)
    rows, data = [], []
    for low, high in zip((0, 1, 2, 5, 10, 20, 60), (1, 2, 5, 10, 20, 60, None), strict=True):
        n = sum(low <= each < (high or float("inf")) for each in seconds)
        name = f"{low} to {high} s" if high else f"{low} s and more"
        rows.append((name, n))
        data.append({"name": name, "value": n})
    says = f"Half took {statistics.median(seconds):.1f} s or less, the slowest {seconds[-1]:.1f} s." if seconds else ""
    spec = _bars(data, "notebooks", [row["name"] for row in data], _room(n for _, n in rows))
    return _figure("Time of a notebook", says, ("time", "notebooks"), rows if seconds else [], spec)


def _room(numbers):
    """The end of an axis that leaves room for the numbers at the ends of bars."""
    return 1.15 * max(numbers, default=1)


def _bars(data, title, order, most, **axis):
    y = charts.axis("name", None, "nominal", sort=order, axis={"labelLimit": 170})
    x = charts.axis("value", title, scale={"domain": [0, most], "nice": False}, axis={"tickMinStep": 1, **axis})
    return charts.labelled_bars("", data, x, y, {"value": charts.COLOURS[0]}, ",.0f", step=24)


def _pictures(figure):
    """The chart as SVG for a wide and for a narrow screen, or nothing where it can't be drawn."""
    try:
        return [("wide", charts.svg(figure["spec"])), ("narrow", charts.svg(figure["spec"], charts.NARROW_WIDTH))]
    except ImportError:
        return []
