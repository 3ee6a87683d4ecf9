"""The Python code that pages run: one archive of the standard library and widgets, one of the course's package.

The first is compiled ahead of time, which makes the first touch of a figure about two seconds faster than sources
do. It depends on nothing in this repository, so it is kept in the user's cache and browsers load it once.
"""

import hashlib
import importlib.metadata
import io
import subprocess
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

import npm

LIBRARIES = ("comm", "ipywidgets", "traitlets")
COMPILER = Path(__file__).with_name("compile_python.mjs")

# Parts of the standard library for processes, terminals, servers, mail, debuggers and tests: a page has none of them.
_NOT_IN_A_PAGE = {
    "_pyio", "_pyrepl", "bdb", "cProfile", "code", "cmd", "ctypes", "doctest", "ensurepip", "ftplib", "idlelib",
    "imaplib", "lib2to3", "mailbox", "modulefinder", "multiprocessing", "nntplib", "optparse", "pdb", "pickletools",
    "plistlib", "poplib", "profile", "pstats", "pydoc", "pydoc_data", "smtplib", "socketserver", "sqlite3", "tkinter",
    "trace", "turtle", "turtledemo", "unittest", "venv", "wave", "wsgiref", "xml", "xmlrpc", "zipapp",
}  # fmt: skip
_ENCODINGS = {"__init__", "aliases", "ascii", "cp437", "idna", "latin_1", "punycode", "raw_unicode_escape",
              "unicode_escape", "utf_16", "utf_8", "utf_8_sig"}  # fmt: skip

# Parts of `aiinfra` that no figure needs: they import torch, run notebooks or hold the answers of tasks.
_NOT_IN_A_FIGURE = {"authoring", "checks", "cli.py", "data/published", "grading", "measure", "predictions.py"}


def course():
    """The archive of `aiinfra` as far as figures use it."""
    import aiinfra

    root = Path(aiinfra.__file__).parent
    files = {}
    for path in root.rglob("*"):
        inside = path.relative_to(root)
        parts = {inside.as_posix(), *(parent.as_posix() for parent in inside.parents)}
        if path.suffix in {".py", ".csv", ".toml"} and not parts & _NOT_IN_A_FIGURE:
            files[f"aiinfra/{inside.as_posix()}"] = path.read_bytes()
    return _zip(files)


def standard_library(pyodide):
    """The archive of the standard library and of the widgets' packages; `pyodide` is {name: bytes} of Pyodide's files.

    It holds sources where there is no Node.js that can run Pyodide. They work as well, and start more slowly.
    """
    sources = {**_stdlib(pyodide["python_stdlib.zip"]), **dict(_libraries())}
    made_of = hashlib.sha256(COMPILER.read_bytes())
    for name, body in sorted(sources.items()):
        made_of.update(name.encode() + body)
    kept = npm.cache_dir() / f"python-{made_of.hexdigest()[:16]}.zip"
    if not kept.exists():
        plain = _zip(sources)
        compiled = _compiled(pyodide, plain)
        if compiled is None:
            return plain
        npm.keep(kept, compiled)
    return kept.read_bytes()


def _stdlib(archive):
    with zipfile.ZipFile(io.BytesIO(archive)) as stdlib:
        return {name: stdlib.read(name) for name in stdlib.namelist() if _is_wanted(PurePosixPath(name))}


def _is_wanted(path):
    if path.parts[0] == "encodings":
        return path.stem in _ENCODINGS
    return path.parts[0].removesuffix(".py") not in _NOT_IN_A_PAGE


def _libraries():
    for library in LIBRARIES:
        for path in importlib.metadata.files(library):
            if path.suffix == ".py" and path.parts[0] == library and "tests" not in path.parts:
                yield path.as_posix(), path.read_binary()


def _compiled(pyodide, sources):
    """The compiled archive, or None where Node.js cannot make it."""
    with tempfile.TemporaryDirectory() as folder:
        for name, body in {**pyodide, "sources.zip": sources}.items():
            (Path(folder) / name).write_bytes(body)
        made = Path(folder) / "compiled.zip"
        command = [*npm.node(), COMPILER, folder, Path(folder) / "sources.zip", made, *LIBRARIES]
        done = subprocess.run([str(part) for part in command], capture_output=True)
        return made.read_bytes() if done.returncode == 0 and made.exists() else None


def _zip(files):
    """An archive of {name: bytes}: the same bytes for the same files, whenever and wherever it is made."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, body in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name), body, zipfile.ZIP_DEFLATED, 9)
    return buffer.getvalue()
