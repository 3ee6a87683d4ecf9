"""The search for the matmul shape that a device multiplies fastest, in a bounded time.

A device cuts the output into tiles and works on as many at a time as it has units (multiprocessors, cores). A tile
that is cut short, and a last wave of tiles that does not fill all units, cost as much as full ones: over the size,
the rate is a staircase with a drop after each step. So the search steps by whole tiles, scales by simple ratios
(twice a whole number of waves is one again), and starts from shapes that fill whole waves, too.

Squares are the yardstick that everybody tries first. So squares stay squares under some of the steps, and the best of
them always come into the final, where the best shapes are timed in turns.
"""

import math
import statistics
import time
from collections import defaultdict
from typing import NamedTuple

COARSE_FRAC, REFINED_FRAC = 0.25, 0.65  # of the budget at which the grid ends, and at which refining does
SHAPE_FRAC = 0.02  # of the budget that one new shape may take; the final is to have many timings
SQUARE_FRAC = 0.08  # of the budget that one new square may take: where larger is better, one wants to know how far
PROMISING = 0.97  # a shape within this of the best is timed once more before it is believed or dropped
BEAM = 3  # shapes that are refined side by side, so that one lucky timing does not take all the time
FINALISTS = 6
SQUARE_FINALISTS = 2  # of these
_RATIOS = (2.0, 1.5, 1.25)  # steps up and down by these, coarse to fine, and then by whole tiles
_TILE_STEPS = (4, 2, 1)
N_LEVELS = len(_RATIOS) + len(_TILE_STEPS)


class Shape(NamedTuple):
    """(m, k) times (k, n)."""

    m: int
    n: int
    k: int

    @property
    def flop(self):
        """An output takes k multiplications and k additions."""
        return 2 * self.m * self.n * self.k


class Found(NamedTuple):
    """The winning shape, the seconds of its product in each timing that counts, and how the search went.

    Timings count that were made after the shape had been chosen for the final, so that a lucky one among hundreds
    of shapes is not reported as the rate. A search that was interrupted earlier reports what it has.
    """

    shape: Shape
    seconds: tuple[float, ...]
    n_shapes: int
    interrupted: bool


class OutOfTime(Exception):
    """The time of a phase is used up."""


def squares(tile):
    """Shapes to begin with, small to large: squares of 2, 3, 4, 6, 8, 12, ... tiles."""
    for exponent in range(1, 10):
        for size in (2**exponent * tile, 3 * 2 ** (exponent - 1) * tile):
            yield Shape(size, size, size)


