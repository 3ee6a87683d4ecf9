"""The machinery of live figures, on a small book of its own with every kind of control."""

import live_still
import pytest

from aiinfra import charts
from tests.browser import books, figures
from tests.browser.conftest import NOT_FOUND, FlakyServer


@pytest.fixture(scope="session")
def html(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small-book")
    return books.build(books.small_book(folder), folder)


@pytest.fixture
def server(html):
    running = FlakyServer(html).start()
    yield running
    running.shutdown()


def first_figure(page):
    return page.locator("figure.live-figure").first


def slider(figure, label):
    return figure.get_by_role("slider", name=label)


def sentence(figure):
    return figures.says(figure)[0][0]


def test_every_kind_of_control_moves_the_figure_as_python_says(server, visit, violations):
    with visit(server.url) as page:
        assert violations(page) == []
        figure = first_figure(page)
        start = figures.settings(figure)
        assert figures.says(figure) == figures.python_says(figure, start, start)
        drawn = []
        for control in figure.locator(".live-control").all():
            before = figures.settings(figure)
            figures.move(control)
            figures.settle(figure)
            now = figures.settings(figure)
            assert [was != is_now for was, is_now in zip(before, now, strict=True)].count(True) == (before != now)
            if before != now:  # all but the button, whose clicks Python has not seen here
                shown, expected = figures.says(figure), figures.python_says(figure, start, now)
                assert shown[0][0] == expected[0][0]
                assert shown[0][1] == pytest.approx(expected[0][1], rel=1e-9)
            page.wait_for_timeout(50)
            drawn.append(figure.locator(".aiinfra-chart svg").inner_html())
        assert sentence(figure) == "Group b gives -86.5."  # -2 (11 + 0.75 + 16 + 100 + 2) / 3
        assert figures.says(figure)[1][0] == "1 clicks"
        assert len(set(drawn)) >= len(drawn) - 2  # all but group and button move the line
        assert violations(page) == []


def test_dragging_shows_every_position_and_ends_on_the_last(server, visit):
    with visit(server.url) as page:
        figure = first_figure(page)
        whole = slider(figure, "Whole")
        box = whole.bounding_box()
        middle = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + box["width"] / 4, middle)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] / 2, middle, steps=5)
        figures.settle(figure)
        page.mouse.move(box["x"] + box["width"] - 2, middle, steps=40)
        page.mouse.up()
        figures.settle(figure)
        assert whole.input_value() == "40"
        assert whole.get_attribute("aria-valuetext") == "40"
        assert sentence(figure) == "Group a gives 16.83."  # (40 + 0.5 + 8 + 1 + 1) / 3


def test_a_start_keeps_focus_place_and_the_readers_choice(server, visit):
    with visit(server.url) as page:
        figure = first_figure(page)
        whole = slider(figure, "Whole")
        before = figure.bounding_box()
        whole.focus()
        for _ in range(3):
            page.keyboard.press("ArrowRight")
        figure.get_by_role("checkbox", name="Twice").check()
        whole.focus()
        assert page.get_by_role("progressbar").count() == 1
        assert "Python" in page.get_by_role("status").first.inner_text()
        figures.settle(figure)
        assert page.get_by_role("progressbar").count() == 0
        assert whole.evaluate("slider => slider === document.activeElement")
        assert whole.input_value() == "13"
        assert sentence(figure) == "Group a gives 15.67."  # 2 (13 + 0.5 + 8 + 1 + 1) / 3
        after = figure.bounding_box()
        assert after["height"] == pytest.approx(before["height"], abs=4)


def test_figures_of_a_page_share_one_python_but_no_names(server, visit):
    with visit(server.url) as page:
        first, second = page.locator("figure.live-figure").all()
        slider(first, "Whole").press("ArrowRight")
        figures.settle(first)
        assert "loads" not in second.locator(".live-status").inner_text()
        slider(second, "n").press("End")
        figures.settle(second)
        assert sentence(second) == "n is 9."
        slider(first, "Whole").press("ArrowRight")
        figures.settle(first)
        assert sentence(first).startswith("Group a")
        assert len(page.workers) == 1


def test_settings_that_raise_say_why_and_the_figure_goes_on(server, visit):
    with visit(server.url) as page:
        second = page.locator("figure.live-figure").nth(1)
        slider(second, "n").press("ArrowRight")
        figures.settle(second)
        assert "n must not be 3, got 3" in second.locator(".live-status").inner_text()
        assert sentence(second) == "n is 2."
        slider(second, "n").press("ArrowRight")
        figures.settle(second)
        assert sentence(second) == "n is 4."
        assert "must not" not in second.locator(".live-status").inner_text()


@pytest.mark.parametrize("lost", ["pyodide.asm.wasm", "pyodide.mjs", "python-", "course-", "vega-", "worker.js"])
def test_a_missing_part_is_named_and_can_be_tried_again(server, visit, lost):
    server.lost = frozenset({lost})
    with visit(server.url, allowed=(NOT_FOUND, "MIME type")) as page:
        figure = first_figure(page)
        slider(figure, "Whole").press("ArrowRight")
        problem = figure.locator(".live-problem")
        problem.wait_for()
        assert "could not" in problem.inner_text()
        assert figure.locator(".aiinfra-chart svg").first.is_visible()
        assert sentence(figure) == "Group a gives 6.833."
        server.lost = frozenset()
        problem.get_by_role("button", name="Try again").click()
        figures.settle(figure)
        assert sentence(figure) == "Group a gives 7.167."


