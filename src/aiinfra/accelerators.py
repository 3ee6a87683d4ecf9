"""Accelerators, links and nodes as their sources describe them, with conditions that must be asked for by name."""

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache

from aiinfra import measured, precision
from aiinfra.tables import read_numbers
from aiinfra.units import count, nearest, number

_UNASKED = {"per package", "measured"}  # conditions that need not be asked for: nothing else is meant without them
_MATMUL_DTYPES = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8")

# quantity of accelerators.csv -> dimension of its unit. An "SM" is what the vendor calls streaming multiprocessor,
# compute unit, TensorCore or core; a "matmul unit" is its tensor core, matrix core, MXU or matrix engine.
QUANTITIES = {
    **dict.fromkeys(("vendor", "architecture", "form_factor", "availability", "process", "memory_type"), "text"),
    **dict.fromkeys(("link", "host_link"), "text"),
    **{f"matmul_{dtype}": "flop_per_s" for dtype in _MATMUL_DTYPES},
    **dict.fromkeys(("vector_fp64", "vector_fp32", "vector_int8"), "flop_per_s"),
    "sm_count": "count",
    "matmul_units_per_sm": "count",
    **{f"matmul_fma_per_clock_{dtype}": "count" for dtype in _MATMUL_DTYPES},  # of one matmul unit, dense
    **dict.fromkeys(("vector_fma_per_clock_fp64", "vector_fma_per_clock_fp32"), "count"),  # of one SM
    "clock": "hz",
    **dict.fromkeys(("memory", "cpu_memory"), "bytes"),
    **dict.fromkeys(("memory_bandwidth", "link_bandwidth"), "bytes_per_s"),
    "memory_interface": "count",  # data pins of all stacks or chips together
    "memory_pin_rate": "bytes_per_s",  # of one of them
    "scale_bandwidth": "bytes_per_s",  # of a kernel that reads one array and writes another, measured
    **dict.fromkeys(("registers_per_sm", "l1_per_sm", "l2"), "bytes"),  # L1 with shared memory; L2 is all SMs' cache
    "l1_bytes_per_clock": "count",  # of one SM
    "l2_bandwidth": "bytes_per_s",
    **dict.fromkeys(("l1_latency", "l2_latency", "memory_latency"), "count"),  # in clocks of the SMs
    **dict.fromkeys(("launch", "graph_launch"), "s"),  # from one queued kernel to the next, and within a CUDA graph
    "n_links": "count",
    "release_year": "year",
    "die_area": "mm2",
    "transistors": "count",
    "power": "w",
    "price": "usd",
    "rent": "usd_per_h",
}

# quantity of links.csv -> dimension of its unit
LINK_QUANTITIES = {
    "family": "text",
    "release_year": "year",
    "bandwidth": "bytes_per_s",
    "lane_rate": "transfers_per_s",
    "n_lanes": "count",
    "coding_payload_bits": "count",
    "coding_total_bits": "count",
}

# quantity of nodes.csv -> dimension of its unit
NODE_QUANTITIES = {
    "accelerator": "text",
    "n_accelerators": "count",
    "network": "text",
    "n_network_links": "count",
    "cpu": "text",
    "host_memory": "bytes",
    "power": "w",
    "rent": "usd_per_h",
}


