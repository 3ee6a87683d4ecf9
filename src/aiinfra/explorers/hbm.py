"""Explorers of the chapter `hbm`."""

import math

from aiinfra import accelerators, charts, memory, models, overlap, roofline, transformer_layer
from aiinfra.explorers import figure
from aiinfra.units import format_bytes, format_flop_per_s, format_s

DENSE = ("Llama 3.2 1B", "Llama 3 8B", "Llama 2 13B", "Llama 3 70B", "GPT-3 175B", "Llama 3.1 405B")

# Roofline ---------------------------------------------------------------------------------------------------------

ROOFED = ("A100 80GB SXM", "H100 SXM", "H100 PCIe", "H200 SXM", "B200 SXM", "MI300X", "RTX 4090", "L40S", "TPU v5p")
D_HEAD = 128
# operator -> its work for rows (tokens, sequence, batch) and width
OPERATORS = {
    "Matmul, width x width weights": lambda n, width, dtype: roofline.matmul(n, width, width, dtype),
    "Attention, naive (rows = tokens)": lambda n, width, dtype: roofline.attention(
        n, _heads(width), D_HEAD, fused=False, dtype=dtype
    ),
    "Attention, fused (rows = tokens)": lambda n, width, dtype: roofline.attention(
        n, _heads(width), D_HEAD, fused=True, dtype=dtype
    ),
    "Softmax": roofline.softmax,
    "Layer norm": roofline.layer_norm,
    "Add": lambda n, width, dtype: roofline.elementwise(n * width, 1, n_read=2, dtype=dtype),
    "Adam step, rows x width weights": lambda n, width, dtype: roofline.adam_step(n * width, dtype),
    "Embedding (rows = tokens)": roofline.embedding,
}
_ROOFS = ("roof of memory", "roof of L2 (measured)")
_INTENSITIES = (0.1, 1e5)


