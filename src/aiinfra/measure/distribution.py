"""Repeated measurements of one rate: what is reported of them."""

import statistics
from dataclasses import dataclass

from aiinfra.units import count


@dataclass(frozen=True)
class Distribution:
    """Rates in base units, in the order measured. Disturbances only ever lower a rate, so the tail is on that side."""

    values: tuple[float, ...]

    def __post_init__(self):
        count("len(values)", len(self.values))

    @property
    def median(self):
        """What to plan with."""
        return statistics.median(self.values)

    @property
    def best(self):
        """What the machine can do when nothing disturbs it."""
        return max(self.values)

    @property
    def quartiles(self):
        """(lower, upper): half of the measurements lie between them."""
        if len(self.values) == 1:
            return self.values * 2
        lower, _, upper = statistics.quantiles(self.values, n=4, method="inclusive")
        return lower, upper

    def statistics(self):
        """Name -> rate, as a file of measurements has them."""
        lower, upper = self.quartiles
        return {"lower quartile": lower, "median": self.median, "upper quartile": upper, "best": self.best}

    def line(self, formatted):
        """One line of text; `formatted` turns a rate into text."""
        lower, upper = self.quartiles
        return (
            f"{formatted(self.median)} median, half of them {formatted(lower)} to {formatted(upper)}, "
            f"{formatted(self.best)} best of {len(self.values)}"
        )
