"""A sandbox with the imports done, of which each notebook gets a copy (`inside/warm`).

Most of the time of a small notebook goes into starting two interpreters and importing papermill and a kernel. Here that
is done once for all notebooks. What is shared between them is memory from before any was read, and that for reading.
"""

import ast
import contextlib
import json
import os
import re
import selectors
import socket
import struct
import subprocess
import sys
import tempfile
import threading

import psutil

from aiinfra.grading.execution import fence
from aiinfra.grading.execution.package_use import PACKAGE, parse

_START_S = 300  # to do all the imports, on a busy machine
_FORK_S = 60
_CREDENTIALS = struct.Struct("3i")  # process, user, group


def worth_importing(cells):
    """The modules that answers to a lab are likely to import: numpy, and what its answer cells mention.

    Not all that it imports: each copy of a process with torch in it costs as much as ten cells.
    """
    mentioned = {word for cell in cells if "answer" in cell["tags"] for word in re.findall(r"\w+", cell["source"])}
    modules = {"numpy"}
    for node in (node for cell in cells for node in ast.walk(parse(cell["source"]) or ast.Module([], []))):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names if (alias.asname or alias.name.split(".")[0]) in mentioned}
    return sorted(name for name in modules if name.split(".")[0] != PACKAGE)


class Warm:
    """The process that is copied. Used by many threads at once; to be closed.

    limits : Limits            of its own scratch space
    modules : iterable of str  to import besides what every notebook needs
    """

    def __init__(self, limits, modules=()):
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
        line = [*fence.command_line(limits, holds_others=True), sys.executable, "/grader/warm.py", *modules]
        self._alive, self._asked = None, threading.Lock()
        started = threading.Event()
        self._keeper = threading.Thread(target=self._keep, args=(line, theirs, started), daemon=True)
        self._keeper.start()
        started.wait()

    def _keep(self, line, theirs, started):
        """Start the process and wait for its end: it dies with the thread that started it, so that one must live."""
        with theirs:
            process = subprocess.Popen(
                line, stdin=theirs, stdout=subprocess.DEVNULL, stderr=self._stderr, cwd="/", start_new_session=True
            )
        self._process = process
        started.set()
        process.wait()

    def works(self):
        """Whether it came up; waits for it."""
        with self._asked:
            if self._alive is None:
                self._alive = _heard(self._control, _START_S)[0] == b"ready"
            return self._alive

    def start(self, limits, line, stdin, stderr):
        """(process, what it tells) of a new copy with the order `stdin`, or None where there can be none.

        limits : dict   for the driver
        line : list     the command line of the notebook's own sandbox
        """
        if not self.works():
            return None
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        files = [stdin.fileno(), theirs.fileno(), stderr.fileno()]
        message, pid = b"", None
        with contextlib.suppress(OSError):
            with theirs:
                socket.send_fds(self._control, [json.dumps([line, limits]).encode()], files)
            message, pid = _heard(ours, _FORK_S)
        try:
            if message:
                return psutil.Process(pid), ours
        except psutil.NoSuchProcess:
            pass
        ours.close()
        return None

    def complaint(self):
        """The end of what it had to say when it failed."""
        self._stderr.seek(max(0, self._stderr.seek(0, os.SEEK_END) - 500))
        return self._stderr.read().decode(errors="replace").strip()

    def close(self):
        """End it and every notebook that it runs."""
        self._control.close()
        self._process.kill()  # with it goes its process namespace, and whatever is in there
        self._keeper.join()
        self._stderr.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


def _heard(channel, seconds):
    """(the next message on the socket `channel`, the process that sent it where that is asked for); b"" for none."""
    with selectors.DefaultSelector() as selector:
        selector.register(channel, selectors.EVENT_READ)
        if not selector.select(seconds):
            return b"", None
    message, ancillary, _, _ = channel.recvmsg(16, socket.CMSG_SPACE(_CREDENTIALS.size))
    return message, _CREDENTIALS.unpack(ancillary[0][2])[0] if ancillary else None
