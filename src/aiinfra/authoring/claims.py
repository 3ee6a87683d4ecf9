"""Claims of the source documents, in our own words, each recomputed from the catalogue where it has a number.

The data lie outside the package, in `book/data`: claims.csv (one claim a row), documents.toml and mistakes.toml.
"""

import csv
import re
import tomllib
from dataclasses import dataclass, fields
from functools import partial

from aiinfra import (
    accelerators,
    collectives,
    flops,
    memory,
    models,
    precision,
    published,
    roofline,
    training_cost,
    utilization,
)
from aiinfra.tables import half_last_digit, sources
from aiinfra.units import UNITS, nearest

FILE = "claims.csv"
VERDICTS = {
    "exact": "the catalogue gives the same; a statement without a number is right",
    "rounds to": "the same within the digits printed, or within a tolerance that the row explains",
    "wrong": "the catalogue gives something else; a statement without a number is not so",
    "outdated": "was right, or could not be known, on its day",
    "opinion": "no number can settle it",
}


class ClaimError(ValueError):
    """A row that cannot be used; the message gives file, row and what was expected."""


@dataclass(frozen=True)
class Claim:
    """One row of claims.csv; every field is text as it stands there, but for `row`.

    id, chapter          our own name of the claim, and the chapter that teaches it
    subject              claims of one subject recompute to one value, whichever document makes them
    document             key of documents.toml
    claim, stated, unit  what the document says, the number as it prints it, and that number's unit
    expression           Python over `recompute`'s few names; empty where nothing can be recomputed
    verdict              one of VERDICTS
    within, reason       tolerance in `unit` of a "rounds to" that its digits do not explain, and why
    correct              the number that the catalogue gives, in `unit`
    mistake              key of mistakes.toml, of a wrong claim
    correction, notice, cost   what is right or worth adding, how to notice it, what it costs
    sources              keys of sources beyond those of the catalogue's own rows, separated by spaces
    """

    id: str
    chapter: str
    subject: str
    document: str
    claim: str
    stated: str
    unit: str
    expression: str
    verdict: str
    within: str
    reason: str
    correct: str
    mistake: str
    correction: str
    notice: str
    cost: str
    sources: str
    row: int


COLUMNS = tuple(field.name for field in fields(Claim) if field.name != "row")


def documents(root):
    """Every source document by key: title, author (empty where the copy names none), year and what it is."""
    return tomllib.loads((root / "book/data/documents.toml").read_text(encoding="utf-8"))


def mistakes(root):
    """Every kind of mistake by key: its title and the question that catches it."""
    return tomllib.loads((root / "book/data/mistakes.toml").read_text(encoding="utf-8"))


def read(root, text=None):
    """All claims under `root`, or ClaimError at the first row that cannot be used; `text` stands in for the file."""
    if text is None:
        text = (root / "book/data" / FILE).read_text(encoding="utf-8")
    reader = csv.DictReader(text.splitlines())
    if tuple(reader.fieldnames or ()) != COLUMNS:
        raise ClaimError(f"{FILE}: columns must be {', '.join(COLUMNS)}; got {reader.fieldnames}")
    known = {
        "document": documents(root), "verdict": VERDICTS, "unit": ("", *UNITS), "mistake": ("", *mistakes(root)),
    }  # fmt: skip
    claims: dict[str, Claim] = {}
    for row, entry in enumerate(reader, start=2):
        claim = _claim(f"{FILE}, row {row}", row, entry, known)
        if claim.id in claims:
            raise ClaimError(f"{FILE}, row {row}: id {claim.id!r} is already in row {claims[claim.id].row}")
        claims[claim.id] = claim
    return tuple(claims.values())


def _claim(place, row, entry, known):
    if None in entry or None in entry.values():
        raise ClaimError(f"{place}: expected {len(COLUMNS)} columns")
    claim = Claim(row=row, **entry)
    for column, names in known.items():
        if entry[column] not in names:
            hint = nearest(entry[column], [name for name in names if name])
            raise ClaimError(f"{place}: {column} {entry[column]!r} is not known; {hint}")
    for key in claim.sources.split():
        if key not in sources():
            raise ClaimError(f"{place}: source {key!r} is not known; {nearest(key, sources())}")
    required = ["id", "chapter", "claim"]
    required += ["stated", "unit"] if claim.expression else []
    required += ["mistake", "correction", "notice", "cost"] if claim.verdict == "wrong" else []
    required += ["correct"] if claim.expression and claim.verdict in ("wrong", "outdated", "opinion") else []
    required += ["reason"] if claim.within else []
    for column in required:
        if not entry[column]:
            raise ClaimError(f"{place}: {claim.id or 'a claim'} ({claim.verdict}) has no {column}")
    return claim


@dataclass(frozen=True)
class Recomputed:
    """What an expression gives, in the claim's unit, and the rows of the catalogue that it read."""

    value: float | bool | str | None
    numbers: tuple


