"""AI infrastructure: checked numbers, formulas, live figures and gradable labs.

Layers, each importing only those below it: units, tables, then accelerators, models and precision,
then formulas, then what readers see. Everything outside `measure`, `grading`, `authoring` and `cli`
is standard library only, so that it runs in the reader's browser.
"""

__version__ = "0.1.0"
