"""The systems that the source documents name: what each is, and where the course meets it.

`met_in` says how: "lab" (done with real code), "figure" (moved on the page), "numbers" (on the page, or rows of the
catalogue, which its figures compare) or "text". `look_for` is what a reader would search for there, where it is not
the name itself.
"""

import csv
from dataclasses import dataclass

FILE = "book/data/systems.csv"
WHERE = {
    "lab": ("solutions/{stem}.py",),
    "figure": ("book/{stem}.md", "src/aiinfra/explorers/{stem}.py"),
    "numbers": ("book/{stem}.md", "src/aiinfra/data/accelerators.csv", "src/aiinfra/data/models.csv"),
    "text": ("book/{stem}.md",),
}


@dataclass(frozen=True)
class System:
    """One row of systems.csv; `chapter` is the stem of the chapter that owns it, written or still to come."""

    name: str
    kind: str
    what: str
    chapter: str
    met_in: str
    look_for: str


def read(root):
    """All systems under `root`, in the order of the file. Raises ValueError for a row that can't be used."""
    with (root / FILE).open(encoding="utf-8", newline="") as file:
        systems = [System(**row) for row in csv.DictReader(file)]
    for row, system in enumerate(systems, start=2):
        if system.met_in not in WHERE:
            raise ValueError(f"{FILE}, row {row}: met_in must be one of {', '.join(WHERE)}, got {system.met_in!r}")
        if not all((system.name, system.kind, system.what, system.chapter)):
            raise ValueError(f"{FILE}, row {row}: name, kind, what and chapter must not be empty")
    return systems


def written(root, system):
    """Whether the chapter of `system` exists."""
    return (root / f"book/{system.chapter}.md").exists()


def is_met(root, system):
    """Whether the place that `system` names does speak of it. The chapter must exist."""
    places = [root / place.format(stem=system.chapter) for place in WHERE[system.met_in]]
    text = "\n".join(place.read_text(encoding="utf-8") for place in places).lower()
    return (system.look_for or system.name).lower() in text


def listing(root, systems):
    """The systems as a Markdown list, by name."""
    lines = []
    for system in sorted(systems, key=lambda system: system.name.lower()):
        if written(root, system):
            lab = f" and its [lab](../labs/{system.chapter}.ipynb)" if system.met_in == "lab" else ""
            where = f"Chapter [{system.chapter}]({system.chapter}.md){lab}."
        else:
            where = "*In a later chapter.*"
        lines.append(f"- **{system.name}**, {system.kind}. {system.what} {where}")
    return "\n".join(lines)