def _heads(width):
    return max(1, width // D_HEAD)


def roofline_view(operator, rows, width, dtype, accelerator, cache):
    """One operator as a dot at its intensity, on the roof of an accelerator."""
    chip = accelerators.get(accelerator)
    if dtype not in chip.matmul_dtypes():
        return figure.View(_roofline_chart([]), f"The {accelerator} has no matrix units for {dtype}.")
    n, width = round(rows), round(width)
    work, peak, bandwidth = OPERATORS[operator](n, width, dtype), chip.matmul_flop_per_s(dtype), chip.memory_bytes_per_s
    seconds, ridge = roofline.time_s(work, peak, bandwidth), roofline.ridge_flop_per_byte(chip, dtype)
    roofs = {_ROOFS[0]: bandwidth}
    if cache and chip.has("l2_bandwidth"):
        roofs[_ROOFS[1]] = chip.value("l2_bandwidth")
    lines = [
        {"series": name, "x": x, "y": roofline.rate_flop_per_s(x, peak, rate) / 1e12, "kind": "roof"}
        for name, rate in roofs.items()
        for x in sorted((_INTENSITIES[0], peak / rate, _INTENSITIES[1]))
    ]
    bound = "memory" if work.flop_per_byte < ridge else "compute"
    says = f"{work.flop / 1e9:,.4g} GFLOP and {format_bytes(work.bytes)}: "
    if work.flop:
        x, y = work.flop_per_byte, work.flop / seconds / 1e12
        lines.append({"series": "the operator", "x": x, "y": y, "kind": "operator"})
        says += (
            f"{x:,.3g} FLOP/byte, where the {accelerator} turns at {ridge:,.3g} in {dtype}. Bound by <b>{bound}</b>. "
        )
    else:
        says += "it has no FLOP, so its dot lies infinitely far to the left. Bound by <b>memory</b>. "
    says += (
        f"It takes {figure.value(format_s(seconds), seconds)} at least and reaches "
        f"{format_flop_per_s(work.flop / seconds, 3)}, {work.flop / seconds / peak:.2%} of the peak."
    )
    if cache and len(roofs) == 1:
        says += f" No rate of the L2 of the {accelerator} was found."
    return figure.View(_roofline_chart(lines), says)


def _roofline_chart(rows):
    x = charts.axis("x", "FLOP per byte", scale={"type": "log", "domain": list(_INTENSITIES)})
    x["axis"] = {"labelOverlap": True, "tickCount": 6, "format": "~g"}
    y = charts.axis("y", "TFLOP/s", scale={"type": "log"}, axis={"labelOverlap": True, "tickCount": 6, "format": "~g"})
    series = charts.by_series(_ROOFS)
    tooltip = [{**x, "format": ".3~g"}, {**y, "format": ".4~g"}]
    dot = {"type": "point", "filled": True, "size": 170, "opacity": 1, "color": charts.COLOURS[1]}
    return charts.chart(
        "Where an operator lands under the roofline (modelled)",
        rows,
        [
            {
                "mark": {"type": "line", "strokeWidth": 2.5},
                "transform": [{"filter": "datum.kind == 'roof'"}],
                "encoding": {"x": x, "y": y, **series},
            },
            {
                "mark": dot,
                "transform": [{"filter": "datum.kind == 'operator'"}],
                "encoding": {"x": x, "y": y, "tooltip": tooltip},
            },
            {
                "mark": {"type": "text", "align": "left", "dx": 12, "dy": 10},
                "transform": [{"filter": "datum.kind == 'operator'"}],
                "encoding": {"x": x, "y": y, "text": charts.axis("series", None, "nominal")},
            },
        ],
    )


def roofline_explorer():
    """Live figure: an operator of any shape on the roof of any accelerator."""
    return figure.figure(
        roofline_view,
        operator=figure.dropdown("Operator", OPERATORS),
        rows=figure.log_slider("Rows", 0, 5, 1.0),
        width=figure.log_slider("Width", 2, 4.5, 4096.0, 0.01),
        dtype=figure.dropdown("Number format", ("bf16", "fp16", "tf32", "fp8"), "bf16"),
        accelerator=figure.dropdown("Accelerator", ROOFED, "H100 SXM"),
        cache=figure.checkbox("Also show the roof of L2"),
    )


# What fits where --------------------------------------------------------------------------------------------------

HOLDERS = ("TPU v5e", "RTX 4090", "RTX 5090", "A100 40GB SXM", "L40S", "H100 SXM", "GH200 96GB", "MacBook Pro M3 Max",
           "H200 SXM", "B200 SXM", "MI300X")  # fmt: skip
USES = ("serving", "training with Adam")


def needed_bytes(model, use, dtype, context, n_sequences):
    """Part -> bytes, of what a model needs on one device to serve or to train."""
    if use == USES[0]:
        return {
            "weights": memory.weight_bytes(model.n_parameters, dtype),
            "KV cache": memory.kv_cache_bytes(model, context, n_sequences),
        }
    state = memory.training_state(model.n_parameters, weights=dtype)
    activations = memory.activation_bytes_per_layer(
        context, n_sequences, model.d_model, model.n_heads, recomputation="selective"
    )
    return {
        "weights": state.weight_bytes,
        "gradients": state.gradient_bytes,
        "optimizer": state.optimizer_bytes,
        "activations": model.n_layers * activations,
    }


def fits_view(model, use, dtype, context, n_sequences):
    """Capacities of accelerators against what a model needs."""
    parts = needed_bytes(models.get(model), use, dtype, round(context), n_sequences)
    needed = sum(parts.values())
    rows = [
        {
            "name": name,
            "gb": chip.memory_bytes / 1e9,
            "verdict": "holds it" if chip.memory_bytes >= needed else "too small",
            "label": f"x {math.ceil(needed / chip.memory_bytes):,}",
            "needed": needed / 1e9,
        }
        for name, chip in ((name, accelerators.get(name)) for name in HOLDERS)
    ]
    holding = [row["name"] for row in rows if row["verdict"] == "holds it"]
    says = (
        f"{model}, {use}: " + " + ".join(f"{format_bytes(value)} {part}" for part, value in parts.items())
        + f" = {figure.value(format_bytes(needed), needed)}. "
        + (f"One {holding[0]} holds it." if holding else "None of these holds it alone.")
        + " The number at a bar is how many would."
    )  # fmt: skip
    return figure.View(_fits_chart(rows), says)


def _fits_chart(rows):
    y = charts.axis("name", None, "nominal", sort=list(HOLDERS), axis={"labelLimit": 170})
    room = 1.12 * max(max(row["gb"], row["needed"]) for row in rows)
    x = charts.axis("gb", "memory (GB)", scale={"domain": [0, room], "nice": False})
    verdicts = {"domain": ["holds it", "too small"], "range": list(charts.COLOURS[:2])}
    colour = charts.axis("verdict", None, "nominal", scale=verdicts)
    rule = {"mark": {"type": "rule", "strokeWidth": 2.5, "strokeDash": [6, 4]}}
    label = charts.axis("label", None, "nominal")
    return charts.chart(
        "What one device holds; dashed: what is needed",
        rows,
        [
            {"mark": {"type": "bar"}, "encoding": {"x": x, "y": y, "color": colour}},
            {"mark": {"type": "text", "align": "left", "dx": 4}, "encoding": {"x": x, "y": y, "text": label}},
            {**rule, "encoding": {"x": {"aggregate": "max", **charts.axis("needed", "memory (GB)")}}},
        ],
        height={"step": 24},
    )


def fits():
    """Live figure: what fits where."""
    return figure.figure(
        fits_view,
        model=figure.dropdown("Model", DENSE, "Llama 3 8B"),
        use=figure.radio("For", USES),
        dtype=figure.dropdown("Weights in", ("fp32", "bf16", "fp8", "fp4"), "bf16"),
        context=figure.log_slider("Tokens of a sequence", 2, 5.2, 4096.0),
        n_sequences=figure.slider("Sequences at once", 1, 128, 1),
    )


# Fusion -----------------------------------------------------------------------------------------------------------

_WAYS = ("apart", "fused")
KINDS = ("attention", "chain of elementwise steps")
CHAIN_ROWS, HEADS = 4096, 32


def fusion_view(kind, seq_len, n_steps, accelerator):
    """Bytes and time of the same work as separate kernels and as one."""
    chip = accelerators.get(accelerator)
    rates = chip.matmul_flop_per_s("bf16"), chip.memory_bytes_per_s
    if kind == KINDS[0]:
        s = round(seq_len)
        matmul_in, matmul_out = roofline.matmul(s, D_HEAD, s, batch=HEADS), roofline.matmul(s, s, D_HEAD, batch=HEADS)
        apart = {"scores": matmul_in, "softmax": roofline.softmax(HEADS * s, s), "values": matmul_out}
        fused = {"attention": roofline.attention(s, HEADS, D_HEAD, fused=True)}
        what = f"Attention over {s:,} tokens, {HEADS} heads of {D_HEAD}, bf16"
    else:
        n = CHAIN_ROWS * HEADS * D_HEAD
        apart = {f"step {i}": roofline.elementwise(n) for i in range(n_steps)}
        fused = {"all steps": roofline.elementwise_chain(n, n_steps, fused=True)}
        what = f"{n_steps} elementwise steps on {CHAIN_ROWS:,} x {HEADS * D_HEAD:,} values, bf16"
    rows = []
    for way, operators in zip(_WAYS, (apart, fused), strict=True):
        n_bytes, seconds = sum(work.bytes for work in operators.values()), transformer_layer.time_s(operators, *rates)
        rows.append({"way": way, "us": seconds * 1e6, "label": f"{format_s(seconds)}, {format_bytes(n_bytes)}"})
    fewer = sum(work.bytes for work in apart.values()) / sum(work.bytes for work in fused.values())
    faster = rows[0]["us"] / rows[1]["us"]
    says = (
        f"{what}: one kernel instead of {len(apart)} moves {figure.value(f'{fewer:.3g} times', fewer)} fewer bytes "
        f"and is {faster:.3g} times as fast on the {accelerator}, with the same FLOP."
    )
    return figure.View(_fusion_chart(rows), says)


def _fusion_chart(rows):
    y = charts.axis("way", None, "nominal", sort=list(_WAYS), axis={"labelFontSize": 14})
    x = charts.axis("us", "least time (µs)", scale={"domain": [0, 1.6 * max(row["us"] for row in rows)], "nice": False})
    colour = charts.axis("way", None, "nominal", scale={"range": list(charts.COLOURS[1::-1])}, legend=None)
    label = charts.axis("label", None, "nominal")
    return charts.chart(
        "The same work in several kernels and in one (modelled)",
        rows,
        [
            {"mark": {"type": "bar"}, "encoding": {"x": x, "y": y, "color": colour}},
            {"mark": {"type": "text", "align": "left", "dx": 4}, "encoding": {"x": x, "y": y, "text": label}},
        ],
        height={"step": 60},
    )


def fusion():
    """Live figure: what fusing kernels saves."""
    return figure.figure(
        fusion_view,
        kind=figure.dropdown("Fuse", KINDS),
        seq_len=figure.log_slider("Attention: tokens", 2, 5, 4096.0),
        n_steps=figure.slider("Chain: steps", 1, 12, 3),
        accelerator=figure.dropdown("Accelerator", ROOFED, "H100 SXM"),
    )


# Memory, bandwidth, compute ---------------------------------------------------------------------------------------

# accelerator -> the link over which it reads what its memory does not hold
DECODERS = {
    "H100 SXM": "PCIe 5.0 x16", "H200 SXM": "PCIe 5.0 x16", "GH200 96GB": "NVLink-C2C", "MI300X": "PCIe 5.0 x16",
    "RTX 4090": "PCIe 4.0 x16", "L40S": "PCIe 4.0 x16", "MacBook Pro M3 Max": None,
}  # fmt: skip
_CORNERS = ("memory that is full", "bandwidth that is used", "compute that is used")


def triangle_view(model, dtype, batch, context, accelerator):
    """One decoding step on one device: which of memory, bandwidth and compute binds."""
    shape, chip = models.get(model), accelerators.get(accelerator)
    weights, cache = needed_bytes(shape, USES[0], dtype, round(context), batch).values()
    needed, link = weights + cache, DECODERS[accelerator]
    if needed > chip.memory_bytes and link is None:
        says = f"{format_bytes(needed)} do not fit into the {format_bytes(chip.memory_bytes)} of the {accelerator}."
        return figure.View(_triangle_chart([{"corner": _CORNERS[0], "share": needed / chip.memory_bytes}]), says)
    link_rate = accelerators.link(link).bytes_per_s if link else None
    read_s = memory.read_s(needed, chip.memory_bytes, chip.memory_bytes_per_s, link_rate)
    attention = transformer_layer.decode_attention(round(context), shape.n_heads, shape.d_head, shape.n_kv_heads, batch)
    flop = 2 * batch * shape.n_parameters + shape.n_layers * attention.flop
    compute_s = flop / chip.matmul_flop_per_s(dtype) if dtype in chip.matmul_dtypes() else None
    step_s = max(read_s, compute_s or 0.0)
    shares = (needed / chip.memory_bytes, read_s / step_s, compute_s / step_s if compute_s else None)
    rows = [
        {"corner": corner, "share": share} for corner, share in zip(_CORNERS, shares, strict=True) if share is not None
    ]
    says = f"Each step reads {format_bytes(needed)}"
    if needed > chip.memory_bytes:
        says += f", of which {format_bytes(needed - chip.memory_bytes)} over {link} since they do not fit"
    says += f": {format_s(read_s)}. "
    says += f"Computing takes {format_s(compute_s)}. " if compute_s else f"No rate for {dtype} is known here. "
    says += f"At most {figure.value(f'{batch / step_s:,.3g} tokens/s', batch / step_s)} for all, "
    says += f"{1 / step_s:,.3g} for each of {batch}; {'compute' if compute_s == step_s else 'bandwidth'} binds."
    return figure.View(_triangle_chart(rows), says)


def _triangle_chart(rows):
    y = charts.axis("corner", None, "nominal", sort=list(_CORNERS), axis={"labelLimit": 190, "labelFontSize": 13})
    room = 1.35 * max(1.0, *(row["share"] for row in rows))
    x = charts.axis("share", "share of the device", scale={"domain": [0, room], "nice": False}, axis={"format": "%"})
    colour = {"value": charts.COLOURS[0]}
    return charts.labelled_bars("One decoding step on one device (modelled)", rows, x, y, colour, ".1%", step=44)


def triangle():
    """Live figure: memory, bandwidth or compute, what binds decoding."""
    return figure.figure(
        triangle_view,
        model=figure.dropdown("Model", DENSE, "Llama 3 8B"),
        dtype=figure.dropdown("Weights in", ("bf16", "fp8", "fp4"), "bf16"),
        batch=figure.slider("Sequences at once", 1, 512, 1),
        context=figure.log_slider("Tokens of a sequence", 2, 5.2, 1000.0),
        accelerator=figure.dropdown("Device", DECODERS, "H100 SXM"),
    )


# Double buffering -------------------------------------------------------------------------------------------------

N_BLOCKS = 6
_RESOURCES = ("load", "compute")


def buffers_view(load_ms, compute_ms, n_buffers):
    """Loading and computing blocks with one, two or more buffers."""
    intervals = overlap.schedule(N_BLOCKS, load_ms / 1e3, compute_ms / 1e3, n_buffers)
    total_s = overlap.total_s(intervals)
    rows = [
        {
            "resource": one.resource,
            "block": f"{one.block + 1}",
            "start": one.start_s * 1e3,
            "end": one.end_s * 1e3,
            "middle": (one.start_s + one.end_s) / 2 * 1e3,
        }
        for one in intervals
    ]
    at_least_s = N_BLOCKS * max(load_ms, compute_ms) / 1e3
    says = (
        f"{N_BLOCKS} blocks with {n_buffers} buffer{'s' * (n_buffers > 1)} take "
        f"{figure.value(format_s(total_s), total_s)}; max(load, compute) alone says {format_s(at_least_s)}, "
        f"{total_s / at_least_s:.2f} times too kind. The units compute {N_BLOCKS * compute_ms / 1e3 / total_s:.0%} "
        "of the time."
    )
    return figure.View(_buffers_chart(rows), says)


def _buffers_chart(rows):
    y = charts.axis("resource", None, "nominal", sort=list(_RESOURCES), axis={"labelFontSize": 14})
    x = charts.axis("start", "time (ms)", scale={"domainMin": 0})
    colours = {"domain": list(_RESOURCES), "range": list(charts.COLOURS[1::-1])}
    colour = charts.axis("resource", None, "nominal", scale=colours, legend=None)
    bar = {"type": "bar", "stroke": "currentColor", "strokeWidth": 1}
    span = {"x": x, "x2": {"field": "end"}, "y": y, "color": colour}
    label = {"x": charts.axis("middle", "time (ms)"), "y": y, "text": charts.axis("block", None, "nominal")}
    return charts.chart(
        "Loading one block while computing another (simulated)",
        rows,
        [{"mark": bar, "encoding": span}, {"mark": {"type": "text", "fontWeight": "bold"}, "encoding": label}],
        height={"step": 60},
    )


def buffers():
    """Live figure: double buffering."""
    return figure.figure(
        buffers_view,
        load_ms=figure.float_slider("Loading a block (ms)", 0.1, 5.0, 2.0, 0.1),
        compute_ms=figure.float_slider("Computing it (ms)", 0.1, 5.0, 3.0, 0.1),
        n_buffers=figure.slider("Buffers", 1, 4, 1),
    )
