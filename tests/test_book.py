"""What must hold of the book's sources, without building it; the built pages are tested in tests/browser."""

import re
from pathlib import Path

import pytest

from aiinfra.authoring import tree

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / f"{file}.md" for file in tree.toc(ROOT) if file.startswith("book/")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_page_imports_torch_or_what_only_labs_have(page):
    cells = re.findall(r"```\{code-cell\}.*?```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    imports = re.findall(r"^(?:from|import)\s+([\w.]+)", "\n".join(cells), flags=re.MULTILINE)
    assert not [name for name in imports if name.startswith(("torch", "aiinfra.measure", "aiinfra.grading"))]


def test_make_book_installs_no_torch():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]

    def closure(extra):
        for requirement in extras[extra]:
            name = re.match(r"[\w.-]+", requirement)[0]
            inner = re.search(r"aiinfra\[([\w,]+)\]", requirement)
            yield from (item for part in inner[1].split(",") for item in closure(part)) if inner else [name]

    assert "torch" not in set(closure("book"))
    assert "torch" in set(closure("torch"))


def test_the_tree_has_every_part_of_every_chapter():
    assert tree.problems(ROOT) == []
