"""The last cells of a graded notebook: they call the learner's functions on hidden inputs and report plain values.

A harness cell carries the source of what it needs, so that nothing in the learner's process has to be trusted to be
what it was. It may still be tampered with, for it runs in that process; all it could then do is report other values.
A report counts only with the number that was drawn for this run and task, only once, and only if it is well formed.
"""

import ast
import inspect
import json

from aiinfra.checks.tasks import MAX_ITEMS, outcome, plain
from aiinfra.grading.execution.inside.driver import OUTCOMES

MAX_CHARS = 1_000_000
_MAX_DEPTH = 20
_REPORTER = f"""
import copy, json
MAX_ITEMS = {MAX_ITEMS}

{inspect.getsource(outcome)}

{inspect.getsource(plain)}

def report(function, cases, nonce):
    said = {{"nonce": nonce}}
    if function is None or function is Ellipsis or type(function).__name__ == "NotWhileGrading":
        said["absent"] = "nothing"
    elif not callable(function):
        said["absent"] = type(function).__name__[:80]
    else:
        said["outcomes"] = [outcome(function, case) for case in cases]
    text = json.dumps(said)
    if len(text) > {MAX_CHARS}:
        text = json.dumps({{"nonce": nonce, "outcomes": [{{"error": "the answers are too long"}}] * len(cases)}})
    get_ipython().display_pub.publish({{{OUTCOMES!r}: text}}, {{}})
"""


class Malformed(Exception):
    """What is wrong with a report."""


def cell(name, cases, nonce):
    """The source of a cell that reports what the function `name` returns for each of `cases`."""
    literal = repr(cases)
    try:
        faithful = ast.literal_eval(literal) == cases
    except (ValueError, SyntaxError):
        faithful = False
    if not faithful:
        raise ValueError(f"the inputs of task {name!r} must be plain Python literals, got {literal[:200]}")
    scope = f"{{'__name__': 'harness', 'get_ipython': get_ipython, 'answer': globals().get({name!r})}}"
    code = f"{_REPORTER}\nreport(answer, {literal}, {nonce!r})"
    return f"exec({code!r}, {scope})"


def outcomes(reports, nonce, n_cases):
    """The outcomes in the one report with `nonce`, each {"value": ...} or {"error": text}.

    Where there was no function to call it is a str instead: what there was, "nothing" or the name of a type.

    Raises Malformed for anything that the harness, left alone, would not have said.
    """
    said = [report for report in map(_parsed, reports) if report.get("nonce") == nonce]
    if len(said) != 1:
        raise Malformed(f"{len(said)} reports where one was expected")
    if isinstance(said[0].get("absent"), str):
        return said[0]["absent"][:80]
    found = said[0].get("outcomes")
    if not isinstance(found, list) or len(found) != n_cases:
        raise Malformed("the report has not one outcome for each input")
    for entry in found:
        if not isinstance(entry, dict) or len(entry) != 1 or next(iter(entry)) not in ("value", "error"):
            raise Malformed("an outcome is neither a value nor an error")
        if "error" in entry and not isinstance(entry["error"], str):
            raise Malformed("an error is not a text")
    return [_harmless(entry) for entry in found]


def _parsed(report):
    if not isinstance(report, str) or len(report) > MAX_CHARS:
        return {}
    try:
        parsed = json.loads(report)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _harmless(entry):
    """`entry`, or an error where comparing its value could raise: nested too deeply, a number beyond floats."""
    if "error" in entry:
        return {"error": entry["error"][:300]}
    try:
        _visit(entry["value"], _MAX_DEPTH)
    except OverflowError:
        return {"error": "OverflowError: a number in the answer is too large"}
    except RecursionError:
        return {"error": "RecursionError: the answer is nested too deeply"}
    return entry


def _visit(value, depth):
    if depth == 0:
        raise RecursionError
    if isinstance(value, int):
        float(value)
    elif isinstance(value, list):
        for entry in value:
            _visit(entry, depth - 1)
    elif isinstance(value, dict):
        for entry in value.values():
            _visit(entry, depth - 1)