@dataclass(frozen=True)
class Accelerator:
    """One accelerator. Numbers are in base units; `numbers` holds every row behind them, with its source.

    A package of several dies that a program sees as several devices (MI250) is described per package; ask for
    "per die" to get one of them.
    """

    name: str
    numbers: tuple = field(repr=False)

    def number(self, quantity, *condition):
        """The `Number` used for `quantity` under exactly these conditions, or ValueError that lists what there is."""
        rows = [row for row in self.numbers if row.quantity == quantity and row.used]
        for row in rows:
            if set(row.condition) - _UNASKED == set(condition) - _UNASKED:
                return row
        asked = f"{quantity} ({', '.join(condition)})" if condition else quantity
        if not rows:
            there = f"its table has {', '.join(sorted({row.quantity for row in self.numbers}))}"
        else:
            there = "it is known " + " and ".join(f"({', '.join(row.condition) or 'no condition'})" for row in rows)
        raise ValueError(f"{self.name} has no {asked}; {there}")

    def value(self, quantity, *condition):
        """Value of `number(quantity, *condition)` in base units."""
        return self.number(quantity, *condition).value

    def has(self, quantity, *condition):
        """Whether the table has a used row for `quantity` under exactly these conditions."""
        try:
            self.number(quantity, *condition)
        except ValueError:
            return False
        return True

    def matmul_flop_per_s(self, dtype, *, sparse=False, accumulate=None):
        """Datasheet peak of the matrix units, in FLOP/s.

        Parameters
        ----------
        dtype : str             such as "bf16"; integer operations count as FLOP
        sparse : bool           the 2:4 structured-sparsity number, twice the dense one; say so to get it
        accumulate : str        width of the sum, such as "fp16"; fp32 (int32 for int8) unless you say so

        Where the source does not say the width of the sum, its number stands for the usual one.
        Raises ValueError where the accelerator has no such rate, listing the conditions under which it has one.
        """
        entry = precision.get(dtype)
        quantity, sparsity = f"matmul_{entry.name}", "sparse" if sparse else "dense"
        if accumulate is None and self.has(quantity, sparsity):
            return self.value(quantity, sparsity)
        return self.value(quantity, sparsity, f"{accumulate or entry.accumulate} accumulate")

    def matmul_dtypes(self):
        """Dtypes with a dense matmul rate at the usual accumulate width, widest first."""

        def known(dtype):
            rate = (f"matmul_{dtype.name}", "dense")
            return self.has(*rate) or self.has(*rate, f"{dtype.accumulate} accumulate")

        return tuple(name for name in precision.NAMES if known(precision.get(name)))

    def clock_hz(self, units="matmul units"):
        """Boost clock of the "matmul units" or "vector units"; most chips have one clock for both."""
        own = ("boost clock", units)
        return self.value("clock", *own) if self.has("clock", *own) else self.value("clock", "boost clock")

    def peak_from_clock_flop_per_s(self, dtype, *, accumulate=None, clock_hz=None):
        """Dense peak of the matrix units by construction: units x FMA per clock x 2 x clock, in FLOP/s.

        Datasheets agree with it to the last digit. Another `clock_hz` gives the most that a slower chip can do.

        >>> round(get("A100 80GB SXM").peak_from_clock_flop_per_s("bf16") / 1e12, 1)
        311.9
        """
        entry = precision.get(dtype)
        fma = self.value(f"matmul_fma_per_clock_{entry.name}", f"{accumulate or entry.accumulate} accumulate")
        n_units = self.value("sm_count") * self.value("matmul_units_per_sm")
        if clock_hz is None:
            own = "vector units" if entry.name == "fp64" else "matmul units"
            clock_hz = self.clock_hz(own)
        return peak_flop_per_s(n_units, 2 * fma, clock_hz)

    def vector_peak_from_clock_flop_per_s(self, dtype="fp32", *, clock_hz=None):
        """Peak of the ordinary (not matrix) units by construction, in FLOP/s.

        >>> round(get("H100 SXM").vector_peak_from_clock_flop_per_s() / 1e12, 1)
        66.9
        """
        fma = self.value(f"vector_fma_per_clock_{dtype}")
        return peak_flop_per_s(self.value("sm_count"), 2 * fma, clock_hz or self.clock_hz("vector units"))

    @property
    def memory_bytes(self):
        return self.value("memory")

    @property
    def memory_bytes_per_s(self):
        return self.value("memory_bandwidth")

    @property
    def power_w(self):
        return self.value("power")

    @property
    def link_bytes_per_s(self):
        """All links of one accelerator together, in one direction: half of the total that datasheets print."""
        if self.has("link_bandwidth", "one direction"):
            return self.value("link_bandwidth", "one direction")
        return self.value("link_bandwidth", "both directions") / 2


@dataclass(frozen=True)
class Link:
    """One link or port. `bytes_per_s` is one direction, after line coding, before protocol overhead."""

    name: str
    family: str
    bytes_per_s: float


@dataclass(frozen=True)
class Node:
    """A server: `n_accelerators` of one kind, and `n_network_links` of one kind to other servers."""

    name: str
    accelerator: str
    n_accelerators: int
    network: str
    n_network_links: int
    numbers: tuple = field(repr=False)

    @property
    def network_bytes_per_s(self):
        """All network links of the node together, in one direction.

        >>> node("DGX H100").network_bytes_per_s
        400000000000.0
        """
        return link(self.network, self.n_network_links).bytes_per_s