def test_a_browser_without_webassembly_is_told_so(server, visit):
    with visit(server.url, before="delete window.WebAssembly") as page:
        figure = first_figure(page)
        slider(figure, "Whole").press("ArrowRight")
        assert "WebAssembly turned off" in figure.locator(".live-problem").inner_text()


def test_who_saves_data_is_asked_first(server, visit):
    with visit(server.url, before="Object.defineProperty(navigator, 'connection', {value: {saveData: true}})") as page:
        figure = first_figure(page)
        slider(figure, "Whole").press("ArrowRight")
        load = figure.get_by_role("button", name="Load")
        load.wait_for()
        assert not any("pyodide" in path for path in server.sent)
        load.click()
        figures.settle(figure)
        assert sentence(figure) == "Group a gives 7.167."


def test_without_javascript_there_are_values_sentence_and_picture(server, visit):
    with visit(server.url, java_script_enabled=False) as page:
        figure = first_figure(page)
        rows = figure.locator(".live-control").all_inner_texts()
        assert [" ".join(row.split()) for row in rows] == [
            "Whole 10", "Real 0.50", "Power 8.00", "Place near", "Shape line", "Sign plus", "Twice no", "Group a",
        ]  # fmt: skip
        assert "Group a gives 6.833." in figure.inner_text()
        assert figure.locator(".live-wide svg").is_visible()
        assert figure.locator(".live-narrow svg").is_hidden()
        assert figure.locator("input, select, button").count() == 0
        page.set_viewport_size({"width": 390, "height": 800})
        assert figure.locator(".live-narrow svg").is_visible()


def test_a_phone_shows_everything_without_scrolling_sideways(server, visit, violations):
    with visit(server.url, viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True) as page:
        figure = first_figure(page)
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        for control in figure.locator("input[type=range], select, .live-choice").all():
            assert control.bounding_box()["height"] >= 44
        slider(figure, "Whole").press("ArrowRight")
        figures.settle(figure)
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        assert figure.locator(".aiinfra-chart svg").bounding_box()["width"] <= 340
        assert violations(page) == []


def test_a_page_opened_as_a_file_says_why_it_stays_still(html, visit):
    with visit((html / "index.html").as_uri(), allowed=("CORS", "net::ERR_FAILED")) as page:
        assert page.locator(".live-file").first.is_visible()
        assert first_figure(page).locator(".live-wide svg").is_visible()


READOUTS = [
    (7, "d"), (1234567, ",d"), (0.5, ".2f"), (2.0, ".1f"), (1234.5678, ",.2f"), (0.126, ".1%"), (12345.678, ".2e"),
    (5.0, ".3g"), (1000.0, ".3g"), (0.00001234, ".3g"), (100.0, ".3g"), (0.1, ",.3r"), (5.011872336272722, ",.3r"),
    (1258.9254117941675, ",.3r"), (999.9, ",.3r"), (0.0, ",.3r"), (-12.5, ".3r"),
]  # fmt: skip


def test_readouts_read_the_same_in_python_and_in_the_page(server, visit):
    with visit(server.url) as page:
        module = page.locator('script[src*="live.js"]').evaluate("script => new URL('format.js', script.src).href")
        shown = page.evaluate(
            "async ([module, cases]) => { const { readout } = await import(module);"
            "return cases.map(([value, form]) => readout(value, form)) }",
            [module, [list(case) for case in READOUTS]],
        )
    assert shown == [live_still.readout(value, form) for value, form in READOUTS]


def test_a_static_book_has_no_front_end(tmp_path, visit, monkeypatch):
    monkeypatch.setenv("LIVE", "0")
    still = books.build(books.small_book(tmp_path), tmp_path)
    assert sorted(path.suffix for path in (still / "_static" / "live").iterdir()) == [".css"]
    server = FlakyServer(still).start()
    with visit(server.url) as page:
        assert first_figure(page).locator(".live-wide svg").is_visible()
        assert "loads" not in first_figure(page).inner_text()


def test_a_widget_that_a_page_cannot_draw_is_named():
    states = {"a": {"_model_name": "VBoxModel", "children": ["IPY_MODEL_b"]}, "b": {"_model_name": "TextModel"}}
    with pytest.raises(ValueError, match=r"cannot draw Text; it can draw .*IntSlider"):
        live_still.tree(states, "a")


@pytest.mark.parametrize("colour", charts.COLOURS)
@pytest.mark.parametrize("page", ["#ffffff", "#121212"])
def test_colours_stand_out_from_both_pages(colour, page):
    lighter, darker = sorted((_luminance(colour), _luminance(page)), reverse=True)
    assert (lighter + 0.05) / (darker + 0.05) >= 3.8


def _luminance(colour):
    """Relative luminance as WCAG 2.1 defines it."""
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [channel / 12.92 if channel <= 0.03928 else ((channel + 0.055) / 1.055) ** 2.4 for channel in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