def recompute(claim):
    """The claim's expression on today's catalogue, as `Recomputed`; ClaimError where it fails.

    An expression may use get(name), link(name), model(name) and ring_all_reduce_s of the package, its modules flops,
    memory, roofline, published, training_cost and utilization, every unit by its name, peak(name, dtype) and
    nvlink(name), which are None where there is none, and process_nm(name).
    """
    read_rows: dict = {}
    try:
        value = eval(claim.expression, _namespace(read_rows))
    except Exception as error:
        raise ClaimError(f"{FILE}, row {claim.row}, {claim.id}: {claim.expression}: {error}") from None
    if isinstance(value, float | int) and not isinstance(value, bool):
        value = value / UNITS[claim.unit][1]
    return Recomputed(value, tuple(read_rows))


@dataclass(frozen=True)
class _Read(accelerators.Accelerator):
    """An accelerator that notes which of its numbers were asked for."""

    notes: dict

    def number(self, quantity, *condition):
        found = super().number(quantity, *condition)
        self.notes[found] = None
        return found


def _namespace(notes):
    def get(name):
        return _Read(name, accelerators.get(name).numbers, notes)

    def link(name, n_links=1):
        notes.update((row, None) for row in accelerators.numbers() if row.item == name and row.used)
        return accelerators.link(name, n_links)

    def model(name):
        notes.update((row, None) for row in models.numbers() if row.item == name and row.used)
        return models.get(name)

    allowed = {name: factor for name, (_, factor) in UNITS.items() if name.isidentifier()}
    functions = {"len": len, "sorted": sorted, "all": all, "set": set, "names": accelerators.names}
    helpers = {helper.__name__.removeprefix("_"): partial(helper, get) for helper in (_peak, _nvlink, _process_nm)}
    own = {"get": get, "link": link, "model": model, "ring_all_reduce_s": collectives.ring_all_reduce_s}
    modules = {
        "flops": flops, "memory": memory, "roofline": roofline, "published": published,
        "training_cost": training_cost, "utilization": utilization,
    }  # fmt: skip
    return {"__builtins__": {}, **allowed, **functions, **helpers, **own, **modules}


def _peak(get, name, dtype, **conditions):
    """Dense peak of the matrix units in FLOP/s, or None where the accelerator has no such rate."""
    chip = get(name)
    return chip.matmul_flop_per_s(dtype, **conditions) if precision.get(dtype).name in chip.matmul_dtypes() else None


def _nvlink(get, name):
    """Bytes per second of all NVLinks of one accelerator, both directions, or None where it has none."""
    chip = get(name)
    return 2 * chip.link_bytes_per_s if chip.value("link").startswith("NVLink") else None


def _process_nm(get, name):
    """The nanometres in the name of a chip's process."""
    before, _, _ = get(name).value("process").partition(" nm")
    return float(re.sub(r".*\D", "", before))


def agreement(stated, value, within=""):
    """How `value` compares with what a document prints: "exact", "rounds to", "differs" or "words".

    A document prints a number, a range ("2 to 3"), yes, no, none or a name; "words" cannot be compared.

    >>> agreement("989", 989.4), agreement("312", 312.0), agreement("2 to 3", 3.17), agreement("none", None)
    ('rounds to', 'exact', 'rounds to', 'exact')
    >>> agreement("1300", 1307.4), agreement("1300", 1307.4, "50"), agreement("about the same", 0.44)
    ('differs', 'rounds to', 'words')
    """
    fixed = {"none": None, "yes": True, "no": False}
    if stated in fixed or value is None or isinstance(value, bool | str):
        return "exact" if value == fixed.get(stated, stated) and stated != "" else "differs"
    ends = stated.replace(",", "").split(" to ")
    if not all(re.fullmatch(r"\d+(\.\d+)?", end) for end in ends):
        return "words"
    low, high = float(ends[0]), float(ends[-1])
    if low * (1 - 1e-9) <= value <= high * (1 + 1e-9):
        return "exact"
    slack = max(half_last_digit(ends[0]), float(within or 0)) * (1 + 1e-9)
    return "rounds to" if low - slack <= value <= high + slack else "differs"


def problem(claim):
    """What is wrong with the claim's verdict, as a sentence, or None where the catalogue bears it out."""
    if not claim.expression:
        return None
    value = recompute(claim).value
    found = agreement(claim.stated, value, claim.within)
    said = f"{claim.id}: the document says {claim.stated}, the catalogue gives {value}"
    if claim.correct and agreement(claim.correct, value) not in ("exact", "rounds to"):
        return f"{said}, but the row's correct value is {claim.correct}"
    if found == "words":
        return None if claim.correct else f"{said}: words cannot be compared, so the row needs a correct value"
    if claim.verdict == "wrong":
        return None if found == "differs" else f"{said}: they agree, so it is not wrong"
    if claim.verdict in ("exact", "rounds to") and found != claim.verdict:
        return f"{said}: that is {found!r}, not {claim.verdict!r}"
    if claim.within and agreement(claim.stated, value) != "differs":
        return f"{said}: the digits explain it, so the row needs no tolerance"
    return None
