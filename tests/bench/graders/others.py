"""nbgrader's autograde and otter's run, in an environment of their own from PyPI, without any sandbox."""

import concurrent.futures
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from tests.bench.graders import assignment


class Unavailable(Exception):
    """Why a grader can't be measured here."""


def environment(folder):
    """(folder of its programs, names with versions) of a new environment with both graders."""
    say("installing nbgrader and otter")
    run([sys.executable, "-m", "venv", str(folder / "venv")])
    programs = folder / "venv" / "bin"
    pip = [str(programs / "python"), "-m", "pip", "--disable-pip-version-check"]
    run([*pip, "install", "--quiet", "nbgrader", "otter-grader", "numpy", "ipykernel"])
    listed = {entry["name"]: entry["version"] for entry in json.loads(run([*pip, "list", "--format", "json"]).stdout)}
    return programs, [f"{name} {listed[name]}" for name in ("nbgrader", "otter-grader")]


def nbgrader(programs, folder, n, jobs):
    """Notebooks a minute of nbgrader's autograde on `n` right submissions, in `jobs` processes."""
    source = folder / "source" / "hw"
    source.mkdir(parents=True)
    content = json.dumps(assignment.for_nbgrader())
    (source / "hw.ipynb").write_text(content)
    run([programs / "nbgrader", "generate_assignment", "hw"], folder)
    for number in range(n):
        place = folder / "submitted" / f"g{number % jobs}-{number}" / "hw"
        place.mkdir(parents=True)
        (place / "hw.ipynb").write_text(content)
    say(f"nbgrader: {n} notebooks in {jobs} processes")
    started = time.monotonic()
    each([[programs / "nbgrader", "autograde", "hw", f"--student=g{job}-*"] for job in range(jobs)], folder, jobs)
    seconds = time.monotonic() - started
    done = len(list(folder.glob("autograded/*/hw/hw.ipynb")))
    if done != n:
        raise Unavailable(f"nbgrader graded {done} of {n}")
    return 60 * n / seconds


def otter(programs, folder, n, jobs):
    """Notebooks a minute of otter's run on `n` right submissions, `jobs` at a time."""
    folder.mkdir()
    (folder / "hw.ipynb").write_text(json.dumps(assignment.for_otter()))
    run([programs / "otter", "assign", "hw.ipynb", "dist", "--no-run-tests", "--no-pdfs"], folder)
    archive = next(folder.glob("dist/autograder/*.zip"))
    lines = []
    for number in range(n):
        place = folder / f"student-{number}"
        place.mkdir()
        (place / "hw.ipynb").write_bytes((folder / "dist" / "autograder" / "hw.ipynb").read_bytes())
        lines.append([programs / "otter", "run", "-a", archive, "-o", place, "--no-logo", place / "hw.ipynb"])
    say(f"otter: {n} notebooks, {jobs} at a time")
    started = time.monotonic()
    each(lines, folder, jobs)
    seconds = time.monotonic() - started
    scores = [json.loads(path.read_text()) for path in folder.glob("student-*/results.json")]
    right = sum(all(test.get("score") == test.get("max_score") for test in result["tests"]) for result in scores)
    if right != n:
        raise Unavailable(f"otter found {right} of {n} right")
    return 60 * n / seconds


def each(lines, folder, jobs):
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(lambda line: run(line, folder), lines))


def run(line, folder=None):
    """Run a command line; Unavailable where it fails."""
    line = [str(word) for word in line]
    path = f"{Path(line[0]).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        line, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = re.sub(r"\s+", " ", (done.stderr or done.stdout).strip())[-300:]
        raise Unavailable(f"{Path(line[0]).name} {line[1]}: {said}")
    return done


def say(what):
    """Progress, apart from the results."""
    print(f"  ... {what}", file=sys.stderr, flush=True)
