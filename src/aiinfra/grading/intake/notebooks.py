"""Reading a notebook that may be anything: each way in which it can't be read becomes one sentence for its author.

nbformat is not used here on purpose. It refuses whole notebooks for a stray key, and a learner's stray key is no
reason not to grade the cells that are there.
"""

import json
import os
import stat

MAX_BYTES = 20_000_000
MAX_CELL_CHARS = 50_000
MAX_CODE_CHARS = 1_000_000  # of all cells


class Unreadable(Exception):
    """Why a file can't be graded, as a sentence for the learner."""


def read(path):
    """The code cells of the notebook at `path`, each {"source": str, "metadata": dict, "tags": list}.

    Raises Unreadable. Symbolic links are not followed, and nothing but a regular file is opened for longer than it
    takes to see that it is none.
    """
    return read_all(path)[0]


def read_all(path):
    """(code cells, Markdown cells) of the notebook at `path`, each as `read` has them. Raises Unreadable."""
    notebook = _parse(content(path))
    return code_cells(notebook), _cells(notebook, "markdown")


def content(path):
    """The bytes of the file at `path`. Raises Unreadable."""
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        if os.path.islink(path):
            raise Unreadable("The submission is a symbolic link, which is not followed. Hand in the file.") from None
        raise Unreadable(f"The file can't be opened: {error.strerror}.") from None
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode):
        os.close(fd)
        raise Unreadable("The submission is not a file.")
    with os.fdopen(fd, "rb") as file:
        if info.st_size > MAX_BYTES:
            size, most = info.st_size / 1e6, MAX_BYTES / 1e6
            raise Unreadable(f"The file has {size:.0f} MB; at most {most:.0f} MB are read. Clear all outputs and save.")
        return file.read(MAX_BYTES)


def _parse(raw):
    try:
        notebook = json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise Unreadable("The file is not UTF-8 text, as a notebook is. Hand in the file that Jupyter saved.") from None
    except (ValueError, RecursionError):
        raise Unreadable("The file is not a notebook: it is not valid JSON. Was it cut off on its way?") from None
    if not isinstance(notebook, dict) or "nbformat" not in notebook:
        raise Unreadable("The file is not a notebook: it has no nbformat.")
    if notebook["nbformat"] != 4:
        raise Unreadable(
            f"The notebook has format {str(notebook['nbformat'])[:20]}; format 4 is needed. "
            "Open it in JupyterLab, save it and hand it in again."
        )
    if not isinstance(notebook.get("cells"), list):
        raise Unreadable("The notebook has no list of cells.")
    return notebook


def code_cells(notebook):
    """The well-formed code cells of a parsed notebook; whatever is no cell is passed over."""
    cells = _cells(notebook, "code")
    if sum(len(cell["source"]) for cell in cells) > MAX_CODE_CHARS:
        raise Unreadable(f"The notebook has more than {MAX_CODE_CHARS:,} characters of code.")
    return cells


def _cells(notebook, kind):
    cells = []
    for cell in notebook["cells"]:
        if not isinstance(cell, dict) or cell.get("cell_type") != kind:
            continue
        source = cell.get("source", "")
        if isinstance(source, list):
            source = "".join(part for part in source if isinstance(part, str))
        metadata = cell.get("metadata")
        if isinstance(source, str):
            metadata = metadata if isinstance(metadata, dict) else {}
            tags = metadata.get("tags")
            tags = [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
            cells.append({"source": source, "metadata": metadata, "tags": tags})
    return cells
