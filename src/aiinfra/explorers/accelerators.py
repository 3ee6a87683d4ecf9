"""Explorers of the chapter `accelerators`."""

import math

from aiinfra import accelerators, charts, collectives, models, precision
from aiinfra.explorers import figure
from aiinfra.units import format_bytes, format_bytes_per_s, format_count, format_flop_per_s, format_s

# Compare accelerators ---------------------------------------------------------------------------------------------

# what a reader can compare -> (value of a chip and its matmul rate, unit on the axis, factor to it, what it rests on)
METRICS = {
    "Peak of the matrix units": (lambda chip, rate: rate, "TFLOP/s", 1e12, ()),
    "Peak per watt": (lambda chip, rate: rate / chip.power_w, "TFLOP/s per W", 1e12, ("power",)),
    "Peak per byte of memory traffic": (
        lambda chip, rate: rate / chip.memory_bytes_per_s,
        "FLOP per byte",
        1.0,
        ("memory_bandwidth",),
    ),
    "Memory bandwidth": (lambda chip, rate: chip.memory_bytes_per_s, "GB/s", 1e9, ("memory_bandwidth",)),
    "Memory": (lambda chip, rate: chip.memory_bytes, "GB", 1e9, ("memory",)),
}
_SHOWN = 16  # bars at most


def compare_view(metric, dtype, sparsity, accumulate):
    """Accelerators side by side under one condition, the same for all."""
    value_of, unit, factor, rests_on = METRICS[metric]
    found = []
    for name in accelerators.names():
        chip = accelerators.get(name)
        if not _is_verified(chip, (f"matmul_{dtype}", *rests_on)):
            continue
        try:
            rate = chip.matmul_flop_per_s(dtype, sparse=sparsity == "2:4 sparse", accumulate=_width(accumulate))
            found.append((value_of(chip, rate) / factor, name))
        except ValueError:  # no such unit, or no such number published
            continue
    found.sort(reverse=True)
    rows = [{"name": name, "value": value} for value, name in found[:_SHOWN]]
    drawn = _compare_chart(rows, f"{metric.lower()} ({unit})")
    condition = f"{dtype}, {sparsity}, {'usual' if accumulate == 'usual width' else 'fp16'} accumulate"
    if not found:
        return figure.View(drawn, f"No accelerator of the catalogue has a rate for {condition}.")
    value, best = found[0]
    missing = len(accelerators.names()) - len(found)
    says = (
        f"{metric} ({condition}): the {best} leads with {figure.value(f'{value:,.4g} {unit}', value)}. "
        f"{missing} of {len(accelerators.names())} entries have no such unit, or no number that could be verified."
    )
    return figure.View(drawn, says)


def _is_verified(chip, quantities):
    """Whether no number that is used for `quantities` is unverified: such a number may be shown, never compared."""
    used = [row for row in chip.numbers if row.used and row.quantity in quantities]
    return all(row.status != "unverified" for row in used)


def _width(accumulate):
    return None if accumulate == "usual width" else "fp16"


def _compare_chart(rows, x_title):
    y = charts.axis("name", None, "nominal", sort="-x", axis={"labelLimit": 170})
    room_for_labels = 1.15 * max((row["value"] for row in rows), default=1.0)
    x = charts.axis("value", x_title, scale={"domain": [0, room_for_labels], "nice": False})
    title = "Accelerators under one condition (datasheet values)"
    return charts.labelled_bars(title, rows, x, y, {"value": charts.COLOURS[0]}, ",.4~g", step=22)


def compare():
    """Live figure: every accelerator by any number format and condition."""
    return figure.figure(
        compare_view,
        metric=figure.dropdown("Compare by", METRICS),
        dtype=figure.dropdown("Number format", precision.NAMES, "bf16"),
        sparsity=figure.radio("Weights", ("dense", "2:4 sparse")),
        accumulate=figure.radio("Sums in", ("usual width", "fp16")),
    )


# From clock to peak -----------------------------------------------------------------------------------------------

CLOCKED = ("V100 SXM2", "A100 80GB SXM", "H100 SXM", "L40S", "RTX 3090", "RTX 4090", "MI300X")


