"""Whether this machine has a sandbox, and what to do where it has none."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from aiinfra.grading.execution import fence
from aiinfra.grading.execution.sandbox import Limits

_INSTALL = {
    "apt-get": "sudo apt-get install bubblewrap",
    "dnf": "sudo dnf install bubblewrap",
    "pacman": "sudo pacman -S bubblewrap",
    "zypper": "sudo zypper install bubblewrap",
    "apk": "sudo apk add bubblewrap",
}
_APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")


def why_not():
    """None where bubblewrap works here, else why it does not and what to do about it."""
    if sys.platform != "linux":
        return "the sandbox, bubblewrap, needs Linux: a virtual machine, a server, or on Windows WSL 2."
    if shutil.which("bwrap") is None:
        manager = next((manager for manager in _INSTALL if shutil.which(manager)), "apt-get")
        return f"the sandbox, bubblewrap, is not installed. Install it with:  {_INSTALL[manager]}"
    # The real options with a program that does nothing: what works here works with a notebook.
    line = [*fence.command_line(Limits()), sys.executable, "-I", "-c", ""]
    attempt = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False, cwd="/")
    return None if attempt.returncode == 0 else explain(attempt.stderr.strip(), _apparmor_restricts())


def explain(complaint, apparmor_restricts):
    """A sentence about the `complaint` with which bubblewrap ended."""
    if "nknown option" in complaint:
        return f"bubblewrap is too old here; 0.8 or newer is needed ({complaint})."
    if "execvp" in complaint:
        return f"an unprivileged process can't run the Python of this environment, {sys.executable} ({complaint})."
    if not any(word in complaint for word in ("namespace", "uid map", "ermission denied", "not permitted")):
        return f"bubblewrap is installed, but does not work here: {complaint}"
    if apparmor_restricts:
        remedy = (
            "AppArmor keeps ordinary users from making namespaces, as Ubuntu 24.04 does. Allow bubblewrap to:\n"
            "  sudo apt-get install apparmor-profiles\n"
            "  sudo ln -s /usr/share/apparmor/extra-profiles/bwrap-userns-restrict /etc/apparmor.d/\n"
            "  sudo systemctl reload apparmor"
        )
    elif os.path.exists("/.dockerenv"):
        remedy = "In a container: start it with  --security-opt seccomp=unconfined --security-opt apparmor=unconfined"
    else:
        remedy = "Ask the administrator to allow user namespaces:  sudo sysctl user.max_user_namespaces=10000"
    return f"bubblewrap is installed, but this system does not let it make namespaces ({complaint}).\n{remedy}"


def _apparmor_restricts():
    try:
        return _APPARMOR.read_text().strip() == "1"
    except OSError:
        return False
