"""Tasks of the chapter `STEM`."""

from aiinfra.checks.tasks import Misconception, Task


def _inputs(rng):
    return (rng.uniform(1.0, 100.0),)


DOUBLED = Task(
    name="doubled",
    reference=lambda value: 2 * value,
    inputs=_inputs,
    read_again="STEM.html#the-smallest-picture",
    misconceptions=(Misconception("unchanged", lambda value: value, "This is the value itself, not twice of it."),),
)

TASKS = (DOUBLED,)
