"""Explorers of the chapter `mfu`."""

from aiinfra import accelerators, charts, flops, models, roofline, training_cost, utilization
from aiinfra.explorers import figure
from aiinfra.units import format_count, format_flop_per_s, format_s

# The quantization staircase ---------------------------------------------------------------------------------------

STAIRCASE_CHIPS = ("A100 80GB SXM", "H100 SXM", "H100 PCIe", "B200 SXM", "RTX 4090", "RTX 3090", "V100 SXM2")
TILES = {"256 x 128": (256, 128), "128 x 128": (128, 128), "128 x 64": (128, 64), "64 x 64": (64, 64)}
_STAIRS = ("whole tiles only", "whole tiles and whole waves")
_STAIRS_STEP, _STAIRS_END = 64, 8192


def staircase_view(accelerator, tile, m, n):
    """Share of a product's time that computes something wanted, against the number of its columns."""
    chip = accelerators.get(accelerator)
    n_sms, (tile_m, tile_n) = int(chip.value("sm_count")), TILES[tile]

    def share(series, columns):
        if series == _STAIRS[0]:
            return roofline.tile_efficiency(m, columns, tile_m, tile_n)
        return roofline.wave_efficiency(m, columns, tile_m, tile_n, n_sms)

    columns = sorted({*range(_STAIRS_STEP, _STAIRS_END + 1, _STAIRS_STEP), n})
    rows = [
        {"series": series, "n": column, "percent": 100 * share(series, column), "chosen": column == n}
        for series in _STAIRS
        for column in columns
    ]
    useful = share(_STAIRS[1], n)
    n_tiles = roofline.n_tiles(m, n, tile_m, tile_n)
    peak = chip.matmul_flop_per_s("fp16")
    says = (
        f"{m:,} x {n:,} is cut into {n_tiles:,} tiles of {tile}: {n_tiles / n_sms:.2f} waves on the {n_sms} SMs of "
        f"the {accelerator}, which take the time of {-(-n_tiles // n_sms)}. "
        f"{figure.value(f'{useful:.1%}', useful)} of that time is useful, so this product has at most "
        f"{format_flop_per_s(useful * peak)} of {format_flop_per_s(peak)}."
    )
    return figure.View(_staircase_chart(rows), says)


def _staircase_chart(rows):
    x = charts.axis("n", "columns n of the product", scale={"domain": [0, _STAIRS_END]})
    y = charts.axis("percent", "useful share (%)", scale={"domain": [0, 100]})
    series = charts.by_series(_STAIRS)
    tooltip = [charts.axis("series", "counts", "nominal"), x, {**y, "format": ".3g"}]
    point = charts.chosen_point(x, y, series["color"], tooltip)
    line = {"mark": {"type": "line", "strokeWidth": 2}, "encoding": {"x": x, "y": y, **series}}
    return charts.chart("Tile and wave quantization: one more column can cost a wave (modelled)", rows, [line, point])


def staircase():
    """Live figure: the staircase by accelerator, tile and shape."""
    return figure.figure(
        staircase_view,
        accelerator=figure.dropdown("Accelerator", STAIRCASE_CHIPS, "H100 SXM"),
        tile=figure.dropdown("Tile of one block", TILES),
        m=figure.slider("Rows m", 256, 8192, 4096, 256),
        n=figure.slider("Columns n", _STAIRS_STEP, _STAIRS_END, 4352, _STAIRS_STEP),
    )


def _as_shown(n_accelerators):
    """A whole number of accelerators, as the slider prints it: to three digits."""
    return round(float(f"{n_accelerators:.3g}"))


# One run, many utilizations ---------------------------------------------------------------------------------------

RUN_MODELS = ("Llama 2 7B", "Llama 2 70B", "Llama 3 8B", "Llama 3.1 405B", "Mixtral 8x7B", "DeepSeek-V3", "PaLM 540B")
RUN_CHIPS = ("A100 80GB SXM", "H100 SXM", "B200 SXM", "RTX 4090", "MI250", "TPU v4")
_RIGHT = "MFU as in this book"


