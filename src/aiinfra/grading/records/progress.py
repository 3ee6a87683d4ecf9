"""What an instructor sees while the grader works: a bar in a terminal, plain lines where the output is a file."""

import contextlib
import sys

from tqdm import tqdm

from aiinfra.grading.grade import GRADED, TROUBLE

_BAR = "{percentage:3.0f} % {bar:24} {n_fmt} of {total_fmt}, {remaining} left{postfix}"


def printable(text):
    """`text` without what a terminal would obey."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


class Progress:
    """Told of each result; says how far it is and how it stands so far."""

    def __init__(self, n_all, before=()):
        self._n_all, self._n_done, self._bar = n_all, 0, None
        self._points, self._n_graded, self._odd = 0.0, 0, {"not graded": 0, "late": 0, "in trouble": 0}
        for result in before:
            self._count(result)
        if sys.stderr.isatty():
            self._bar = tqdm(total=n_all, initial=self._n_done, bar_format=_BAR)

    def _count(self, result):
        self._n_done += 1
        if result.status == GRADED:
            self._points, self._n_graded = self._points + result.points, self._n_graded + 1
        else:
            self._odd["in trouble" if result.status == TROUBLE else "not graded"] += 1
        self._odd["late"] += result.late

    def add(self, result):
        self._count(result)
        if self._bar is not None:
            self._bar.update()
            self._bar.set_postfix_str(self.so_far(), refresh=False)
            return
        what = f"{result.points:g} of {result.max_points} points" if result.status == GRADED else result.status
        line = f"[{self._n_done}/{self._n_all}] {printable(result.student)} {what}, {result.seconds:.1f} s"
        with contextlib.suppress(BrokenPipeError):  # who listened has gone; grading goes on
            print(line, file=sys.stderr, flush=True)

    def so_far(self):
        """The summary in a few words."""
        mean = f"mean {self._points / self._n_graded:.1f} points" if self._n_graded else "none graded yet"
        return ", ".join([mean, *(f"{n} {what}" for what, n in self._odd.items() if n)])

    def close(self):
        if self._bar is not None:
            self._bar.close()
