"""What tests of several files need."""

import os

import pytest

from aiinfra.grading.execution import available


@pytest.fixture(scope="session")
def sandbox():
    """Where continuous integration has no sandbox, that is a failure; elsewhere the tests can't run."""
    problem = available.why_not()
    if problem and os.environ.get("CI"):
        pytest.fail(problem)
    if problem:
        pytest.skip(problem)