def clock_view(accelerator, dtype, clock_ghz):
    """What the units of one accelerator can do at a clock, beside what the datasheet prints at its own."""
    chip = accelerators.get(accelerator)
    if dtype not in chip.matmul_dtypes():
        return figure.View(_clock_chart([]), f"The {accelerator} has no matrix units for {dtype}.")
    peak = chip.peak_from_clock_flop_per_s(dtype, clock_hz=clock_ghz * 1e9)
    printed = chip.matmul_flop_per_s(dtype)
    boost_hz = chip.clock_hz()
    rows = [
        {
            "series": "units x clock",
            "ghz": ghz,
            "tflops": chip.peak_from_clock_flop_per_s(dtype, clock_hz=ghz * 1e9) / 1e12,
        }
        for ghz in (0.0, 2.6)
    ]
    rows.append({"series": "chosen clock", "ghz": clock_ghz, "tflops": peak / 1e12})
    rows.append({"series": "datasheet, boost clock", "ghz": boost_hz / 1e9, "tflops": printed / 1e12})
    n_units = int(chip.value("sm_count") * chip.value("matmul_units_per_sm"))
    fma = int(chip.value(f"matmul_fma_per_clock_{dtype}", f"{precision.get(dtype).accumulate} accumulate"))
    says = (
        f"{n_units} matrix units x {fma} multiply-adds x 2 FLOP x {clock_ghz:.2f} GHz = "
        f"{figure.value(format_flop_per_s(peak), peak)}. The datasheet prints {format_flop_per_s(printed)}, at "
        f"{boost_hz / 1e9:.3g} GHz: at the chosen clock the chip has {peak / printed:.0%} of it."
    )
    return figure.View(_clock_chart(rows), says)


def _clock_chart(rows):
    names = ("units x clock", "chosen clock", "datasheet, boost clock")
    x = charts.axis("ghz", "clock (GHz)", scale={"domain": [0, 2.6]})
    y = charts.axis("tflops", "dense peak (TFLOP/s)")
    colour = {
        "field": "series",
        "type": "nominal",
        "title": None,
        "scale": {"domain": names, "range": list(charts.COLOURS[:3])},
    }
    shape = {
        "field": "series",
        "type": "nominal",
        "title": None,
        "scale": {"domain": names, "range": ["stroke", "circle", "diamond"]},
    }
    line = {"mark": {"type": "line", "strokeWidth": 2.5}, "transform": [{"filter": f"datum.series == '{names[0]}'"}]}
    point = {"mark": {"type": "point", "filled": True, "size": 140, "opacity": 1},
             "transform": [{"filter": f"datum.series != '{names[0]}'"}]}  # fmt: skip
    return charts.chart(
        "Peak is units times clock",
        rows,
        [
            {**line, "encoding": {"x": x, "y": y, "color": colour}},
            {**point, "encoding": {"x": x, "y": y, "color": colour, "shape": shape}},
        ],
    )


def clock():
    """Live figure: from units and clock to the datasheet's peak."""
    return figure.figure(
        clock_view,
        accelerator=figure.dropdown("Accelerator", CLOCKED, "H100 SXM"),
        dtype=figure.dropdown("Number format", ("fp16", "bf16", "tf32", "fp8", "int8"), "fp16"),
        clock_ghz=figure.float_slider("Clock (GHz)", 0.2, 2.6, 1.4, 0.01),
    )


# What a footnote does to a purchase -------------------------------------------------------------------------------

# a footnote overlooked -> (accelerator, dense rate with fp32 sums of what a program sees, the number as misread)
FOOTNOTES = {
    "Sparse read as dense (H100 SXM)": (
        "H100 SXM",
        lambda chip: chip.matmul_flop_per_s("bf16"),
        lambda chip: chip.matmul_flop_per_s("bf16", sparse=True),
    ),
    "FP16 sums read as FP32 sums (RTX 4090)": (
        "RTX 4090",
        lambda chip: chip.matmul_flop_per_s("fp16"),
        lambda chip: chip.matmul_flop_per_s("fp16", accumulate="fp16"),
    ),
    "Sparse INT8 read as FP16 (RTX 4090)": (
        "RTX 4090",
        lambda chip: chip.matmul_flop_per_s("fp16"),
        lambda chip: chip.matmul_flop_per_s("int8", sparse=True),
    ),
    "SXM rate read for a PCIe card (H100 PCIe)": (
        "H100 PCIe",
        lambda chip: chip.matmul_flop_per_s("bf16"),
        lambda chip: accelerators.get("H100 SXM").matmul_flop_per_s("bf16"),
    ),
    "Package read as one device (MI250)": (
        "MI250",
        lambda chip: chip.value("matmul_bf16", "dense", "fp32 accumulate", "per die"),
        lambda chip: chip.matmul_flop_per_s("bf16"),
    ),
}


