"""An invented class of twelve, as Canvas and Moodle would give its notebooks, and the transcript of grading it.

`python -m tests.grading_class` writes the transcript that book/instructors.md shows; a test compares it with what the
commands print today.
"""

import contextlib
import io
import json
import os
import shlex
import sys
import tempfile
import zipfile
from pathlib import Path

from aiinfra import cli

ROOT = Path(__file__).parents[1]
TRANSCRIPT = ROOT / "book" / "data" / "grading.txt"
STEM = "accelerators"
LATENCY_FORGOTTEN = "def ring_all_reduce_s(m, n, b, a):\n    return 2 * (n - 1) / n * m / b"
BOTH_DIRECTIONS = "def one_way_bytes_per_s(n_links, link_gb_per_s):\n    return n_links * link_gb_per_s * 1e9"
PACKAGE = "from aiinfra.collectives import ring_all_reduce_s"
NO_NUMPY = "def ring_all_reduce_s(m, n, b, a):\n    return np.float64(2 * (n - 1) * (a + m / n / b))"
HALF_A_LINE = "def ring_all_reduce_s(m, n, b, a:\n    return 2 *"
SCRIPT = (
    "from IPython.display import HTML, display\nprint('<script>alert(1)</script>')\n"
    "display(HTML('<script>alert(1)</script>'))\n"
    "def one_way_bytes_per_s(n_links, link_gb_per_s):\n    return sum([link_gb_per_s * 5e8] * n_links)"
)
# name, number -> what was handed in: the answers that differ from the solution, None for the empty lab, or bytes
CLASS = {
    ("Adeyemi, Tolu", 101): {},
    ("Bauer, Jonas", 102): {"one_way_bytes_per_s": BOTH_DIRECTIONS, "ring_all_reduce_s": LATENCY_FORGOTTEN},
    ("Chen, Wei", 103): {"ring_all_reduce_s": LATENCY_FORGOTTEN},
    ("Díaz, Lucía", 104): {},
    ("Eriksen, Nora", 105): None,
    ("Fofana, Awa", 106): {"ring_all_reduce_s": NO_NUMPY},
    ("García, Iker", 107): b'{"cells": [{"cell_type": "code"',
    ("Haddad, Rami", 108): {"ring_all_reduce_s": PACKAGE},
    ("Ito, Yui", 109): {"ring_all_reduce_s": HALF_A_LINE},
    ("Jovanović, Ana", 110): {"one_way_bytes_per_s": SCRIPT},
    ("Kowalski, Jan", 111): {"explain_purchase": "*Your answer:*\n\n..."},
    ("Lopes, Rui", 112): None,  # hands in a script instead
}
LATE, TWICE, NO_NOTEBOOK = 104, 103, 112


def notebook(handed_in):
    """What a student handed in, as bytes."""
    if isinstance(handed_in, bytes):
        return handed_in
    if handed_in is None:
        return (ROOT / "labs" / f"{STEM}.ipynb").read_bytes()
    solution = json.loads((ROOT / "solutions" / f"{STEM}.ipynb").read_text(encoding="utf-8"))
    for cell in solution["cells"]:
        cell["source"] = handed_in.get(cell["metadata"].get("task"), cell["source"])
    return json.dumps(solution).encode()


def canvas_name(name):
    return "".join(letter for letter in name.lower() if letter.isalnum())


def canvas_zip(path):
    """The class as Canvas's "Download submissions" gives it."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for (name, number), handed_in in CLASS.items():
            late = "LATE_" if number == LATE else ""
            start, serial = f"{canvas_name(name)}_{late}{number}", 5000 + number
            if number == NO_NOTEBOOK:
                archive.writestr(f"{start}_{serial}_lab.py", "print('done')")
                continue
            if number == TWICE:
                archive.writestr(f"{start}_{serial - 1000}_{STEM}.ipynb", notebook(None))
                archive.writestr(f"{start}_{serial}_{STEM}-1.ipynb", notebook(handed_in))
                continue
            archive.writestr(f"{start}_{serial}_{STEM}.ipynb", notebook(handed_in))
    return path


def moodle_zip(path):
    """The class as Moodle's "Download all submissions" gives it; it does not say who is late."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for (name, number), handed_in in CLASS.items():
            folder = f"{' '.join(reversed(name.split(', ')))}_{number}_assignsubmission_file_"
            if number == NO_NOTEBOOK:
                archive.writestr(f"{folder}/lab.py", "print('done')")
            else:
                archive.writestr(f"{folder}/{STEM}.ipynb", notebook(handed_in))
    return path


def canvas_roster(path):
    """The class as Canvas exports its gradebook, with one who handed in nothing."""
    lines = ["Student,ID,SIS User ID,SIS Login ID,Section", "    Points Possible,,,,"]
    people = [*CLASS, ("Moreau, Inès", 113)]
    lines += [f'"{name}",{number},S{number},{canvas_name(name)}@example.edu,A' for name, number in people]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def moodle_worksheet(path):
    """The class as Moodle's grading worksheet."""
    lines = ["Identifier,Full name,Email address,Status,Grade,Maximum Grade,Grade can be changed,"
             "Last modified (submission),Last modified (grade),Feedback comments"]  # fmt: skip
    lines += [
        f"Participant {number},{' '.join(reversed(name.split(', ')))},{number}@example.edu,Submitted,,39.00,Yes,-,-,"
        for name, number in CLASS
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def line_by_hand(path, student, points, comment):
    """What an instructor types into manual.csv."""
    lines = path.read_text(encoding="utf-8").splitlines()
    place = next(i for i, line in enumerate(lines) if line.startswith(f"{student},"))
    lines[place] = f"{student},explain_purchase,{points},{comment}"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return f"{path.name}, line {place + 1}:  {lines[place]}"


def transcript(folder):
    """Text of a term's commands in `folder`, and of what they print on standard output."""
    (folder / "labs").symlink_to(ROOT / "labs")
    (folder / "solutions").symlink_to(ROOT / "solutions")
    canvas_zip(folder / "submissions.zip")
    canvas_roster(folder / "class.csv")
    theirs = "--parameters per-student --roster class.csv --secret secret.txt"
    grade = f"aiinfra grade submissions.zip --lab {STEM} --out graded"
    said = [run(folder, f"aiinfra grade --self-test --lab {STEM}")]
    said.append(run(folder, f"aiinfra release --lab {STEM} --out handout {theirs}"))
    said.append(run(folder, f"{grade} {theirs} --lms canvas --assignment 'Lab 1 (98765)'"))
    line = line_by_hand(folder / "graded" / "manual.csv", "chenwei_103", 3, "Say which limit the faster offer fails.")
    said.append(line + "\n")
    said.append(run(folder, f"{grade} {theirs} --lms canvas --assignment 'Lab 1 (98765)' --resume"))
    return "\n".join(said)


def run(folder, line):
    """A command and what it prints, with `folder` as the working directory."""
    output = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()):
        cli.main(shlex.split(line)[1:])
    return f"$ {line}\n{output.getvalue()}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        TRANSCRIPT.write_text(transcript(Path(place)), encoding="utf-8")
    print(f"wrote {os.path.relpath(TRANSCRIPT)}", file=sys.stderr)
