"""Every page of the real book in a real browser: nothing foreign or unreadable, and numbers as Python has them."""

import pytest

from tests.browser import books, figures
from tests.browser.conftest import FlakyServer


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    html = books.ROOT / "_build" / "html"
    if not books.is_fresh(html):
        html = books.build(books.ROOT, tmp_path_factory.mktemp("book"))
    running = FlakyServer(html).start()
    yield running
    running.shutdown()


@pytest.mark.parametrize("name", books.pages())
def test_page(name, server, visit, violations):
    with visit(f"{server.url}{name}.html") as page:
        assert violations(page) == []
        for figure in page.locator("figure.live-figure").all():
            _compare_every_move(figure)
        if page.locator("figure.live-figure").count():
            assert violations(page) == []
            assert len(page.workers) == 1
        _keep_picture(page, name, "desktop")
        page.emulate_media(color_scheme="dark")
        page.evaluate("document.documentElement.dataset.theme = 'dark'")
        page.set_viewport_size({"width": 360, "height": 740})
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        _keep_picture(page, name, "phone-dark")


def _keep_picture(page, name, look):
    """Keeps what a reader sees for people to look at: _build/screenshots/."""
    page.screenshot(path=books.ROOT / "_build" / "screenshots" / f"{name.replace('/', '-')}-{look}.png", full_page=True)


def _compare_every_move(figure):
    """Moves each control once and compares what the figure says with what Python says for the same settings."""
    first = figures.settings(figure)
    for control in figure.locator(".live-control").all():
        figures.move(control)
        figures.settle(figure)
        now = figures.settings(figure)
        shown, expected = figures.says(figure), figures.python_says(figure, first, now)
        assert [text for text, _numbers in shown] == [text for text, _numbers in expected]
        for (_text, numbers), (_same, exact) in zip(shown, expected, strict=True):
            assert numbers == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("name", books.pages())
def test_page_without_javascript(name, server, visit):
    with visit(f"{server.url}{name}.html", java_script_enabled=False) as page:
        assert page.locator("article h1").first.is_visible()
        for figure in page.locator("figure.live-figure").all():
            assert figure.locator(".live-wide svg").first.is_visible()
            assert figure.locator(".aiinfra-says strong[data-value]").first.is_visible()