def footnote_view(footnote, wanted_pflops):
    """How many accelerators a plan buys for a dense rate, and how many it needs."""
    name, right, misread = FOOTNOTES[footnote]
    chip = accelerators.get(name)
    right_rate, misread_rate = right(chip), misread(chip)
    planned, needed = (math.ceil(wanted_pflops * 1e15 / rate) for rate in (misread_rate, right_rate))
    rows = [{"what": "planned", "count": planned}, {"what": "needed", "count": needed}]
    says = (
        f"Misread, one {name} has {format_flop_per_s(misread_rate)}; it has {format_flop_per_s(right_rate)}. "
        f"For {wanted_pflops:.3g} PFLOP/s the plan buys {planned:,} and needs {figure.value(f'{needed:,}', needed)}, "
        f"{misread_rate / right_rate:.2f} times the rate it pays for.{_price(chip, needed - planned)}"
    )
    return figure.View(_footnote_chart(rows), says)


def _price(chip, n):
    """What `n` accelerators more cost, where the catalogue has a price that was verified."""
    prices = [row for row in chip.numbers if row.quantity == "price" and row.used and row.status != "unverified"]
    if not prices or not n:
        return ""
    latest = max(prices, key=lambda row: row.condition[-1])
    missing = format_count(n * latest.value)
    return f" At {latest.value:,.0f} USD each ({', '.join(latest.condition)}) that is {missing} USD missing."


def _footnote_chart(rows):
    y = charts.axis("what", None, "nominal", sort=["planned", "needed"], axis={"labelFontSize": 14})
    x = charts.axis("count", "accelerators", scale={"domain": [0, 1.15 * rows[1]["count"]], "nice": False})
    colour = charts.axis("what", None, "nominal", scale={"range": list(charts.COLOURS[1::-1])}, legend=None)
    return charts.labelled_bars("Accelerators that a plan buys, and that it needs", rows, x, y, colour, ",", step=60)


def footnote():
    """Live figure: what one overlooked footnote does to a purchase."""
    return figure.figure(
        footnote_view,
        footnote=figure.dropdown("Footnote overlooked", FOOTNOTES),
        wanted_pflops=figure.log_slider("Wanted: dense PFLOP/s", 0, 4, 100.0),
    )


# Generations ------------------------------------------------------------------------------------------------------

DATA_CENTRE = ("V100 SXM2", "A100 80GB SXM", "H100 SXM", "B200 SXM")
GEFORCE = ("RTX 2080 Ti", "RTX 3090", "RTX 4090", "RTX 5090")
GENERATION_METRICS = {
    "FP16 peak, dense, FP32 sums": (lambda chip: chip.matmul_flop_per_s("fp16"), "TFLOP/s", 1e12),
    "Memory bandwidth": (lambda chip: chip.memory_bytes_per_s, "GB/s", 1e9),
    "Memory": (lambda chip: chip.memory_bytes, "GB", 1e9),
    "Power": (lambda chip: chip.power_w, "W", 1.0),
    "FP16 peak per watt": (lambda chip: chip.matmul_flop_per_s("fp16") / chip.power_w, "TFLOP/s per W", 1e12),
    "FLOP per byte of memory traffic": (
        lambda chip: chip.matmul_flop_per_s("fp16") / chip.memory_bytes_per_s,
        "FLOP per byte",
        1.0,
    ),
}
_FAMILIES = ("data centre", "GeForce")


def generations_view(metric):
    """One quantity over the generations, data centre and GeForce."""
    value_of, unit, factor = GENERATION_METRICS[metric]
    rows = [
        {"series": family, "name": name, "year": int(chip.value("release_year")), "value": value_of(chip) / factor}
        for family, names in zip(_FAMILIES, (DATA_CENTRE, GEFORCE), strict=True)
        for name, chip in ((name, accelerators.get(name)) for name in names)
    ]
    first, last = rows[0], rows[len(DATA_CENTRE) - 1]
    growth, years = last["value"] / first["value"], last["year"] - first["year"]
    says = (
        f"{metric}: from the {first['name']} ({first['year']}, {first['value']:,.4g} {unit}) to the {last['name']} "
        f"({last['year']}, {last['value']:,.4g} {unit}) it grew {figure.value(f'{growth:.3g} times', growth)}, "
        f"doubling every {years / math.log2(growth):.1f} years."
    )
    return figure.View(_generations_chart(rows, f"{metric} ({unit})"), says)