def peak_flop_per_s(n_units, flop_per_clock_per_unit, clock_hz):
    """FLOP/s of `n_units` that each finish `flop_per_clock_per_unit` in every clock: an upper bound, never reached.

    A fused multiply-add is two FLOP.

    >>> peak_flop_per_s(132 * 4, 2 * 512, 1.83e9)
    989429760000000.0
    """
    n_units = number("n_units", n_units)
    flop_per_clock_per_unit = number("flop_per_clock_per_unit", flop_per_clock_per_unit)
    return n_units * flop_per_clock_per_unit * number("clock_hz", clock_hz)


@cache
def _by_item(table, quantities, declared_by):
    rows = defaultdict(list)
    for row in read_numbers(table, dict(quantities), declared_by):
        rows[row.item].append(row)
    return {item: tuple(entries) for item, entries in rows.items()}


def _catalogue():
    return _by_item("accelerators.csv", tuple(QUANTITIES.items()), "vendor")


def _links():
    return _by_item("links.csv", tuple(LINK_QUANTITIES.items()), "family")


def _nodes():
    return _by_item("nodes.csv", tuple(NODE_QUANTITIES.items()), "accelerator")


def names():
    """Names of all accelerators, in the order of the table."""
    return tuple(_catalogue())


def get(name):
    """The `Accelerator` called `name`, or ValueError with the nearest known name. One that you have is given back.

    >>> get("H100 SXM").matmul_flop_per_s("bf16")
    989400000000000.0
    """
    if isinstance(name, Accelerator):
        return name
    if name not in _catalogue():
        raise ValueError(f"accelerator {name!r} is not known; {nearest(name, _catalogue())}")
    return Accelerator(name, _catalogue()[name])


def from_measurement(path_or_text):
    """The machine that `aiinfra measure` measured, as an `Accelerator`: its numbers are medians, under "measured".

    Give it to whatever takes the name of an accelerator. It knows what was measured and nothing else.

    Parameters
    ----------
    path_or_text : Path or str      the CSV file, or what it holds

    Raises ValueError (a `TableError`) with file, row and the nearest known name where the file can't be trusted.

    >>> from aiinfra.tables import data_text
    >>> from_measurement(data_text("measured/amd-epyc-2-threads.csv")).name
    'AMD EPYC (2 threads)'
    """
    numbers = tuple(measured.read(path_or_text, QUANTITIES))
    return Accelerator(numbers[0].item, numbers)


def link_names():
    """Names of all links, in the order of the table."""
    return tuple(_links())


def link(name, n_links=1):
    """`n_links` links called `name` used together, as one `Link`.

    A rate given by lanes is lanes x transfers x coding: a PCIe 4.0 lane makes 16 GT/s and sends 128 bits in 130.

    >>> round(link("PCIe 4.0 x16").bytes_per_s / 1e9, 2)
    31.51
    """
    if name not in _links():
        raise ValueError(f"link {name!r} is not known; {nearest(name, _links())}")
    n_links = count("n_links", n_links)
    values = {row.quantity: row.value for row in _links()[name] if row.used}
    if "bandwidth" in values:
        bytes_per_s = values["bandwidth"]
    else:
        coding = values["coding_payload_bits"] / values["coding_total_bits"]
        bytes_per_s = values["n_lanes"] * values["lane_rate"] / 8 * coding
    return Link(name if n_links == 1 else f"{n_links} x {name}", values["family"], n_links * bytes_per_s)


def node_names():
    """Names of all nodes, in the order of the table."""
    return tuple(_nodes())


def node(name):
    """The `Node` called `name`, or ValueError with the nearest known name."""
    if name not in _nodes():
        raise ValueError(f"node {name!r} is not known; {nearest(name, _nodes())}")
    used = {row.quantity: row.value for row in _nodes()[name] if row.used}
    return Node(
        name=name,
        accelerator=used["accelerator"],
        n_accelerators=int(used["n_accelerators"]),
        network=used["network"],
        n_network_links=int(used["n_network_links"]),
        numbers=_nodes()[name],
    )


def numbers():
    """Every row of the accelerator, link and node tables."""
    return tuple(row for table in (_catalogue(), _links(), _nodes()) for rows in table.values() for row in rows)
