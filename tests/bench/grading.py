"""Notebooks a minute of the grader, cold and warm, beside nbgrader and otter; and a class of two hundred."""

import functools
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import threading
import time
from importlib.metadata import version
from pathlib import Path

import distributed
import psutil

from aiinfra.grading.execution import available
from aiinfra.grading.execution.cluster import Cluster
from aiinfra.grading.execution.run import run
from aiinfra.grading.grade import Settings, grade_all, load_lab
from aiinfra.grading.intake.submissions import find
from aiinfra.grading.records.gradebook import write_gradebook

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.graders import assignment, others  # noqa: E402
from tests.grading_corpus.entry import save  # noqa: E402

N_EACH, N_CLASS = 20, 200
JOBS = os.cpu_count() or 1
RING, ONE_WAY = "ring_all_reduce_s", "one_way_bytes_per_s"


def main():
    isolated = available.why_not() is None
    packages = ("papermill", "nbclient", "ipykernel", "numpy")
    print(
        f"grading: {JOBS} at once on {JOBS} processors, load before {os.getloadavg()[0]:.1f}, sandbox of aiinfra "
        f"{'on' if isolated else 'OFF'}; Python {platform.python_version()}, "
        + ", ".join(f"{name} {version(name)}" for name in packages)
    )
    with tempfile.TemporaryDirectory() as folder:
        beside_others(Path(folder), isolated)
    with tempfile.TemporaryDirectory() as folder:
        a_class(Path(folder), isolated)


def beside_others(folder, isolated):
    """Four tasks with NumPy, all right."""
    (folder / "in").mkdir()
    for number in range(N_EACH):
        save(folder / "in" / f"student-{number}.ipynb", assignment.submission())
    settings = Settings(assignment.lab(), seed=0, isolated=isolated)
    cold = rate(folder, settings, run)
    print_rate("aiinfra, every notebook from nothing", cold, 1)
    if isolated:
        warm = rate(folder, settings, None)
        print_rate("aiinfra, imports done", warm, warm / cold)
    try:
        programs, versions = others.environment(folder)
    except others.Unavailable as error:
        print(f"nbgrader and otter: not measured; they could not be installed: {error}")
        return
    for measure, name in zip((others.nbgrader, others.otter), versions, strict=True):
        try:
            found = measure(programs, folder / measure.__name__, N_EACH, JOBS)
            print_rate(f"{name}, no sandbox", found, found / cold)
        except others.Unavailable as error:
            print(f"{name}: not measured: {error}")


def rate(folder, settings, execute):
    """Notebooks a minute."""
    others.say(f"aiinfra: {N_EACH} notebooks, {JOBS} at a time")
    results, started = [], time.monotonic()
    grade_all(find(folder / "in"), settings, JOBS, results.append, execute)
    seconds = time.monotonic() - started
    assert all(result.points == result.max_points for result in results), results
    return 60 * N_EACH / seconds


def print_rate(what, per_minute, ratio):
    print(f"{what}: {per_minute:.0f} notebooks a minute, {ratio:.2f} times the first line")


def a_class(folder, isolated):
    """Copies of mixed submissions: memory of all processes, a whole gradebook, the same grades again, and on Dask."""
    lab = load_lab("accelerators", ROOT / "labs" / "accelerators.ipynb")
    settings = Settings(lab, seed=0, isolated=isolated)
    mixed_class(folder / "in")
    books = [graded(folder, settings, f"run {number}", None) for number in (1, 2)]
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as workers,
        Cluster(workers.scheduler_address, ["numpy"], isolated) as cluster,
    ):
        books.append(graded(folder, settings, "Dask, two workers", cluster.execute))
    print(f"the same gradebook each time: {books[0] == books[1] == books[2]}")


def graded(folder, settings, name, execute):
    """The gradebook of the class, graded once; prints how that went."""
    results = []
    with Peak() as peak:
        started = time.monotonic()
        grade_all(find(folder / "in"), settings, JOBS, functools.partial(keep, results), execute)
        seconds = time.monotonic() - started
    write_gradebook(folder / "gradebook.csv", results, list(settings.lab.tasks))
    middle = statistics.median(result.seconds for result in results)
    print(
        f"{N_CLASS} mixed notebooks, {name}: {60 * N_CLASS / seconds:.0f} a minute, median {middle:.2f} s, "
        f"{len(results)} rows in the gradebook, peak memory {peak.n_bytes / 1e6:.0f} MB in all processes",
        flush=True,
    )
    return (folder / "gradebook.csv").read_text()


def mixed_class(folder):
    """In ten, six solutions, two wrong answers, one empty lab, and one that is broken or takes more than it may."""
    folder.mkdir()
    answers = {
        "solution": {},
        "misconceived": {RING: "def ring_all_reduce_s(m, n, b, a):\n    return 2 * (n - 1) / n * m / b"},
        "broken": {RING: "def ring_all_reduce_s(m, n, b, a:\n    return 0"},
        "exits": {ONE_WAY: "import os\nos._exit(0)"},
        "memory": {ONE_WAY: "hoard = []\nwhile True:\n    hoard.append(bytearray(1 << 24))"},
    }
    notebooks = {name: json.loads((ROOT / "solutions" / "accelerators.ipynb").read_text()) for name in answers}
    for name, changes in answers.items():
        for cell in notebooks[name]["cells"]:
            cell["source"] = changes.get(cell["metadata"].get("task"), cell["source"])
    for number in range(N_CLASS):
        if number % 10 == 0:
            shutil.copy(ROOT / "labs" / "accelerators.ipynb", folder / f"student-{number:03}.ipynb")
        else:
            kind = ("broken", "exits", "memory")[number // 10 % 3] if number % 10 == 5 else "solution"
            kind = "misconceived" if number % 10 in (3, 7) else kind
            save(folder / f"student-{number:03}.ipynb", notebooks[kind])


def keep(results, result):
    results.append(result)
    if len(results) % 50 == 0:
        others.say(f"{len(results)} of {N_CLASS}")


class Peak:
    """The most memory that this process and all below it had at once, each shared page counted once where possible."""

    def __init__(self):
        self.n_bytes, self._done = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exception):
        self._done.set()
        self._thread.join()

    def _watch(self):
        me = psutil.Process()
        while not self._done.wait(0.5):
            self.n_bytes = max(self.n_bytes, sum(map(memory, [me, *me.children(recursive=True)])))


def memory(process):
    try:
        return process.memory_full_info().pss
    except (psutil.Error, AttributeError):
        return 0


if __name__ == "__main__":
    main()