def same_run_view(model, seq_len, accelerator, n_accelerators, tokens_per_s):
    """One run's speed, and the utilizations that it has under the conventions in use and the mistakes in use."""
    shape, chip, n = models.get(model), accelerators.get(accelerator), _as_shown(n_accelerators)
    seq_len = int(seq_len)
    peak = chip.matmul_flop_per_s("bf16")
    flop = flops.training_flop_per_token(shape, seq_len)
    rate = flop * tokens_per_s / n
    bars = {
        _RIGHT: (flop, peak),
        "6 N only": (flops.approximate_training_flop(shape.n_active_parameters, 1), peak),
        "causal half of attention": (flops.training_flop_per_token(shape, seq_len, causal=True), peak),
        "HFU, all recomputed": (flops.hardware_flop_per_token(shape, seq_len, recomputation="full"), peak),
        **{f"peak: {name}": (flop, other) for name, other in _other_peaks(chip, peak).items()},
    }
    if shape.n_experts:
        bars["6 N, sleeping experts too"] = (flops.approximate_training_flop(shape.n_parameters, 1), peak)
    rows = [
        {"what": what, "percent": 100 * flop_per_token * tokens_per_s / n / divisor, "right": what == _RIGHT}
        for what, (flop_per_token, divisor) in bars.items()
    ]
    says = (
        f"{format_count(tokens_per_s)} tokens/s of {model}, {format_count(flop)} FLOP each with {seq_len:,} tokens a "
        f"sequence, are {format_flop_per_s(rate)} on each of {n:,}: "
    )
    try:
        share = utilization.mfu(flop * tokens_per_s, 1.0, peak, n, accelerator=chip)
        percents = [row["percent"] for row in rows]
        says += (
            f"an MFU of {figure.value(f'{share:.1%}', share)} as this book counts. "
            f"The same run can be printed as anything from {min(percents):.1f} to {max(percents):.1f} %."
        )
    except ValueError as error:
        says += f"<strong>{error}</strong>."
    return figure.View(_same_run_chart(rows), says)


def _other_peaks(chip, peak):
    """Other numbers of the same datasheet that are taken for the peak, by name."""
    found = {}
    for name, conditions in (("2:4 sparse", {"sparse": True}), ("FP16 sums", {"accumulate": "fp16"})):
        try:
            found[name] = chip.matmul_flop_per_s("fp16", **conditions)
        except ValueError:  # the chip has no such rate
            continue
    if chip.name == "MI250":
        found["one die of two"] = chip.value("matmul_bf16", "dense", "fp32 accumulate", "per die")
    return {name: rate for name, rate in found.items() if rate != peak}


def _same_run_chart(rows):
    room = 1.15 * max(row["percent"] for row in rows)
    y = charts.axis("what", None, "nominal", sort=None, axis={"labelLimit": 200})
    x = charts.axis("percent", "utilization (%)", scale={"domain": [0, room], "nice": False})
    colour = charts.axis("right", None, "nominal", legend=None)
    colour["scale"] = {"domain": [True, False], "range": [charts.COLOURS[0], charts.COLOURS[1]]}
    title = "One run, one speed, and the utilizations that people print for it"
    return charts.labelled_bars(title, rows, x, y, colour, ".1f", step=26)


def same_run():
    """Live figure: what one and the same run is said to reach."""
    return figure.figure(
        same_run_view,
        model=figure.dropdown("Model", RUN_MODELS, "Llama 2 70B"),
        seq_len=figure.dropdown("Tokens in a sequence", ("2048", "4096", "8192", "32768"), "4096"),
        accelerator=figure.dropdown("Accelerator", RUN_CHIPS),
        n_accelerators=figure.log_slider("Accelerators", 0, 5, 2000.0),
        tokens_per_s=figure.log_slider("Tokens per second", 3, 7, 660_000.0),
    )


# From FLOP to days and dollars ------------------------------------------------------------------------------------

COST_MODELS = (
    "Llama 3.2 1B",
    "Llama 2 7B",
    "Llama 2 13B",
    "Llama 2 70B",
    "Llama 3.1 405B",
    "Mixtral 8x7B",
    "GPT-3 175B",
)
COST_CHIPS = ("A100 80GB SXM", "H100 SXM", "B200 SXM", "RTX 4090", "TPU v4")
_FEWEST = 64  # accelerators on which the MFU of the control holds
_MONEY = ("rent", "rent and waiting")


def days_and_dollars_view(model, tokens_t, accelerator, n_accelerators, mfu_percent, lost_percent, price, day_usd):
    """Rent and rent plus waiting of one training run, against its days, for all numbers of accelerators."""
    n_parameters = models.get(model).n_active_parameters
    flop = flops.approximate_training_flop(n_parameters, tokens_t * 1e12)
    peak = accelerators.get(accelerator).matmul_flop_per_s("bf16")

    def plan(n):
        frac = utilization.mfu_on_more(mfu_percent / 100, _FEWEST, n, lost_percent / 100)
        days = training_cost.training_days(flop, n, peak, frac)
        rent = training_cost.training_usd(flop, peak, frac, price)
        return {"n": n, "mfu": frac, "days": days, _MONEY[0]: rent, _MONEY[1]: rent + days * day_usd}

    n = _as_shown(n_accelerators)
    plans = [plan(other) for other in sorted({round(_FEWEST * 2 ** (step / 2)) for step in range(21)} | {n})]
    rows = [
        {
            "series": series,
            "n": entry["n"],
            "days": entry["days"],
            "musd": entry[series] / 1e6,
            "chosen": entry["n"] == n,
        }
        for series in _MONEY
        for entry in plans
    ]
    mine, cheapest = plan(n), min(plans, key=lambda entry: entry[_MONEY[1]])
    says = (
        f"6 N D = {_power(flop)} FLOP. On {n:,} {accelerator} at an MFU of {mine['mfu']:.1%} that takes "
        f"{figure.value(format_s(mine['days'] * 86400), mine['days'])} and "
        f"{figure.value(format_count(mine[_MONEY[0]]) + ' USD', mine[_MONEY[0]])} of rent. With waiting at "
        f"{format_count(day_usd)} USD a day, {format_count(mine[_MONEY[1]])} USD; of the counts drawn, "
        f"{cheapest['n']:,} are cheapest then, with {format_count(cheapest[_MONEY[1]])} USD and "
        f"{format_s(cheapest['days'] * 86400)}."
    )
    return figure.View(_days_and_dollars_chart(rows), says)


