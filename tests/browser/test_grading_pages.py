"""The pages of the grader in a real browser: readable for everybody, and nothing of a learner's runs in them."""

import dataclasses

import pytest

from aiinfra.grading.completion import Completion
from aiinfra.grading.grade import Result, TaskResult, load_lab
from aiinfra.grading.records import answers, feedback, summary
from tests.browser import books

LAB = load_lab("accelerators", books.ROOT / "labs" / "accelerators.ipynb")
HOSTILE = (
    "</pre></code><script>alert(1)</script><img src=http://example.org/x onerror=alert(2)><style>body{display:none}"
)


def results():
    right = tuple(TaskResult(name, "right", "Right.", task.points, task.points) for name, task in LAB.tasks.items())
    wrong = dataclasses.replace(right[0], status="wrong", points=0.0, misconception=HOSTILE, says=HOSTILE)
    wrong = dataclasses.replace(wrong, source=HOSTILE, showed=HOSTILE, note=HOSTILE, comment=HOSTILE, by_hand=True)
    wrong = dataclasses.replace(wrong, read_again="accelerators.html#time-and-money", cases=[("x" * 300, 1.5)] * 6)
    wrong = dataclasses.replace(wrong, outcomes=[{"value": HOSTILE}, {"error": HOSTILE}] * 3, n_cases=6, n_right=2)
    others = tuple(
        dataclasses.replace(task, status=status, points=0.0)
        for task, status in zip(right[1:], ("error", "missing", "not attempted", "package", "by hand"), strict=True)
    )
    done = (
        Completion("p", "prediction", "done", 1.0, 1, HOSTILE, HOSTILE),
        Completion("explain_purchase", "written", "done", 4.0, 4, text=HOSTILE, comment=HOSTILE),
        Completion("how", "written", "missing", 0.0, 4),
    )
    hostile = Result(
        HOSTILE, "graded", 9.0, 39, (wrong, *others), (HOSTILE,), completion=done, parameters={"scenario": 7}
    )
    return [
        Result("ada", "graded", 32.0, 39, right),
        hostile,
        Result("bob" * 30, "not graded", 0.0, 39, notes=(HOSTILE,)),
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("which", [0, 1, 2, "summary", "answers"])
def test_page_of_the_grader(tmp_path, visit, violations, which, scheme):
    if which in ("summary", "answers"):
        html = {"summary": summary, "answers": answers}[which].page(results(), LAB)
    else:
        html = feedback.page(results()[which], "accelerators")
    (tmp_path / "page.html").write_text(html, encoding="utf-8")
    with visit(f"file://{tmp_path}/page.html", color_scheme=scheme) as page:
        dialogs = []
        page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
        assert page.locator("h1").is_visible() and page.locator("script, img").count() == 0
        for closed in page.locator("details").all():
            closed.evaluate("element => { element.open = true }")
        assert violations(page) == []
        page.set_viewport_size({"width": 360, "height": 740})
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        assert dialogs == []
