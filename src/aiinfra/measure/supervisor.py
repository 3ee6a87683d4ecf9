"""The process between a notebook and its ranks: it starts them, watches them and ends them.

It imports torch once and forks ranks from there, which takes milliseconds. When the notebook's process goes away, by
whatever death, the supervisor sees their connection close, ends every rank with all its descendants, and leaves.
"""

import atexit
import contextlib
import ctypes
import importlib
import multiprocessing
import multiprocessing.connection
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from aiinfra.measure import worker

START_LIMIT_S = 120.0  # for all ranks to be connected; the time limit of the call begins after that
OUTPUT_LIMIT_BYTES = 16 * 2**20  # of one rank; a rank that prints more is ended
_SIBLINGS_S = 0.2  # the time that other ranks get to report an exception too, once one has
_DUMP_S = 20.0  # the time that stuck ranks get to write where they are; on an idle machine they need milliseconds
_SPARE_S = 30.0  # beyond all of these, before the notebook gives up on the supervisor itself
_LINUX = sys.platform == "linux"
START_METHOD = "fork" if _LINUX else "spawn"
_PR_SET_CHILD_SUBREAPER = 36
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_PRELOAD = (
    "torch",
    "torch.distributed",
    "torch.nn.parallel",
    "torch.distributed.fsdp",
    "torch._dynamo",  # imported by optimizers, DDP and the byte counter; half a second in each rank otherwise
    "aiinfra.measure.counting",
)


_lock = threading.Lock()
_running: "Supervisor | None" = None


def ask(folder, n_ranks, timeout_s):
    """Have `n_ranks` ranks run the call that lies in `folder`, and return the supervisor's reply.

    The first call starts a supervisor, later ones use it again. Whatever interrupts this function ends it.
    """
    global _running
    call = {"folder": folder, "n_ranks": n_ranks, "timeout_s": timeout_s, "start_method": START_METHOD}
    call |= {"environ": dict(os.environ), "cwd": os.getcwd(), "path": list(sys.path)}
    with _lock:
        if _running is None or not _running.usable():
            _running = Supervisor()
        try:
            return _running.ask(call)
        except BaseException:
            _running.stop()
            raise


class Supervisor:
    """A running supervisor, as the notebook's process sees it."""

    def __init__(self):
        self.connection, theirs = multiprocessing.Pipe()
        code = (
            f"import sys; sys.path[:] = {sys.path!r}; from aiinfra.measure.supervisor import serve; "
            f"serve({theirs.fileno()}, {os.getpid()})"
        )
        command = [sys.executable, "-c", code]
        options: dict[str, Any] = {name: subprocess.DEVNULL for name in ("stdin", "stdout", "stderr")}
        options["env"] = os.environ | {name: "1" for name in _THREAD_VARIABLES}
        if sys.platform == "win32":
            os.set_handle_inheritable(theirs.fileno(), True)
            self.process = subprocess.Popen(command, close_fds=False, **options)
        else:  # in a session of its own, where an interrupt from the keyboard does not reach it
            self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()], start_new_session=True, **options)
        theirs.close()
        self.owner_pid = os.getpid()
        atexit.register(self.stop)

    def usable(self):
        return self.owner_pid == os.getpid() and not self.connection.closed and self.process.poll() is None

    def ask(self, call):
        deadline = time.monotonic() + START_LIMIT_S + call["timeout_s"] + _SPARE_S
        with contextlib.suppress(EOFError, OSError):
            self.connection.send(call)
            while self.process.poll() is None and time.monotonic() < deadline:
                if self.connection.poll(1.0):
                    return self.connection.recv()
        self.stop()
        return {"reason": "broken", "text": "the process that watches over the ranks has ended or does not answer"}

    def stop(self):
        """Close the connection, upon which the supervisor ends all ranks and itself, and see that it does."""
        atexit.unregister(self.stop)
        if self.owner_pid != os.getpid():  # this is a fork of the notebook's process, and the supervisor is not ours
            return
        self.connection.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class NotebookGone(Exception):
    """The process that asked for the ranks died, or no longer wants them."""


def serve(handle, parent_pid):
    """Answer one call after another on the connection `handle`, until process `parent_pid` closes it or dies."""
    connection_type = getattr(multiprocessing.connection, "PipeConnection", multiprocessing.connection.Connection)
    connection = connection_type(handle)
    if _LINUX:  # descendants that a rank leaves behind become children of this process, which ends them
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    folder = None
    with contextlib.suppress(NotebookGone, EOFError, OSError):
        while True:
            while not connection.poll(1.0):
                _check_parent(parent_pid)
            call = connection.recv()
            folder = call["folder"]
            connection.send(_answer(call, connection, parent_pid))
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _check_parent(parent_pid):
    if os.getppid() != parent_pid:
        raise NotebookGone


