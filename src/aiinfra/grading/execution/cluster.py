"""Running notebooks on the workers of a Dask cluster.

The calls are those of one machine. A worker gets an assembled notebook with the hidden inputs and gives back what it
told, from a sandbox of its own; submissions, expected values and grades stay here, so a worker needs no files but this
package. A task of a worker that dies goes to another one. Interrupted, what workers are running there runs to its end.

Who can reach a Dask scheduler can run code on its workers. Keep it inside a network that you trust.
"""

import threading
from importlib.metadata import version

from aiinfra.grading.execution.available import why_not
from aiinfra.grading.execution.run import Stopped, run
from aiinfra.grading.execution.warm import Warm

_TURN_S = 0.5
_ANSWER_S = 60
_RETRIES = 3
_warm: dict[tuple, Warm] = {}  # on a worker: by modules; they end with it
_one_at_a_time = threading.Lock()


class ClusterError(Exception):
    """Why a cluster can't be used, as a sentence."""


class Cluster:
    """The workers behind the scheduler at `address`, with the `modules` imported. To be closed.

    Raises ClusterError where there are none, or where one could not grade: no sandbox, another version of the package.
    """

    def __init__(self, address, modules=(), isolated=True):
        try:
            from distributed import Client
        except ImportError:
            raise ClusterError("a cluster needs Dask: pip install 'aiinfra[cluster]'") from None
        self._modules = tuple(modules)
        try:
            self._client = Client(address, timeout=_ANSWER_S, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ClusterError(f"there is no Dask scheduler at {address}: {error}") from None
        try:
            self.n_threads = sum(self._client.nthreads().values())
            _refuse_unable(self._client.run(_able, isolated))
        except BaseException:
            self.close()
            raise

    def execute(self, assembled, cases, limits, isolated, stop):
        """What `run.run` gives for these arguments, from one of the workers."""
        future = self._client.submit(
            _run_there, assembled, cases, limits, isolated, self._modules, pure=False, retries=_RETRIES
        )
        done = threading.Event()  # a result with a timeout now and then fails inside Dask, when both come together
        future.add_done_callback(lambda _: done.set())
        while not done.wait(_TURN_S):
            if stop.is_set():
                future.cancel()
                raise Stopped
        return future.result()

    def close(self):
        self._client.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


def _refuse_unable(workers):
    """Raise ClusterError unless all `workers`, what `_able` gave by address, can grade; there must be one."""
    if not workers:
        raise ClusterError("the cluster has no workers")
    for address, (there, problem) in sorted(workers.items()):
        if there != version("aiinfra"):
            raise ClusterError(f"worker {address} has aiinfra {there}, expected {version('aiinfra')}")
        if problem:
            raise ClusterError(f"worker {address}: {problem}")


def _able(isolated):
    """On a worker: its version of the package, and why it can't grade, if it can't."""
    return version("aiinfra"), why_not() if isolated else None


def _run_there(assembled, cases, limits, isolated, modules):
    """On a worker: run one notebook."""
    with _one_at_a_time:
        if isolated and modules not in _warm:
            _warm[modules] = Warm(limits, modules)
    return run(assembled, cases, limits, isolated, threading.Event(), _warm.get(modules))
