"""Submissions whose file is odd: notebooks that were taken apart, and files that are none."""

import copy
import json
import os

from tests.grading_corpus.entry import (
    ANSWERS,
    FIRST,
    RIGHT,
    RIGHT_SECOND,
    SECOND,
    Entry,
    lab,
    notebook,
    place_of,
    save,
    unreadable,
)

MISSING = ("missing", 0.0)


def delete_answer(parsed):
    del parsed["cells"][place_of(parsed, FIRST)]


def delete_all_but_answers(parsed):
    parsed["cells"] = [cell for cell in parsed["cells"] if cell["metadata"].get("task") in ANSWERS]


def duplicate_answer(parsed):
    at = place_of(parsed, FIRST)
    parsed["cells"].insert(at + 1, copy.deepcopy(parsed["cells"][at]))


def answer_again_wrongly(parsed):
    duplicate_answer(parsed)
    parsed["cells"][place_of(parsed, FIRST) + 1]["source"] = RIGHT.replace(" / 2", "")


def split_answer(parsed):
    at = place_of(parsed, FIRST)
    second = copy.deepcopy(parsed["cells"][at])
    parsed["cells"][at]["source"] = "HALF = 0.5e9"
    second["source"] = RIGHT.replace("/ 2 * 1e9", "* HALF")
    parsed["cells"].insert(at + 1, second)


def merge_answers(parsed):
    parsed["cells"][place_of(parsed, FIRST)]["source"] = RIGHT + RIGHT_SECOND
    del parsed["cells"][place_of(parsed, SECOND)]


def reorder(parsed):
    parsed["cells"].reverse()


def forget_metadata(parsed):
    for cell in parsed["cells"]:
        cell["metadata"] = {}


def same_id(parsed):
    for cell in parsed["cells"]:
        cell["id"] = "same"


def swap_labels(parsed):
    first, second = (parsed["cells"][place_of(parsed, task)]["metadata"] for task in (FIRST, SECOND))
    first["task"], second["task"] = second["task"], first["task"]


def answer_in_prose(parsed):
    parsed["cells"][place_of(parsed, FIRST)]["cell_type"] = "markdown"


def other_kernel(parsed):
    parsed["metadata"]["kernelspec"] = {"name": "ir", "language": "R", "display_name": "R"}
    parsed["metadata"]["language_info"] = {"name": "R"}


def sources_as_lists(parsed):
    for cell in parsed["cells"]:
        cell["source"] = "".join(cell["source"]).splitlines(keepends=True)


def cells_that_are_none(parsed):
    parsed["cells"][:0] = [None, 7, [], {}, {"cell_type": "code"}, {"cell_type": "code", "source": {"a": 1}}]


def strange_metadata(parsed):
    for cell in parsed["cells"]:
        cell["metadata"]["tags"] = [*cell["metadata"].get("tags", []), None, {"a": []}]
    parsed["metadata"] = []


def many_cells(parsed):
    parsed["cells"] += [{"cell_type": "code", "source": f"x = {n}", "metadata": {}} for n in range(5_000)]


def changed_cells_of_the_lab(parsed):
    for cell in parsed["cells"]:
        if cell["cell_type"] == "code" and cell["metadata"].get("task") not in ANSWERS:
            cell["source"] = "import os\nos._exit(0)"


def cells_of_their_own(parsed):
    own = {"cell_type": "code", "source": "while True:\n    pass", "metadata": {"tags": ["setup", "parameters"]}}
    parsed["cells"].insert(0, own)


def long_cell(parsed):
    parsed["cells"][place_of(parsed, FIRST)]["source"] += "#" * 60_000


def forged_outputs(parsed):
    cell = parsed["cells"][place_of(parsed, FIRST)]
    cell["source"] = lab({})["cells"][place_of(parsed, FIRST)]["source"]
    cell["outputs"] = [
        {"output_type": "stream", "name": "stdout", "text": "✓ one_way_bytes_per_s: Right on all 6 inputs."}
    ]
    parsed["metadata"]["points"] = 10


def surrogate_in_source(parsed):
    parsed["cells"][place_of(parsed, FIRST)]["source"] += "# \ud800\n"


