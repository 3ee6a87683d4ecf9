"""One notebook's processes: started in the sandbox, watched from outside, gone at the end.

The notebook comes in on standard input, events leave on standard output. There are two kinds of limits. Those on one
process (address space, file size, open files, processor time, threads) are set inside (`driver.limit`) and make the
learner's own code fail with an ordinary exception. Those on all processes together (memory, their number, processor
time, the clock, the amount of output) are watched from here, and going over one ends the notebook. Memory that no
process has mapped, such as an unread memory file, is only limited by the number and the size of files; who grades
strangers puts the grader itself under a hard limit, `systemd-run --user --scope -p MemoryMax=8G`.
"""

import contextlib
import dataclasses
import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from aiinfra.grading.execution import fence

_TICK_S = 0.1
_GONE_S = 60  # a killed process is gone at once, or on a busy machine a little later
_PATIENCE_S = 4  # with a driver that should have stopped a cell by now, but may have been stopped by it


@dataclasses.dataclass(frozen=True)
class Limits:
    """What one notebook may use.

    `cell_s` and `notebook_s` are processor time of all its processes: what a grade depends on does not depend on how
    busy the machine is. The limits of the clock are for who waits without computing, and generous.
    """

    cell_s: int = 20
    cell_clock_s: int = 60
    notebook_s: int = 120
    notebook_clock_s: int = 300
    memory_bytes: int = 3 << 30
    n_processes: int = 32
    n_threads: int = 128  # of all processes; a kernel has about fifteen
    n_files: int = 256
    file_bytes: int = 64 << 20
    disk_bytes: int = 256 << 20
    output_chars: int = 2_000_000  # of one cell; what comes after is forgotten
    shown_chars: int = 2_000  # of one cell, on the feedback page
    events_bytes: int = 32 << 20


@dataclasses.dataclass(frozen=True)
class Finished:
    """How a run ended: the `lines` it told, and what it was `killed` for, if it was.

    That is "time" (of the notebook), "cell time", "cell clock", "memory", "processes", "output" or "stopped".
    """

    lines: list[bytes]
    killed: str | None
    complaint: str  # the end of its standard error, for the grader's own trouble


def run(order, limits, isolated, stop, warm=None):
    """Run `inside/driver.py` on `order`, a dict with the sources of `cells`, and return how it `Finished`.

    isolated : bool           in bubblewrap; otherwise as a plain process that can do what the grader's user can
    stop : threading.Event    ends the run when set
    warm : warm.Warm          has done the imports; without it, and where it has died, the sandbox starts from nothing
    """
    limits_inside = {**dataclasses.asdict(limits), "own_namespace": isolated}
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stderr:
        stdin.write(json.dumps({**order, "limits": limits_inside}).encode())
        stdin.seek(0)
        started = warm.start(limits_inside, fence.inner_line(limits), stdin, stderr) if warm and isolated else None
        stdin.seek(0)
        with contextlib.nullcontext(started) if started else _cold(limits, isolated, stdin, stderr) as (process, told):
            try:
                content, killed = _watch(process, told, limits, stop)
            finally:
                _end(process)
                told.close()
        stderr.seek(max(0, stderr.seek(0, os.SEEK_END) - 2_000))
        return Finished(content.splitlines(), killed, stderr.read().decode(errors="replace"))


@contextlib.contextmanager
def _cold(limits, isolated, stdin, stderr):
    """(process, what it tells) of a driver that starts from nothing."""
    with _inside(limits) if isolated else _plain() as (line, how):
        process = psutil.Popen(line, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, start_new_session=True, **how)
        yield process, process.stdout


@contextlib.contextmanager
def _inside(limits):
    """(command line, how to Popen it), fenced in by bubblewrap."""
    yield [*fence.command_line(limits), sys.executable, "-I", "/grader/driver.py"], {"cwd": "/"}


@contextlib.contextmanager
def _plain():
    """The same as a plain process, in a temporary folder, with the masked package first on its path."""
    with tempfile.TemporaryDirectory(prefix="aiinfra-grading-", ignore_cleanup_errors=True) as folder:
        stub = Path(folder, "stub")
        stub.mkdir()
        shutil.copy(fence.INSIDE / "masked.py", stub / "aiinfra.py")
        environment = {**os.environ, **fence.environment(folder, str(stub))}
        yield [sys.executable, "-I", str(fence.INSIDE / "driver.py")], {"env": environment, "cwd": folder}


def _watch(process, told, limits, stop):
    """What `process` told until it ended or went over a limit, and which."""
    content, deadline = bytearray(), time.monotonic() + limits.notebook_clock_s
    looked, heard, news = time.monotonic(), 0.0, False
    used_before = 0.0  # processor time when the cell began
    with selectors.DefaultSelector() as selector:
        selector.register(told, selectors.EVENT_READ)
        while True:
            if selector.select(_TICK_S):
                chunk = os.read(told.fileno(), 1 << 16)
                if not chunk:
                    return bytes(content), None
                content += chunk
                heard, news = time.monotonic(), True
            now = time.monotonic()
            if len(content) > limits.events_bytes:
                return bytes(content), "output"
            if now > deadline:
                return bytes(content), "time"
            if content and now - heard > limits.cell_clock_s + _PATIENCE_S:
                return bytes(content), "cell clock"
            if stop.is_set():
                return bytes(content), "stopped"
            if now - looked >= _TICK_S:
                looked, family = now, _family(process)
                used = sum(map(_used_s, family))
                used_before, news = (used if news else used_before), False
                if content and used - used_before > limits.cell_s:
                    return bytes(content), "cell time"
                over = "time" if used > limits.notebook_s else _over(family, limits)
                if over:
                    return bytes(content), over


def _over(family, limits):
    """Which limit on all processes of the `family` together is passed, or None."""
    if len(family) > limits.n_processes:
        return "processes"
    if sum(_memory(process, exact=False) for process in family) <= limits.memory_bytes:
        return None
    if sum(_memory(process, exact=True) for process in family) > limits.memory_bytes:
        return "memory"
    return None


def _family(process):
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def _used_s(process):
    """Processor seconds of a process and of those of its children that it has seen end."""
    try:
        return sum(process.cpu_times()[:4])
    except psutil.Error:
        return 0.0


def _memory(process, exact):
    """Resident bytes of a process, in which shared pages count for each; `exact` counts them once, and is slow."""
    try:
        if exact and psutil.LINUX:
            return process.memory_full_info().pss
        return process.memory_info().rss
    except psutil.AccessDenied:
        return process.memory_info().rss if exact else 0
    except psutil.Error:
        return 0


def _end(process):
    """End `process` and everything it started, and wait until they are gone."""
    family = [*_family(process), process]
    for member in family:
        with contextlib.suppress(psutil.Error):
            member.kill()
    psutil.wait_procs(family, timeout=_GONE_S)