def _generations_chart(rows, title):
    x = charts.axis("year", "year of release", scale={"domain": [2016.2, 2026]}, axis={"format": "d", "tickCount": 6})
    y = charts.axis("value", title, scale={"type": "log"}, axis={"labelOverlap": True, "tickCount": 5})
    series = charts.by_series(_FAMILIES)
    text = {"mark": {"type": "text", "align": "center", "dy": -12}}
    return charts.chart(
        "Generations (datasheet values)",
        rows,
        [
            {
                "mark": {"type": "line", "strokeWidth": 2.5, "point": {"size": 70}},
                "encoding": {"x": x, "y": y, **series},
            },
            {**text, "encoding": {"x": x, "y": y, "text": charts.axis("name", None, "nominal")}},
        ],
    )


def generations():
    """Live figure: eight years of generations by one quantity."""
    return figure.figure(generations_view, metric=figure.dropdown("Show", GENERATION_METRICS))


# One all-reduce ---------------------------------------------------------------------------------------------------

# what a reader can choose -> link and how many of it one accelerator has
LINKS = {
    "NVLink 4 (H100 SXM)": ("NVLink 4", 18),
    "NVLink 3 (A100 SXM)": ("NVLink 3", 12),
    "PCIe 5.0 x16": ("PCIe 5.0 x16", 1),
    "PCIe 4.0 x16 (RTX 4090)": ("PCIe 4.0 x16", 1),
}
ALL_REDUCE_MODELS = ("Llama 3.2 1B", "Llama 2 7B", "Llama 2 13B", "Llama 3 70B", "GPT-3 175B")
_SERIES = ("one direction (right)", "both directions (misread)")


def all_reduce_view(model, dtype, link, n_ranks, alpha_us, misread):
    """How long one ring all-reduce of all gradients takes, against the number of ranks."""
    message_bytes = models.get(model).n_parameters * precision.get(dtype).bytes
    one_way = accelerators.link(*LINKS[link]).bytes_per_s
    alpha_s = alpha_us * 1e-6

    def row(series, n, bytes_per_s):
        seconds = collectives.ring_all_reduce_s(message_bytes, n, bytes_per_s, alpha_s)
        return {"series": series, "n_ranks": n, "ms": seconds * 1e3, "chosen": n == n_ranks}

    rates = {_SERIES[0]: one_way, **({_SERIES[1]: 2 * one_way} if misread else {})}
    counts = sorted({2, 3, 4, 6, *range(8, 65, 4), n_ranks})
    rows = [row(series, n, rate) for series, rate in rates.items() for n in counts]

    seconds = collectives.ring_all_reduce_s(message_bytes, n_ranks, one_way, alpha_s)
    promised = collectives.ring_all_reduce_s(message_bytes, n_ranks, 2 * one_way, alpha_s)
    says = (
        f"Adding up the {dtype} gradients of {model} ({format_bytes(message_bytes)}) over {n_ranks} ranks takes "
        f"{figure.value(format_s(seconds), seconds)} at {format_bytes_per_s(one_way)} in one direction."
    )
    if misread:
        says += (
            f" Reading the datasheet's {format_bytes_per_s(2 * one_way)} as one direction promises "
            f"{figure.value(format_s(promised), promised)}: {seconds / promised:.2f} times too good."
        )
    return figure.View(_all_reduce_chart(rows), says)


def _all_reduce_chart(rows):
    x = charts.axis("n_ranks", "ranks in the ring")
    y = charts.axis("ms", "time of one all-reduce (ms)", scale={"zero": True})
    series = charts.by_series(_SERIES)
    tooltip = [charts.axis("series", "link read as", "nominal"), x, {**y, "format": ".4g"}]
    return charts.chart(
        "Time of a ring all-reduce against the number of ranks (modelled)",
        rows,
        [
            {"mark": {"type": "line", "strokeWidth": 2.5}, "encoding": {"x": x, "y": y, **series}},
            charts.chosen_point(x, y, series["color"], tooltip),
        ],
    )


def all_reduce():
    """Live figure: one all-reduce by model, number format, link, ranks and latency."""
    return figure.figure(
        all_reduce_view,
        model=figure.dropdown("Model", ALL_REDUCE_MODELS, "Llama 2 7B"),
        dtype=figure.radio("Gradients in", ("bf16", "fp32")),
        link=figure.dropdown("Link", LINKS),
        n_ranks=figure.slider("Ranks", 2, 64, 8),
        alpha_us=figure.log_slider("Latency of a step (µs)", -1, 3, 5.0),
        misread=figure.checkbox("Also show the link misread"),
    )
