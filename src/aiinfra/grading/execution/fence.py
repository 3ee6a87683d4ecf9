"""What a notebook can see and reach: the command line of bubblewrap.

Inside there is a read-only system, the Python environment without this package, and three scratch folders in memory.
There is no network, no home directory, no lab, no other submission and no results folder; process, mount, network, IPC,
host name and user namespaces are its own. Nothing inside is shared with the disk, so nothing survives.

A grader that runs as root, as it does in containers, gives up that identity on the way in: the system does not hold
root to the limit on processes, and a learner's process should be nobody on the outside too. Where nobody may not walk
to the Python of root, a first bubblewrap makes the way to it, and to nothing else in those folders, passable.
"""

import os
import stat
import sys
from importlib.util import find_spec
from pathlib import Path

INSIDE = Path(__file__).parent / "inside"
_NOBODY = 65534
_HOME = "/submission"
_STUB = "/grader/stub"


def command_line(limits, holds_others=False):
    """bubblewrap and its options, up to the program to run inside.

    holds_others : bool   it may make sandboxes for others inside (`inner_line`); no notebook runs in such a one
    """
    line = _step_down() if os.geteuid() == 0 else []
    fences = [*_namespaces(holds_others), *_system(), *_scratch(limits.disk_bytes), *_python(), *_environment()]
    return [*line, "bwrap", *fences, "--"]


def inner_line(limits):
    """The same for a sandbox inside one that `holds_others`, of which it sees the read-only part alone."""
    hidden = [folder for folder in _python_folders() if Path(folder).is_relative_to("/tmp")]  # by the new /tmp
    inside = ["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", *_scratch(limits.disk_bytes)]
    return ["bwrap", *_namespaces(), *inside, *_shown(hidden), "--"]


def _step_down():
    """What root runs first, to become nobody."""
    drop = ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
    needed = [Path(folder) for folder in (*_python_folders(), INSIDE)]
    closed = {parent for folder in needed for parent in folder.parents if not parent.stat().st_mode & stat.S_IXOTH}
    if not closed:
        return drop
    way = sorted({parent for folder in needed for parent in folder.parents if closed & {parent, *parent.parents}})
    options = []
    for folder in way:
        options += ["--perms", "0755", "--tmpfs" if closed.isdisjoint(folder.parents) else "--dir", str(folder)]
    for folder in needed:
        options += ["--ro-bind", str(folder), str(folder)]
    # Its own process namespace: should the grader be killed, root's part of this may no longer kill nobody's.
    return ["bwrap", "--dev-bind", "/", "/", *options, "--unshare-pid", "--die-with-parent", "--", *drop]


def _namespaces(holds_others=False):
    options = ["--unshare-all", "--unshare-user", "--die-with-parent", "--new-session"]
    options += [] if holds_others else ["--disable-userns"]
    return [*options, "--uid", str(_NOBODY), "--gid", str(_NOBODY), "--hostname", "grader"]


def _system():
    options = ["--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        if os.path.islink(f"/{name}"):
            options += ["--symlink", os.readlink(f"/{name}"), f"/{name}"]
        else:
            options += ["--ro-bind-try", f"/{name}", f"/{name}"]
    for name in ("ld.so.cache", "alternatives", "localtime"):
        options += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return options


def _scratch(n_bytes):
    tmpfs = ["--perms", "1777", "--size", str(n_bytes), "--tmpfs"]
    return [*tmpfs, "/dev/shm", *tmpfs, "/tmp", *tmpfs, _HOME, "--remount-ro", "/dev", "--chdir", _HOME]


def _python():
    options = _shown(_python_folders())
    for folder in _package_folders():
        options += ["--tmpfs", folder, "--remount-ro", folder]
    for name in ("driver.py", "warm.py"):
        options += ["--ro-bind", str(INSIDE / name), f"/grader/{name}"]
    return [*options, "--ro-bind", str(INSIDE / "masked.py"), f"{_STUB}/aiinfra.py", "--remount-ro", "/"]


def _shown(folders):
    return [option for folder in folders for option in ("--ro-bind", folder, folder)]


def _environment():
    options = ["--clearenv"]
    for name, value in environment(_HOME, _STUB).items():
        options += ["--setenv", name, value]
    return options


def environment(home, stub):
    """The environment variables of a notebook, with the masked package in the folder `stub`."""
    return {
        "HOME": home,
        "USER": "learner",
        "LOGNAME": "learner",
        "IPYTHONDIR": f"{home}/.ipython",
        "LANG": "C.UTF-8",
        "MPLCONFIGDIR": f"{home}/.matplotlib",
        "OMP_NUM_THREADS": "1",
        "PATH": f"{sys.prefix}/bin:/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",  # the same notebook behaves the same
        "PYTHONPATH": stub,
    }


def _python_folders():
    """Folders of the Python environment that are not part of the system."""
    folders = {sys.prefix, sys.base_prefix, os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix)}
    return sorted(folder for folder in folders if not Path(folder).is_relative_to("/usr"))


def _package_folders():
    """Where the package is installed inside what the sandbox shows; an editable one is not shown at all."""
    spec = find_spec("aiinfra")
    shown = ["/usr", *_python_folders()]
    folders = spec.submodule_search_locations if spec and spec.submodule_search_locations else []
    return [folder for folder in folders if any(Path(folder).is_relative_to(parent) for parent in shown)]
