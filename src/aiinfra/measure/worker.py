"""What happens inside one rank: connect to the others, call the learner's function, report, and wait to be ended."""

import contextlib
import ctypes
import faulthandler
import linecache
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import threading
import time
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any

inside_a_rank = False
_PR_SET_PDEATHSIG = 1
_LOOPBACK = {"linux": "lo", "darwin": "lo0"}


def call_path(folder):
    return Path(folder, "call.pkl")


def output_path(folder, rank):
    return Path(folder, f"output{rank}.txt")


def stuck_path(folder, rank):
    return Path(folder, f"stuck{rank}.txt")


def has_told_where(folder, rank):
    """Whether the dump of a stuck rank is whole: it comes in many small writes, the main thread's outermost frame last.
    Frames beyond the hundredth are written as three dots."""
    path = stuck_path(folder, rank)
    return path.exists() and path.read_bytes().endswith((b" in <module>\n", b"  ...\n"))


def report_path(folder, rank):
    return Path(folder, f"report{rank}.pkl")


def run(rank, call, pipe):
    """Body of a rank's process. It never returns: a rank that is done stays until all are, and is then killed, so
    that no rank sees a connection break because another one was faster."""
    global inside_a_rank
    inside_a_rank = True
    _outlive_nobody()
    _redirect_output(output_path(call["folder"], rank))
    report: dict[str, Any] = {"value": None, "traffic": {}, "wall_s": None, "error": None, "error_type": None}
    try:
        _call(rank, call, pipe, report)
        phase = "returned"
    except BaseException as error:
        report |= {"error": _traceback(error), "error_type": type(error).__name__}
        phase = "raised"
    faulthandler.cancel_dump_traceback_later()
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    report_path(call["folder"], rank).write_bytes(pickle.dumps(report))
    pipe.send(phase)
    while True:
        time.sleep(3600)


def _outlive_nobody():
    """Give the rank a process group, so that its children can be ended with it, and tie it to the supervisor."""
    if os.name == "posix":
        os.setpgrp()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    threading.Thread(target=_leave_with, args=(multiprocessing.parent_process(),), daemon=True).start()


def _leave_with(supervisor):
    supervisor.join()
    os._exit(1)


def _redirect_output(path):
    """Send everything printed, by Python, by C++ and by child processes, to a file."""
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.close(log)
    sys.stdout, sys.stderr = (
        open(fd, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        for fd in (1, 2)
    )
    faulthandler.enable(sys.stderr, all_threads=False)  # a segmentation fault says where


def _call(rank, call, pipe, report):
    import cloudpickle

    from aiinfra.measure.counting import CountBytes

    sys.path[:] = call["path"]
    os.chdir(call["cwd"])
    _connect(rank, call)
    function, args, kwargs, sources = pickle.loads(call_path(call["folder"]).read_bytes())
    for name, lines in sources.items():  # cells have no file; without this, tracebacks lack their lines
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
    pipe.send("running")
    with open(stuck_path(call["folder"], rank), "wb") as stuck, CountBytes() as counter:
        faulthandler.dump_traceback_later(call["timeout_s"], file=stuck)
        started = time.perf_counter()
        try:
            value = function(*args, **kwargs)
        finally:
            report |= {"wall_s": time.perf_counter() - started, "traffic": counter.traffic}
            faulthandler.cancel_dump_traceback_later()
    try:
        report["value"] = cloudpickle.dumps(value)
    except Exception as error:
        raise TypeError(
            f"rank {rank} returned a {type(value).__name__} that cannot be sent back to the notebook ({error}); "
            "return numbers, strings, lists, dicts, arrays or tensors"
        ) from None


def _connect(rank, call):
    import torch
    import torch.distributed as dist

    n_ranks = call["n_ranks"]
    os.environ.clear()
    os.environ.update(call["environ"])
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), OMP_NUM_THREADS="1")
    os.environ.update(WORLD_SIZE=str(n_ranks), LOCAL_WORLD_SIZE=str(n_ranks))
    os.environ["TMPDIR"] = tempfile.tempdir = call["folder"]  # a rank is killed and cannot clean up itself
    if sys.platform in _LOOPBACK:
        os.environ["GLOO_SOCKET_IFNAME"] = _LOOPBACK[sys.platform]
    torch.set_num_threads(1)
    if "numpy.random" in sys.modules:  # forked ranks would all draw the same numbers
        sys.modules["numpy.random"].seed()
    dist.init_process_group(
        "gloo",
        init_method=Path(call["folder"], "store").as_uri(),
        rank=rank,
        world_size=n_ranks,
        timeout=timedelta(days=1),  # the supervisor's clock is the one that counts
    )
    dist.barrier()


def _traceback(error):
    """The traceback as Python prints it, without the frames of this folder."""
    report = traceback.TracebackException.from_exception(error)
    learners = [frame for frame in report.stack if Path(frame.filename).parent != Path(__file__).parent]
    report.stack = traceback.StackSummary.from_list(learners)
    return "".join(report.format() if learners else report.format_exception_only())