def _power(value):
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{mantissa} x 10<sup>{int(exponent)}</sup>"


def _days_and_dollars_chart(rows):
    x = charts.axis("days", "days of training", log=True)
    y = charts.axis("musd", "million USD", log=True)
    for axis in (x, y):
        axis["scale"] = {"type": "log", "nice": False}
    series = charts.by_series(_MONEY)
    tooltip = [charts.axis("n", "accelerators"), {**x, "format": ".3g"}, {**y, "format": ".3g"}]
    return charts.chart(
        "Time and money of one training run; along a line the number of accelerators grows to the left (modelled)",
        rows,
        [
            {
                "mark": {"type": "line", "strokeWidth": 2.5},
                "encoding": {"x": x, "y": y, "order": {"field": "n"}, **series},
            },
            charts.chosen_point(x, y, series["color"], tooltip),
        ],
    )


def days_and_dollars():
    """Live figure: a training run's time and money, and what a day is worth."""
    return figure.figure(
        days_and_dollars_view,
        model=figure.dropdown("Model", COST_MODELS, "Llama 2 70B"),
        tokens_t=figure.log_slider("Tokens (trillions)", -2, 2, 2.0),
        accelerator=figure.dropdown("Accelerator", COST_CHIPS),
        n_accelerators=figure.log_slider("Accelerators", 2, 4.5, 2000.0),
        mfu_percent=figure.slider("MFU on 64 of them (%)", 5, 70, 50),
        lost_percent=figure.slider("Lost at each doubling (%)", 0, 20, 3),
        price=figure.float_slider("USD an hour each", 0.5, 12.5, 2.0, 0.1),
        day_usd=figure.log_slider("USD a day of waiting", 3, 6, 20_000.0),
    )


# Feed the furnace -------------------------------------------------------------------------------------------------


def feed_view(compute_ms, load_ms, n_workers):
    """Time of a step against the processes that prepare its data."""
    steps = [
        {
            "n_workers": n,
            "ms": 1e3 * utilization.fed_step_s(compute_ms / 1e3, load_ms / 1e3, n),
            "chosen": n == n_workers,
        }
        for n in range(17)
    ]
    rows = [{"series": series, **step} for series, step in ((_FED[0], step) for step in steps)]
    rows += [{"series": _FED[1], "n_workers": n, "ms": compute_ms, "chosen": False} for n in (0, 16)]
    step_ms = steps[n_workers]["ms"]
    busy = compute_ms / step_ms
    says = (
        f"With {n_workers} workers a step takes {figure.value(format_s(step_ms / 1e3), step_ms)}, and the accelerator "
        f"works {busy:.0%} of the time: a run with an MFU of 50 % on data that is there has {50 * busy:.1f} %. "
        f"{_enough(compute_ms, load_ms)} workers are enough."
    )
    return figure.View(_feed_chart(rows), says)


_FED = ("step", "computing alone")


def _enough(compute_ms, load_ms):
    n_workers = 1
    while utilization.fed_step_s(compute_ms / 1e3, load_ms / 1e3, n_workers) > compute_ms / 1e3:
        n_workers += 1
    return n_workers


def _feed_chart(rows):
    x = charts.axis("n_workers", "processes that prepare data", axis={"tickMinStep": 1})
    y = charts.axis("ms", "time of a step (ms)", scale={"zero": True})
    series = charts.by_series(_FED)
    point = charts.chosen_point(x, y, series["color"])
    line = {"mark": {"type": "line", "strokeWidth": 2.5}, "encoding": {"x": x, "y": y, **series}}
    return charts.chart("A step waits for its data until enough processes prepare it (modelled)", rows, [line, point])


def feed():
    """Live figure: the stoker and the furnace."""
    return figure.figure(
        feed_view,
        compute_ms=figure.slider("Computing, one step (ms)", 20, 500, 100, 10),
        load_ms=figure.slider("Loading, one batch (ms)", 10, 1500, 450, 10),
        n_workers=figure.slider("Processes that load", 0, 16, 2),
    )