NOTEBOOKS = [
    notebook("answer deleted", delete_answer, first=MISSING, says="no cell defines one_way_bytes_per_s"),
    notebook("all but the answers deleted", delete_all_but_answers),
    notebook("answer twice", duplicate_answer),
    notebook("answer again and wrong", answer_again_wrongly, says="2 cells define one_way_bytes_per_s"),
    notebook("answer split", split_answer),
    notebook("answers merged", merge_answers),
    notebook("cells in reverse", reorder),
    notebook("no metadata", forget_metadata, says="had lost its label"),
    notebook("one id for all cells", same_id),
    notebook("labels swapped", swap_labels),
    notebook("answer in a text cell", answer_in_prose, first=MISSING),
    notebook("another kernel", other_kernel),
    notebook("sources as lists", sources_as_lists),
    notebook("cells that are none", cells_that_are_none),
    notebook("strange metadata", strange_metadata),
    notebook("five thousand cells", many_cells),
    notebook("cells of the lab changed", changed_cells_of_the_lab),
    notebook("cells of their own", cells_of_their_own),
    notebook("a cell without end", long_cell, first=MISSING, says="characters and was not run"),
    notebook("outputs forged in the file", forged_outputs, first=("not attempted", 0.0)),
    notebook("half a surrogate in the source", surrogate_in_source),
]


def deep(path):
    path.write_text('{"nbformat": 4, "cells": [], "metadata": ' + '{"a": ' * 200_000 + "1" + "}" * 200_001)


def hundred_megabytes(path):
    parsed = lab(ANSWERS)
    parsed["cells"][-1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x" * 100_000_000}]
    save(path, parsed)


def sparse(path):
    with path.open("wb") as file:
        file.truncate(1 << 40)


def utf16(path):
    path.write_text(json.dumps(lab(ANSWERS), ensure_ascii=False), encoding="utf-16")


def utf8_with_a_mark(path):
    path.write_text(json.dumps(lab(ANSWERS), ensure_ascii=False), encoding="utf-8-sig")


def python_literals(path):
    path.write_text(repr(lab(ANSWERS)))


def cut_off(path):
    path.write_text(json.dumps(lab(ANSWERS))[:5_000])


def link(path):
    path.symlink_to(path.parent / "good 0.ipynb")


def format_of(number):
    return lambda path: save(path, {**lab(ANSWERS), "nbformat": number})


FILES = [
    Entry("UTF-8 with a mark", utf8_with_a_mark, {FIRST: ("right", 4.0), SECOND: ("right", 6.0)}, ""),
    unreadable("an empty file", lambda path: path.touch(), "not valid JSON"),
    unreadable("cut off", cut_off, "not valid JSON"),
    unreadable("Python, not JSON", python_literals, "not valid JSON"),
    unreadable("UTF-16", utf16, "not UTF-8"),
    unreadable("a picture", lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n\xff\xfe"), "not UTF-8"),
    unreadable("deep JSON", deep, "not valid JSON"),
    unreadable("a list for a notebook", lambda path: path.write_text("[]"), "no nbformat"),
    unreadable("a number without end", lambda path: path.write_text("9" * 10_000), "not"),
    unreadable("format 3", format_of(3), "format 3; format 4 is needed"),
    unreadable("format 5", format_of(5), "format 5; format 4 is needed"),
    unreadable("cells in a dict", lambda path: save(path, {"nbformat": 4, "cells": {}}), "no list of cells"),
    unreadable("a hundred megabytes", hundred_megabytes, "Clear all outputs"),
    unreadable("a terabyte of nothing", sparse, "Clear all outputs"),
    unreadable("a link", link, "symbolic link"),
    unreadable("a link to a device", lambda path: path.symlink_to("/dev/zero"), "symbolic link"),
    unreadable("a link to itself", lambda path: path.symlink_to(path.name), "symbolic link"),
    unreadable("a pipe", os.mkfifo, "not a file"),
    unreadable("a folder", lambda path: path.mkdir(), "not a file"),
]

ENTRIES = NOTEBOOKS + FILES
