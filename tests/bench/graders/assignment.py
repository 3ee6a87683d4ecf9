"""A small assignment with NumPy, four tasks, in the forms that three graders want."""

import numpy as np

from aiinfra.checks.tasks import Task
from aiinfra.grading.grade import Lab

# name -> (the answer, a check of it as nbgrader and otter run it)
TASKS = {
    "mean_of": ("def mean_of(values):\n    return float(np.mean(values))", "assert mean_of([1, 2, 6]) == 3"),
    "dot": ("def dot(a, b):\n    return float(np.dot(a, b))", "assert dot([1, 2], [3, 4]) == 11"),
    "scaled": (
        "def scaled(values):\n    return list(np.array(values) / np.max(values))",
        "assert scaled([2, 4]) == [0.5, 1]",
    ),
    "n_above": (
        "def n_above(values, bound):\n    return int((np.array(values) > bound).sum())",
        "assert n_above([1, 5, 7], 4) == 2",
    ),
}
STUB = "def {name}(*inputs):\n    ..."


def _drawn(rng):
    return [rng.randint(1, 9) for _ in range(4)]


_INPUTS = {
    "mean_of": lambda rng: (_drawn(rng),),
    "dot": lambda rng: (_drawn(rng), _drawn(rng)),
    "scaled": lambda rng: (_drawn(rng),),
    "n_above": lambda rng: (_drawn(rng), 4),
}
_REFERENCES = {
    "mean_of": lambda values: float(np.mean(values)),
    "dot": lambda a, b: float(np.dot(a, b)),
    "scaled": lambda values: [value / max(values) for value in values],
    "n_above": lambda values, bound: sum(value > bound for value in values),
}


def lab():
    """The assignment for this grader."""
    tasks = {name: Task(name, _REFERENCES[name], _INPUTS[name], points=1, rel_tol=1e-9) for name in TASKS}
    cells = [{"source": "import numpy as np", "metadata": {}, "tags": []}]
    cells += [
        {"source": STUB.format(name=name), "metadata": {"task": name, "tags": ["answer"]}, "tags": ["answer"]}
        for name in TASKS
    ]
    return Lab("bench", cells, tasks)


def notebook(cells):
    """A notebook of `cells`, each (source, metadata) or a str of Markdown."""
    made = []
    for number, cell in enumerate(cells):
        source, metadata = (cell, {}) if isinstance(cell, str) else cell
        made.append({"id": f"cell-{number}", "cell_type": "markdown", "source": source, "metadata": metadata})
        if not isinstance(cell, str):
            made[-1] |= {"cell_type": "code", "outputs": [], "execution_count": None}
    kernel = {"name": "python3", "language": "python", "display_name": "Python 3"}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": made}


def submission(answers=None):
    """A notebook for this grader, with the right answers or `answers` by task."""
    cells = [("import numpy as np", {})]
    for name, (right, _) in TASKS.items():
        cells.append(((answers or {}).get(name, right), {"task": name, "tags": ["answer"]}))
    return notebook(cells)


def for_nbgrader():
    """The assignment as nbgrader's authors write it, with the right answers, which is a submission too."""

    def about(name, **what):
        return {"nbgrader": {"schema_version": 3, "grade_id": name, "task": False, **what}}

    cells = [("import numpy as np", {})]
    for name, (answer, check) in TASKS.items():
        cells.append((answer, about(name, solution=True, grade=False, locked=False)))
        cells.append((check, about(f"test-{name}", solution=False, grade=True, locked=True, points=1)))
    return notebook(cells)


def for_otter():
    """The assignment as otter's authors write it."""
    cells = ["# ASSIGNMENT CONFIG\ngenerate: true", ("import numpy as np", {})]
    for name, (answer, check) in TASKS.items():
        body = answer.partition("\n")
        solution = f"{body[0]}\n    # BEGIN SOLUTION\n{body[2]}\n    # END SOLUTION"
        cells += [f"# BEGIN QUESTION\nname: {name}\npoints: 1", "# BEGIN SOLUTION", (solution, {}), "# END SOLUTION"]
        cells += ["# BEGIN TESTS", (check, {}), "# END TESTS", "# END QUESTION"]
    made = notebook(cells)
    for cell in made["cells"]:
        if cell["cell_type"] == "markdown":
            cell["cell_type"] = "raw"
    return made
