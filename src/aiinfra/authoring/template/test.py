"""Chapter `STEM`: its numbers, its tasks and their misconceptions."""

import pytest

from aiinfra.checks import tasks
from tests.chapters.tasks import assert_accepts, assert_tasks_are_sound

DIFFERENTLY = {
    "doubled": [lambda value: value + value, lambda value: value * 2.0, lambda value: sum([value, value])],
}


def test_tasks_are_sound():
    assert_tasks_are_sound("STEM")


@pytest.mark.parametrize("name", tasks("STEM"))
def test_right_answers_written_differently_are_accepted(name):
    for answer in DIFFERENTLY[name]:
        assert_accepts("STEM", name, answer)