def _answer(call, connection, parent_pid):
    """The reply to one call: why it ended and, of each rank, how far it came and the exit code if it died."""
    ranks = Ranks(call, connection, parent_pid)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = call["folder"]  # importing torch._dynamo leaves an empty folder there
    try:
        for name in _PRELOAD:
            importlib.import_module(name)
        ranks.start()
        reason = _outcome(ranks, call["timeout_s"])
        return {"reason": reason, "phases": ranks.phases, "exit_codes": [p.exitcode for p in ranks.processes]}
    except NotebookGone:
        raise
    except Exception:
        return {"reason": "broken", "text": traceback.format_exc()}
    finally:
        ranks.end()


def _outcome(ranks, timeout_s):
    if not ranks.wait_until(lambda: "starting" not in ranks.phases or ranks.failed(), START_LIMIT_S):
        return "slow start"
    if not ranks.wait_until(lambda: ranks.failed() or ranks.settled(), timeout_s):
        ranks.wait_until(ranks.dumped, _DUMP_S)
        return "timeout"
    if ranks.failed():
        ranks.wait_until(lambda: "died" in ranks.phases or ranks.settled(), _SIBLINGS_S)
        return "failed"
    return "returned"


class Ranks:
    """The processes of one call. A rank's phase goes from "starting" over "running" to "returned" or "raised", which
    it says itself, or to "died" or "flooded", which is found out."""

    def __init__(self, call, connection, parent_pid):
        self.call = call
        self.connection = connection
        self.parent_pid = parent_pid
        self.processes = []
        self.pipes = []  # None once closed by the rank
        self.phases = []

    def start(self):
        context = multiprocessing.get_context(self.call["start_method"])
        for rank in range(self.call["n_ranks"]):
            reader, writer = context.Pipe(duplex=False)
            process = context.Process(target=worker.run, args=(rank, self.call, writer))
            process.start()
            writer.close()
            self.processes.append(process)
            self.pipes.append(reader)
            self.phases.append("starting")

    def wait_until(self, condition, limit_s):
        """Follow the ranks until `condition()` holds. Returns whether it did within `limit_s` seconds."""
        deadline = time.monotonic() + limit_s
        while True:
            self._update()
            if condition():
                return True
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                return False
            events = [self.connection, *filter(None, self.pipes)]
            events += [process.sentinel for process in self.processes if process.exitcode is None]
            if self.connection in multiprocessing.connection.wait(events, min(0.1, remaining_s)):
                raise NotebookGone
            _check_parent(self.parent_pid)

    def _update(self):
        for rank, process in enumerate(self.processes):
            dead = process.exitcode is not None  # looked at before the pipe, which may still hold its last word
            self._read_pipe(rank)
            if self.phases[rank] in ("starting", "running"):
                if dead:
                    self.phases[rank] = "died"
                elif _size(worker.output_path(self.call["folder"], rank)) > OUTPUT_LIMIT_BYTES:
                    self.phases[rank] = "flooded"

    def _read_pipe(self, rank):
        try:
            while self.pipes[rank] is not None and self.pipes[rank].poll():
                self.phases[rank] = self.pipes[rank].recv()
        except (EOFError, OSError):
            self.pipes[rank].close()
            self.pipes[rank] = None

    def failed(self):
        return any(phase in ("raised", "died", "flooded") for phase in self.phases)

    def settled(self):
        return not any(phase in ("starting", "running") for phase in self.phases)

    def dumped(self):
        running = [rank for rank, phase in enumerate(self.phases) if phase == "running"]
        return all(worker.has_told_where(self.call["folder"], rank) for rank in running)

    def end(self):
        """End every rank, whatever it is doing, and everything that it has started."""
        for process in self.processes:
            if os.name == "posix":
                with contextlib.suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)
            process.kill()
        for process in self.processes:
            process.join()
        if _LINUX and self.call["start_method"] == "fork":  # spawn keeps a helper of its own among the children
            _end_orphans()
        for pipe in filter(None, self.pipes):
            pipe.close()


def _size(path):
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


def _end_orphans(limit_s=5.0):
    """End descendants that left their rank's process group. Those of a killed one appear here in turn."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        try:
            ended, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if ended == 0:
            for child in _children():
                with contextlib.suppress(OSError):
                    os.kill(child, signal.SIGKILL)
            time.sleep(0.002)


def _children():
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text(errors="replace").rpartition(")")[2].split()[1]) == os.getpid():
                yield int(stat.parent.name)
