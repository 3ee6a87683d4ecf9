"""What must hold of the tree: every chapter has all its parts, and nothing generated is stale."""

import yaml

from aiinfra import accelerators, dram, models
from aiinfra.authoring import notebooks
from aiinfra.tables import status_counts

# the parts of a chapter, each found by its stem
PARTS = (
    "book/{stem}.md",
    "solutions/{stem}.py",
    "solutions/{stem}.ipynb",
    "labs/{stem}.ipynb",
    "src/aiinfra/checks/{stem}.py",
    "src/aiinfra/explorers/{stem}.py",
    "tests/chapters/test_{stem}.py",
)


def stems(root):
    """Stems of all chapters: every stem that has a lab's source, or is in the table of contents as a lab."""
    return sorted(set(notebooks.stems(root)) | {file.split("/")[1] for file in toc(root) if file.startswith("labs/")})


def toc(root):
    """Every file of the table of contents, without ending."""
    found: list[str] = []

    def walk(entry):
        if isinstance(entry, dict):
            found.extend(value for key, value in entry.items() if key in ("file", "root"))
            for value in entry.values():
                walk(value)
        elif isinstance(entry, list):
            for value in entry:
                walk(value)

    walk(yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8")))
    return found


def problems(root):
    """Everything that is missing or stale under `root`, one sentence each."""
    listed = toc(root)
    found = [
        f"chapter {stem} has no {part.format(stem=stem)}"
        for stem in stems(root)
        for part in PARTS
        if not (root / part.format(stem=stem)).exists()
    ]
    found += [
        f"chapter {stem} is not in _toc.yml: {page} is missing"
        for stem in stems(root)
        for page in (f"book/{stem}", f"labs/{stem}")
        if page not in listed
    ]
    stray = sorted(path for path in (root / "labs").glob("*.ipynb") if path.stem not in notebooks.stems(root))
    found += [f"labs/{path.name} has no source solutions/{path.stem}.py" for path in stray]
    return found + notebooks.stale(root)


def report(root):
    """Print the numbers by status and every problem; the exit status."""
    numbers = (*accelerators.numbers(), *dram.numbers(), *models.numbers())
    counts = status_counts(numbers)
    print(f"numbers: {len(numbers)}; " + ", ".join(f"{status} {n}" for status, n in counts.items()))
    found = problems(root)
    print("\n".join(found) or f"chapters complete, notebooks fresh: {', '.join(stems(root))}")
    return 1 if found else 0
