"""The gradebook and the full results: files that are whole at any moment, whenever the grader is killed."""

import csv
import dataclasses
import io
import json
import math
import os
import threading
from pathlib import Path


def write_gradebook(path, results, task_names, items=()):
    """Write gradebook.csv: a row a student, by name. Safe to call after every result.

    Columns: what came of it, points for each of the tasks, of all predictions together and of each answer in words
    (`items` of the lab), late or not, remarks, and the file that was graded.
    """
    table = io.StringIO()
    rows = csv.writer(table, lineterminator="\n")
    written = [item.name for item in items if item.kind == "written"]
    predictions = ["predictions"] if any(item.kind == "prediction" for item in items) else []
    names = [*task_names, *predictions, *written]
    rows.writerow(["student", "points", "max_points", "status", *names, "late", "remarks", "file"])
    for result in sorted(results, key=lambda result: result.student):
        points = {task.task: f"{task.points:g}" for task in result.tasks}
        points |= {done.name: f"{done.points:g}" for done in result.completion}
        predicted = [done.points for done in result.completion if done.kind == "prediction"]
        points |= {"predictions": f"{math.fsum(predicted):g}"} if predicted else {}
        row = [result.student, f"{result.points:g}", result.max_points, result.status]
        row += [*(points.get(name, "") for name in names), "late" if result.late else "", remarks(result), result.file]
        rows.writerow([inert(value) for value in row])
    replace(path, table.getvalue())


def remarks(result):
    """In a line, what an instructor wants to know about a result besides its points."""
    parts = list(result.notes)
    for task in result.tasks:
        if task.status == "package":
            parts.append(f"{task.task}: uses the package's answer")
        elif task.status == "error":
            parts.append(f"{task.task}: {task.says[:100]}")
        elif task.status not in ("right", "by hand"):
            parts.append(f"{task.task}: {task.misconception or task.status}")
    by_hand = [task.task for task in result.tasks if task.by_hand] + [i.name for i in result.completion if i.by_hand]
    parts += [f"points by hand: {', '.join(by_hand)}"] if by_hand else []
    return "; ".join(parts)


def write_results(path, results, about):
    """Write results.json: `about` the run, and everything about every student."""
    students = [dataclasses.asdict(result) for result in sorted(results, key=lambda result: result.student)]
    text = json.dumps(finite({**about, "students": students}), indent=1, ensure_ascii=False, allow_nan=False)
    replace(path, text + "\n")


def earlier_seed(path):
    """The seed in the results at `path`, or None, so that grading again into the same folder gives the same grades."""
    try:
        seed = json.loads(Path(path).read_text(encoding="utf-8"))["seed"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return seed if type(seed) is int else None


def replace(path, text):
    """Put `text` into the file at `path` in one step: a reader, and a crash, sees the old file or the new one."""
    path = Path(path)
    temporary = path.with_name(f".{os.getpid()}-{threading.get_ident()}.part")  # short: the name itself may be long
    try:
        with temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def inert(value):
    """`value` such that a spreadsheet shows it and does not compute it: names of files are the students' choice."""
    text = str(value)
    return "'" + text if len(text) > 1 and text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def finite(value):
    """`value` with text in place of the numbers that JSON does not have: NaN and the infinities."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    return [finite(entry) for entry in value] if isinstance(value, list | tuple) else value