def whole_waves(shape, tile, n_units):
    """Shapes like `shape`, a little smaller and a little larger, whose tiles fill waves of `n_units` exactly.

    A tile of the output is `tile` high and twice as wide, as those of GPUs often are; square ones fill whole waves,
    too, then.

    >>> [(*shape, shape.m // 128 * (shape.n // 256) / 132) for shape in whole_waves(Shape(4096, 4096, 4096), 128, 132)]
    [(4224, 3072, 4096, 3.0), (4224, 4096, 4096, 4.0)]
    """
    waves = shape.m * shape.n / (2 * tile * tile) / n_units
    for n_tiles in sorted({max(1, math.floor(waves)) * n_units, math.ceil(waves) * n_units}):
        divisors = [columns for columns in range(1, n_tiles + 1) if n_tiles % columns == 0]
        columns = min(divisors, key=lambda columns: abs(math.log(2 * columns**2 / n_tiles)))
        yield Shape(n_tiles // columns * tile, columns * 2 * tile, shape.k)


def moves(shape, tile, level):
    """Neighbours of `shape`: each of its sizes, then all, changed by a ratio, on finer levels by some tiles."""
    if level < len(_RATIOS):
        ratio = _RATIOS[level]
        changes = (lambda size: size * ratio, lambda size: size / ratio)
    else:
        step = _TILE_STEPS[level - len(_RATIOS)] * tile
        changes = (lambda size: size + step, lambda size: size - step)
    axes = [(axis,) for axis in Shape._fields] + [Shape._fields]
    return [_with(shape, names, change, tile) for names in axes for change in changes]


def _with(shape, axes, change, tile):
    sizes = {axis: change(getattr(shape, axis)) for axis in axes}
    return shape._replace(**{axis: max(1, round(size / tile)) * tile for axis, size in sizes.items()})


def is_square(shape):
    return len(set(shape)) == 1


class Search:
    """One search: what has been timed, and the time left.

    Parameters
    ----------
    seconds_of : function       Shape -> seconds of one product, one timing; called again for another
    tile : int                  sizes are multiples of it
    n_units : int               tiles that are worked on at once
    budget_s : float            the search ends at it, but always times one shape
    fits : function             Shape -> whether memory holds its operands; all fit unless given
    clock : function            the time in seconds
    progress : function         called with (best Shape, its FLOP/s, seconds left) after each timing
    """

    def __init__(self, seconds_of, tile, n_units, budget_s, fits=None, clock=time.perf_counter, progress=None):
        self.seconds_of, self.tile, self.n_units, self.budget_s = seconds_of, tile, n_units, budget_s
        self.fits = fits or (lambda shape: True)
        self.clock, self.progress = clock, progress or (lambda *_: None)
        self.start = clock()
        self.timings: dict[Shape, list[float]] = defaultdict(list)
        self.final: dict[Shape, list[float]] = defaultdict(list)
        self.finalists: list[Shape] = []

    def run(self):
        """Search until the budget is spent, or until Ctrl+C once a shape has been timed: a `Found`."""
        interrupted = False
        try:
            for phase, frac in ((self._coarse, COARSE_FRAC), (self._refine, REFINED_FRAC), (self._decide, 1.0)):
                self.phase_end_s = self.start + frac * self.budget_s
                try:
                    phase()
                except OutOfTime:
                    continue
        except KeyboardInterrupt:
            if not self.timings:
                raise
            interrupted = True
        finalists = [shape for shape in self.finalists if shape in self.final]
        if not finalists:
            return Found(self.best, tuple(self.timings[self.best]), len(self.timings), interrupted)
        winner = max(finalists, key=self._final_rate)
        return Found(winner, tuple(self.final[winner]), len(self.timings), interrupted)

    def rate(self, shape):
        """Best rate of `shape` in the search, in FLOP/s; disturbances only ever lower it."""
        return shape.flop / min(self.timings[shape])

    @property
    def best(self):
        """The shape with the best rate so far, of all that were timed."""
        return max(self.timings, key=self.rate)

    def _coarse(self):
        """Squares while larger ones are better and fit the time, then shapes like the best that fill whole waves."""
        worse = 0
        for shape in squares(self.tile):
            worse = 0 if self._try(shape) and shape == self.best else worse + 1
            if worse == 3:
                break
        for base in self._ranked()[:BEAM]:
            for shape in whole_waves(base, self.tile, self.n_units):
                self._try(shape)

    def _refine(self):
        """Time the neighbours of the best shapes, all coarse steps before finer ones; what is better is next."""
        levels_done: dict[Shape, int] = defaultdict(int)
        while True:
            unfinished = [shape for shape in self._ranked() if levels_done[shape] < N_LEVELS]
            if not unfinished:
                return
            shape = min(unfinished[:BEAM], key=levels_done.__getitem__)
            level = levels_done[shape]
            levels_done[shape] += 1
            for neighbour in moves(shape, self.tile, level):
                self._try(neighbour)

    def _ranked(self):
        return sorted(self.timings, key=self.rate, reverse=True)

    def _try(self, shape):
        """Time a shape that is new, and again where it is promising; False where it isn't new or can't be timed."""
        if shape in self.timings or not self.fits(shape):
            return False
        if self.timings:
            self._check_time(self.phase_end_s)
            frac = SQUARE_FRAC if is_square(shape) else SHAPE_FRAC
            if 2 * shape.flop / self.rate(self.best) > frac * self.budget_s:  # it is multiplied once to warm up
                return False
        self._time(shape, self.timings)
        if self.rate(shape) > PROMISING * self.rate(self.best):
            self._check_time(self.phase_end_s)
            self._time(shape, self.timings)
        return True

    def _decide(self):
        """Time the best shapes in turns, so that what disturbs one disturbs all, and drop the worst as time passes."""
        self.finalists = self._choose_finalists()
        begin_s, total_s = self.clock(), max(1e-9, self.phase_end_s - self.clock())
        while True:
            for shape in self.finalists:
                if self.final:
                    self._check_time(self.phase_end_s - min(self.timings[shape]))
                self._time(shape, self.final)
            left_frac = 1 - (self.clock() - begin_s) / total_s
            self.finalists.sort(key=self._final_rate, reverse=True)
            del self.finalists[max(2, math.ceil(FINALISTS * left_frac)) :]

    def _choose_finalists(self):
        """The best shapes, of which some are squares whatever their rank."""
        ranked = self._ranked()
        best_squares = [shape for shape in ranked if is_square(shape)][:SQUARE_FINALISTS]
        others = [shape for shape in ranked if shape not in best_squares]
        return sorted(best_squares + others[: FINALISTS - len(best_squares)], key=self.rate, reverse=True)

    def _final_rate(self, shape):
        return shape.flop / statistics.median(self.final[shape])

    def _time(self, shape, timings):
        seconds = self.seconds_of(shape)  # may be interrupted
        timings[shape].append(seconds)
        self.progress(self.best, self.rate(self.best), max(0.0, self.start + self.budget_s - self.clock()))

    def _check_time(self, end_s):
        if self.clock() >= end_s:
            raise OutOfTime
