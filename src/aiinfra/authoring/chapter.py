"""A new chapter from the template: every part that a chapter has, working from the first moment."""

import keyword
import re
from importlib import resources

from aiinfra.authoring import tree

# template -> where it goes
_PLACES = {
    "book.md": "book/{stem}.md",
    "solution.py": "solutions/{stem}.py",
    "checks.py": "src/aiinfra/checks/{stem}.py",
    "explorer.py": "src/aiinfra/explorers/{stem}.py",
    "test.py": "tests/chapters/test_{stem}.py",
}


def create(root, stem):
    """Write the parts of chapter `stem` under `root` and list it in _toc.yml. Raises ValueError, writing nothing."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", stem) or keyword.iskeyword(stem):
        raise ValueError(f"STEM must be lower case letters, digits and _, starting with a letter; got {stem!r}")
    places = {template: root / place.format(stem=stem) for template, place in _PLACES.items()}
    there = [str(path.relative_to(root)) for path in places.values() if path.exists()]
    if there or f"book/{stem}" in tree.toc(root):
        raise ValueError(f"chapter {stem} exists already: {', '.join(there) or '_toc.yml'}")
    title = stem.replace("_", " ").capitalize()
    for template, path in places.items():
        text = (resources.files("aiinfra.authoring") / "template" / template).read_text(encoding="utf-8")
        path.write_text(text.replace("STEM", stem).replace("TITLE", title), encoding="utf-8")
    _add_to_toc(root / "_toc.yml", stem)
    print("\n".join(f"wrote {path.relative_to(root)}" for path in places.values()))
    print(f"listed {stem} in _toc.yml; now write it, then run: make notebooks && make check")


def _add_to_toc(path, stem):
    """List the chapter after the last one that has a lab, leaving the rest of the file as it is written."""
    lines = path.read_text(encoding="utf-8").splitlines()
    last = max(i for i, line in enumerate(lines) if "file: labs/" in line)
    lines[last + 1 : last + 1] = [
        f"      - file: book/{stem}", "        sections:", f"          - file: labs/{stem}",
    ]  # fmt: skip
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
