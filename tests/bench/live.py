"""How fast live figures are: bytes of a first start, time to its first redraw, time of a move, accessibility.

Prints what was measured as a share of its budget (below 1 is good). It asserts nothing: machines differ.
"""

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "book" / "_ext")]

from serve import Server  # noqa: E402

from tests.browser import books  # noqa: E402
from tests.browser.conftest import FLAGS, RULES  # noqa: E402

PAGE = "book/accelerators.html"
STARTS, MOVES = 3, 60

# Moves the first slider from inside the page and waits for the frame after its sentence and its picture have changed.
_MOVE = """slider => new Promise((done) => {
  const figure = slider.closest("figure");
  const says = figure.querySelector(".aiinfra-says").parentElement;
  const waiting = new Set([says, figure.querySelector(".aiinfra-chart")]);
  const start = performance.now();
  for (const part of waiting) {
    const watch = new MutationObserver(() => {
      watch.disconnect();
      waiting.delete(part);
      if (!waiting.size) requestAnimationFrame(() => done(performance.now() - start));
    });
    watch.observe(part, { childList: true, subtree: true, attributes: true, characterData: true });
  }
  slider.valueAsNumber = slider.value === slider.max ? Number(slider.min) : slider.valueAsNumber + Number(slider.step);
  slider.dispatchEvent(new Event("input", { bubbles: true }));
})"""


def main():
    html = ROOT / "_build" / "html"
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        html = html if books.is_fresh(html) else books.build(ROOT, folder)
        server = Server(html).start()
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        starts = [first_start(browser, server) for _ in range(STARTS)]
        moves, violations = play(browser, server)
        browser.close()
    report("bytes of a first start, gzip", max(size for size, _s in starts) / 1e6, 8, "MB")
    report("first touch to redraw, median", statistics.median(seconds for _size, seconds in starts), 4, "s")
    report("a move, 95th percentile", statistics.quantiles(moves, n=20)[-1], 50, "ms")
    print(f"{'accessibility violations, WCAG 2.1 A and AA':45} {violations:8d}      (budget 0)")


def report(what, measured, budget, unit):
    print(f"{what:45} {measured:8.2f} {unit:4} (budget {budget} {unit}: {measured / budget:.2f})")


def first_start(browser, server):
    """(bytes on the wire, seconds) from the first touch to the redrawn figure, with nothing cached."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(server.url + PAGE)
    page.wait_for_load_state("networkidle")
    already = sum(server.sent.values())
    start = time.perf_counter()
    touch(page)
    seconds = time.perf_counter() - start
    context.close()
    return sum(server.sent.values()) - already, seconds


def touch(page):
    """Moves the first slider and waits until the picture is Vega's."""
    page.locator("figure.live-figure input[type=range]").first.press("ArrowRight")
    page.locator("figure.live-figure:not([aria-busy]) .vega-embed svg").first.wait_for()


def play(browser, server):
    """(milliseconds of each move, number of violations in both themes, before and after the start)."""
    page = browser.new_page()
    page.goto(server.url + PAGE)
    found = violations(page)
    touch(page)
    slider = page.locator("figure.live-figure input[type=range]").first
    moves = [slider.evaluate(_MOVE) for _ in range(MOVES)]
    return moves, found + violations(page)


def violations(page):
    count = 0
    for theme in ("light", "dark"):
        page.evaluate("name => { document.documentElement.dataset.theme = name }", theme)
        page.wait_for_timeout(250)
        count += len(Axe().run(page, options={"runOnly": RULES, "preload": False}).response["violations"])
    return count


if __name__ == "__main__":
    main()
