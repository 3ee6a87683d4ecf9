"""Parameters of a lab, another value for each student, the same whenever they are asked for.

A lab may have a cell tagged "parameters" with lines such as `scenario = 0`. Every whole number there can be given
another value for each student: HMAC-SHA256 of the class's secret over lab, student and name, brought into 1 to 9999.
Who knows the secret can compute it again in a year; who does not can't tell a friend's number from their own.
papermill puts the values into the notebook, in a cell below the lab's own.
"""

import ast
import copy
import hashlib
import hmac
import os
import secrets
from pathlib import Path

import nbformat

from aiinfra.grading.execution.package_use import parse
from aiinfra.grading.intake.notebooks import code_cells

HIGHEST = 9_999
_MIN_SECRET_CHARS = 16


def names(cells):
    """The names of whole numbers that the code cells tagged "parameters" set."""
    found = []
    for cell in cells:
        tree = parse(cell["source"]) if "parameters" in cell["tags"] else None
        for node in tree.body if tree else ():
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and type(node.value.value) is int:
                found += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return found


def derive(secret, stem, student, wanted):
    """The values of the parameters `wanted` for a student, by name.

    secret : bytes
    student : str     what identifies the student at release and at grading alike
    """
    values = {}
    for name in wanted:
        message = "\0".join((stem, student, name)).encode(errors="surrogatepass")
        digest = hmac.digest(secret, message, hashlib.sha256)
        values[name] = 1 + int.from_bytes(digest[:8]) % HIGHEST
    return values


def inject(notebook, values):
    """A copy of the notebook with `values` set below its cell tagged "parameters", by papermill."""
    from papermill.parameterize import parameterize_notebook

    prepared = copy.deepcopy(notebook)
    prepared.metadata["papermill"] = {}  # papermill expects what its own loader would put there
    for cell in prepared.cells:
        cell.metadata.setdefault("tags", [])
    injected = parameterize_notebook(prepared, values, comment="These values are yours alone.")
    del injected.metadata["papermill"]
    for cell in injected.cells:
        if "injected-parameters" in cell.metadata.tags:
            cell.id = "injected-parameters"  # papermill draws one at random
        if not cell.metadata.tags:
            del cell.metadata["tags"]
    return injected


def inject_into_cells(cells, values):
    """The same for code cells as `notebooks.read` has them."""
    if not values:
        return cells
    kernel = {"name": "python3", "language": "python", "display_name": "Python 3"}
    plain = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell["source"], metadata=cell["metadata"]) for cell in cells],
        metadata={"kernelspec": kernel},
    )
    return code_cells(inject(plain, values))


def read_secret(path, create=False):
    """The class's secret in a file; with `create`, a file that is not there is made with one that nobody can guess.

    Raises ValueError where there is none, or one that could be guessed.
    """
    path = Path(path)
    try:
        if create and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
                file.write(secrets.token_hex(32) + "\n")
        secret = path.read_bytes().strip()
    except OSError as error:
        raise ValueError(f"the secret {path} can't be read: {error.strerror}") from None
    if len(secret) < _MIN_SECRET_CHARS:
        raise ValueError(f"the secret {path} must have at least {_MIN_SECRET_CHARS} characters, has {len(secret)}")
    return secret
