"""The grader on a Dask cluster of this machine: the same grades, and a worker that dies costs a retry."""

import os
import signal
import threading

import dask
import distributed
import pytest

from aiinfra import cli
from aiinfra.grading.execution.cluster import Cluster, ClusterError, _refuse_unable
from aiinfra.grading.execution.run import Stopped
from aiinfra.grading.grade import Settings, grade_all, load_lab
from aiinfra.grading.intake.submissions import find
from tests.grading_corpus.behaviour import GOOD
from tests.grading_corpus.entry import LAB, RIGHT, answers

pytestmark = pytest.mark.usefixtures("sandbox")


@pytest.fixture(scope="module")
def workers():
    """Two processes on this machine."""
    settings = {"distributed.worker.memory.terminate": False, "distributed.comm.timeouts.connect": "120s"}
    with (
        dask.config.set(settings),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as both,
    ):
        yield both


def submissions(folder, copies=1):
    """Good, wrong and empty notebooks, and one that ends its process."""
    for entry in [*GOOD, answers("ends its process", "import os\nos._exit(0)\n" + RIGHT)]:
        for number in range(copies):
            entry.make(folder / f"{entry.name} {number}.ipynb")
    return find(folder)


def graded(folder, execute=None, each=lambda result: None, copies=1):
    """(status and points by student, what each task's function gave) of the `submissions`."""
    results = {}

    def keep(result):
        results[result.student] = (result.status, result.trouble, result.points, result.tasks)
        each(result)

    settings = Settings(load_lab("accelerators", LAB), seed=7)
    grade_all(submissions(folder, copies), settings, 2, keep, execute)
    return results


def test_the_same_grades_as_here(tmp_path, workers):
    with Cluster(workers.scheduler_address, ["numpy"]) as cluster:
        assert cluster.n_threads == 2
        assert graded(tmp_path, cluster.execute) == graded(tmp_path)


def test_a_worker_that_dies_costs_a_retry(tmp_path, workers):
    def kill_one(result):
        if not killed:
            killed.append(next(iter(workers.workers.values())).pid)
            os.kill(killed[0], signal.SIGKILL)

    killed = []
    with Cluster(workers.scheduler_address, ["numpy"]) as cluster:
        there = graded(tmp_path, cluster.execute, kill_one, copies=3)
    assert len(killed) == 1
    assert there == graded(tmp_path, copies=3)


def test_it_can_be_stopped(workers):
    with Cluster(workers.scheduler_address) as cluster:
        stop = threading.Event()
        stop.set()
        cluster._client.submit = lambda *a, **k: distributed.Future("never", cluster._client)
        with pytest.raises(Stopped):
            cluster.execute(None, {}, None, True, stop)


def test_the_command(tmp_path, workers, capsys):
    (tmp_path / "in").mkdir()
    submissions(tmp_path / "in")
    line = ["grade", tmp_path / "in", "--lab", "accelerators", "--lab-notebook", LAB, "--out", tmp_path / "out"]
    assert cli.main([*map(str, line), "--scheduler", workers.scheduler_address]) == 0
    assert "5 to grade" in capsys.readouterr().out


def test_a_cluster_that_can_not_grade_is_refused(monkeypatch):
    with pytest.raises(ClusterError, match="no workers"):
        _refuse_unable({})
    with pytest.raises(ClusterError, match=r"worker tcp://a has aiinfra 0\.0, expected"):
        _refuse_unable({"tcp://a": ("0.0", None)})
    monkeypatch.setattr("aiinfra.grading.execution.cluster._ANSWER_S", 1)
    with pytest.raises(ClusterError, match=r"no Dask scheduler at tcp://127\.0\.0\.1:9"):
        Cluster("tcp://127.0.0.1:9")
