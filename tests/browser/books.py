"""Builds books for the browser tests."""

import subprocess
import sys
from pathlib import Path

import yaml

from aiinfra.authoring import tree

ROOT = Path(__file__).parents[2]
_SOURCES = ("book", "labs", "src/aiinfra", "_config.yml", "_toc.yml")


def build(source, output):
    """Builds the book in `source` below `output` and returns the folder of its pages."""
    jupyter_book = Path(sys.executable).with_name("jupyter-book")
    command = [jupyter_book, "build", str(source), "--path-output", str(output), "-W", "-n", "--keep-going", "-q"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return Path(output) / "_build" / "html"


def small_book(folder):
    """The book that only the tests read, with the real book's settings and the real extension."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    config["sphinx"]["local_extensions"] = {"live": str(ROOT / "book" / "_ext")}
    favicon = ROOT / config["sphinx"]["config"]["html_favicon"]
    config["sphinx"]["config"]["html_favicon"] = str(favicon)
    (folder / "_config.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    (folder / "_toc.yml").write_text("format: jb-book\nroot: index\n", encoding="utf-8")
    page = Path(__file__).parent / "book" / "figures.md"
    (folder / "index.md").write_text(page.read_text(encoding="utf-8"), encoding="utf-8")
    return folder


def pages():
    """The names of the real book's pages, in order."""
    return tree.toc(ROOT)


def is_fresh(html):
    """Whether `html` holds the real book, live, and nothing that it is made from has changed since."""
    index = html / "index.html"
    if not index.exists() or not (html / "_static" / "live").is_dir():
        return False
    files = [path for name in _SOURCES for path in (ROOT / name, *(ROOT / name).rglob("*")) if path.is_file()]
    changed = max(path.stat().st_mtime for path in files if "__pycache__" not in path.parts)
    return changed < index.stat().st_mtime
