"""Runs notebooks from a process that has done its imports: each in a copy of it, in a sandbox of its own.

A script, run by itself inside a sandbox without network and files, before any notebook is read. A request on its
standard input holds the command line of the sandbox to be made, the limits and three files. For each it makes copies of
itself:

    this process ── root ── bubblewrap, which makes the notebook's own sandbox inside this one
                     └── driver, moved into that sandbox ── kernel, which runs the cells

Nothing of one notebook ever comes into this process, so nothing can pass to the next. The sandbox is bubblewrap's, as
without this module; the driver and the kernel enter its namespaces and give up every right before they start.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys

import driver

del sys.path[0]  # the script's folder, from which nothing that a notebook imports may come

_LIBC = ctypes.CDLL(None, use_errno=True)
_CREDENTIALS = struct.Struct("3i")  # process, user, group
_NEW_NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_CAPABILITY_VERSION_3 = 0x20080522
_MAX_REQUEST = 1 << 16
# What a kernel imports at its start or for its first cell.
_KERNEL = [
    "IPython.core.completerlib", "IPython.core.debugger", "IPython.core.logger", "IPython.core.oinspect",
    "IPython.extensions.storemagic", "faulthandler", "ipykernel.debugger", "ipykernel.ipkernel", "ipykernel.kernelapp",
    "psutil", "sqlite3", "tornado.platform.asyncio", "tornado.queues",
]  # fmt: skip


def main(modules):
    """Do the imports, say so, and serve requests until the other end closes."""
    control = socket.socket(fileno=os.dup(0))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):
        os.dup2(nowhere, fd)
    prepare(modules)
    control.send(b"ready")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system clears up after a notebook's root
    while True:
        request, fds, _, _ = socket.recv_fds(control, _MAX_REQUEST, 3)
        if not request:
            return
        if os.fork() == 0:
            with contextlib.suppress(BaseException):
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                control.close()
                root(*json.loads(request), *fds)
            os._exit(1)
        for fd in fds:
            os.close(fd)


def prepare(modules):
    """Import what drives notebooks, what runs them, and `modules`, which the lab wants; then check that it can fork."""
    driver.imports()
    for name in (*_KERNEL, *modules):
        with contextlib.suppress(Exception):  # who needs it will say what is wrong
            importlib.import_module(name)
    if len(os.listdir("/proc/self/task")) > 1:
        raise RuntimeError("an import started a thread, so this process can't be copied")
    gc.collect()
    gc.freeze()  # what is there now is never collected, so its memory stays shared


def root(line, limits, stdin, stdout, stderr):
    """Have bubblewrap make a sandbox by `line`, start the driver in it, and end it all when the driver ends."""
    call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    os.dup2(stderr, 2)
    os.write(stdout, b"\n")  # tells the grader which process this is
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    # Its program says that the sandbox is ready, and holds it open until this process ends.
    holder = subprocess.Popen(
        [*line, "sh", "-c", "echo; read end"], stdin=theirs.fileno(), stdout=theirs.fileno(), cwd="/"
    )
    theirs.close()
    message, ancillary, _, _ = ours.recvmsg(1, socket.CMSG_SPACE(_CREDENTIALS.size))
    if not message:
        os._exit(holder.wait() or 1)
    enter(_CREDENTIALS.unpack(ancillary[0][2])[0])
    pid = os.fork()
    if pid == 0:
        ours.close()
        drive(limits, stdin, stdout)
    os.close(stdout)
    os.waitpid(pid, 0)
    os._exit(0)


def enter(pid):
    """Move into all namespaces of process `pid` and give up every right that comes with that."""
    call("setns", os.pidfd_open(pid), _NEW_NAMESPACES)
    for capability in range(64):
        if _LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break  # beyond the last
    call("prctl", PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    call("capset", struct.pack("Ii", _CAPABILITY_VERSION_3, 0), bytes(24))
    call("prctl", PR_SET_NO_NEW_PRIVS, 1)
    call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of rights forgets it
    os.chdir(os.environ["HOME"])


def drive(limits, stdin, stdout):
    """Run the notebook whose order is in `stdin`; its kernel is made before anything of the order is read."""
    os.setsid()
    if rights() != 0:
        raise PermissionError("rights are left inside the sandbox")
    os.dup2(stdin, 0)
    os.dup2(stdout, 1)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    driver.limit(limits)
    kernel = Kernel()
    driver.main(kernel.launched_by())


def rights():
    """The capabilities of this process, of all kinds, as the system says."""
    with open("/proc/self/status") as file:
        status = dict(line.split(":", 1) for line in file)
    return sum(int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"))


class Kernel:
    """A kernel that waits, as a child of this process, for its command line. Looks to jupyter_client like a Popen."""

    stdin = stdout = stderr = None

    def __init__(self):
        theirs, self._start = os.pipe()
        self.returncode = None
        self.pid = os.fork()
        if self.pid == 0:
            with contextlib.suppress(BaseException):
                os.close(self._start)
                be_kernel(theirs)
            os._exit(1)
        os.close(theirs)

    def launched_by(self):
        """A class by which jupyter_client launches this kernel instead of a new process."""
        from jupyter_client.provisioning import local_provisioner

        class Provisioner(local_provisioner.LocalProvisioner):
            async def launch_kernel(provisioner, cmd, **how):
                os.write(self._start, json.dumps([cmd, how["env"]]).encode())
                os.close(self._start)
                provisioner.process = self  # type: ignore[assignment]
                provisioner.pid = provisioner.pgid = self.pid
                return provisioner.connection_info

        return Provisioner

    def poll(self):
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self):
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)


def be_kernel(start):
    """Wait for a command line and an environment, then be the kernel that it asks for."""
    os.setsid()
    for fd in (0, 1):  # the order and the channel are the driver's alone
        os.dup2(os.open(os.devnull, os.O_RDWR), fd)
    os.dup2(1, 2)
    with os.fdopen(start, "rb") as pipe:
        command, environment = json.loads(pipe.read())
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    call("prctl", PR_SET_DUMPABLE, 1)  # as after an exec; a learner may look at their own process
    os.environ.clear()
    os.environ.update(environment)
    for name in ("driver", "rfc3987_syntax"):
        sys.modules.pop(name, None)
    import ipykernel_launcher
    from ipykernel import kernelapp

    sys.argv = [ipykernel_launcher.__file__, *command[3:]]

    kernelapp.launch_new_instance()


def call(name, *arguments):
    """Call a function of the C library; OSError where it fails."""
    padding = [0] * (5 - len(arguments)) if name == "prctl" else []
    if getattr(_LIBC, name)(*arguments, *padding) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


if __name__ == "__main__":
    main(sys.argv[1:])
