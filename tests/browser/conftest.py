"""A real browser on a built book. Every visit checks that the page asks no other host and logs no error."""

import os
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "book" / "_ext"))

from serve import Handler, Server  # noqa: E402

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]
# A host that answers 404 is logged by the browser; tests that ask for it allow this.
NOT_FOUND = "Failed to load resource"


class FlakyServer(Server):
    """A server that has lost every file whose path contains one of `lost`."""

    lost: frozenset[str] = frozenset()

    def __init__(self, directory):
        super().__init__(directory, handler=FlakyHandler)


class FlakyHandler(Handler):
    def do_GET(self):
        if any(part in self.path for part in self.server.lost):
            self.send_error(404)
        else:
            super().do_GET()


@pytest.fixture(scope="session")
def browser():
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        complain = pytest.fail if os.environ.get("CI") else pytest.skip
        complain("there is no Chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield running
        running.close()


@pytest.fixture
def visit(browser):
    """Opens a page: `with visit(url, allowed=(text of console errors,), **context options) as page`."""

    @contextmanager
    def opened(url, allowed=(), before="", **options):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        context.set_default_timeout(20_000)
        foreign, errors = [], []
        context.on("request", lambda request: None if _is_local(request.url) else foreign.append(request.url))
        page = context.new_page()
        page.on("console", lambda message: errors.append(_told(message)) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        if before:
            page.add_init_script(before)
        page.goto(url)
        yield page
        context.close()
        assert foreign == []
        assert [error for error in errors if not any(text in error for text in allowed)] == []

    return opened


def _told(message):
    return f"{message.text} ({message.location['url']})"


def _is_local(url):
    return url.startswith(("http://127.0.0.1:", "data:", "blob:", "file:"))


@pytest.fixture(scope="session")
def violations():
    """violations(page): what axe finds at WCAG 2.1 A and AA, in the light and in the dark theme."""
    axe = Axe()

    def found(page):
        theme = page.evaluate("document.documentElement.dataset.theme")
        texts = []
        for name in ("light", "dark"):
            page.evaluate("name => { document.documentElement.dataset.theme = name }", name)
            page.wait_for_timeout(250)  # the theme fades its colours
            for violation in axe.run(page, options={"runOnly": RULES, "preload": False}).response["violations"]:
                texts += [f"{name}: {violation['id']}: {node['html'][:200]}" for node in violation["nodes"]]
        page.evaluate("name => { document.documentElement.dataset.theme = name }", theme)
        return texts

    return found
