"""Notebooks per minute of the grader, with its sandbox, on copies of a lab's solution."""

import os
import platform
import shutil
import statistics
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from aiinfra.grading import available
from aiinfra.grading.grade import Settings, grade_all, load_lab
from aiinfra.grading.submissions import find

ROOT = Path(__file__).parents[2]
N_NOTEBOOKS = 20


def main():
    isolated = available.why_not() is None
    lab = load_lab("accelerators", ROOT / "labs" / "accelerators.ipynb")
    with tempfile.TemporaryDirectory() as folder:
        for number in range(N_NOTEBOOKS):
            shutil.copy(ROOT / "solutions" / "accelerators.ipynb", Path(folder, f"student-{number:02}.ipynb"))
        results, started = [], time.monotonic()
        grade_all(find(folder), Settings(lab, seed=0, isolated=isolated), os.cpu_count() or 1, results.append)
        seconds = time.monotonic() - started
    assert all(result.points == result.max_points for result in results)
    versions = ", ".join(f"{name} {version(name)}" for name in ("papermill", "nbclient", "ipykernel"))
    print(
        f"grading: {60 * N_NOTEBOOKS / seconds:.0f} notebooks a minute, {len(lab.tasks)} tasks each, "
        f"sandbox {'on' if isolated else 'OFF'}, {os.cpu_count()} at once; "
        f"median {statistics.median(result.seconds for result in results):.2f} s each "
        f"(Python {platform.python_version()}, {versions})"
    )


if __name__ == "__main__":
    main()
