"""The catalogue against itself: rates from clocks, sparse from dense, links from lanes, nodes from links."""

import itertools
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiinfra import accelerators, precision
from aiinfra.accelerators import get, link, node
from aiinfra.tables import half_last_digit
from aiinfra.units import UNITS

CHIPS = [get(name) for name in accelerators.names()]


def agrees(printed, value):
    """Whether `value` is what `printed` shows: vendors round most of their rates to its digits and truncate some."""
    half = half_last_digit(printed)
    return abs(value - float(printed)) <= half * (1 + 1e-9) or 0 <= value - float(printed) < 2 * half


def has_clock(chip, units):
    return chip.has("clock", "boost clock") or chip.has("clock", "boost clock", units)


def dense_rates():
    """Every used dense rate of a whole package whose units, width and clock are known: (chip, row, accumulate)."""
    for chip in CHIPS:
        for row in chip.numbers:
            sums = [part for part in row.condition if part.endswith("accumulate")]
            fma = row.quantity.replace("matmul_", "matmul_fma_per_clock_")
            whole = "dense" in row.condition and "per die" not in row.condition
            if row.used and whole and sums and chip.has(fma, *sums) and has_clock(chip, "matmul units"):
                yield chip, row, sums[0].split()[0]


# NVIDIA prints 110 for the Titan V: its 1455 MHz, which give the printed 14.9 of FP32, would make it 119.2.
NOT_FROM_THE_CLOCK = {("Titan V", "matmul_fp16")}


@pytest.mark.parametrize(
    ("chip", "row", "accumulate"),
    [pytest.param(*rate, id=f"{rate[0].name}-{rate[1].quantity}-{rate[2]}") for rate in dense_rates()],
)
def test_printed_matmul_peak_is_units_times_fma_times_clock(chip, row, accumulate):
    dtype = row.quantity.removeprefix("matmul_")
    value = chip.peak_from_clock_flop_per_s(dtype, accumulate=accumulate) / UNITS[row.unit][1]
    assert agrees(row.printed, value) is ((chip.name, row.quantity) not in NOT_FROM_THE_CLOCK), value


def test_enough_peaks_derive_from_clocks():
    assert len({chip.name for chip, _, _ in dense_rates()}) >= 22


@pytest.mark.parametrize(
    ("chip", "row"),
    [
        pytest.param(chip, row, id=f"{chip.name}-{row.quantity}")
        for chip in CHIPS
        for row in chip.numbers
        if row.used and row.quantity in ("vector_fp32", "vector_fp64") and "per die" not in row.condition
        if chip.has(row.quantity.replace("vector_", "vector_fma_per_clock_"))
        if has_clock(chip, "vector units")
    ],
)
def test_printed_vector_peak_is_units_times_fma_times_clock(chip, row):
    value = chip.vector_peak_from_clock_flop_per_s(row.quantity.removeprefix("vector_")) / UNITS[row.unit][1]
    assert agrees(row.printed, value), value


@pytest.mark.parametrize(
    ("chip", "row"),
    [
        pytest.param(chip, row, id=f"{chip.name}-{row.quantity}-{'-'.join(row.condition)}")
        for chip in CHIPS
        for row in chip.numbers
        if row.used and "sparse" in row.condition
        if chip.has(row.quantity, "dense", *(part for part in row.condition if part != "sparse"))
    ],
)
def test_sparse_is_twice_dense_within_the_digits_printed(chip, row):
    dense = chip.number(row.quantity, "dense", *(part for part in row.condition if part != "sparse"))
    slack = (
        half_last_digit(row.printed) * UNITS[row.unit][1] + 2 * half_last_digit(dense.printed) * UNITS[dense.unit][1]
    )
    assert abs(row.value - 2 * dense.value) <= slack * (1 + 1e-9)


@pytest.mark.parametrize("name", ["MI250", "MI250X"])
def test_a_package_of_two_dies_is_twice_one_die(name):
    chip = get(name)
    for quantity, condition in [
        ("sm_count", ()),
        ("memory", ()),
        ("matmul_bf16", ("dense", "fp32 accumulate")),
        ("matmul_fp16", ("dense", "fp32 accumulate")),
    ]:
        package, die = chip.number(quantity, *condition), chip.number(quantity, *condition, "per die")
        slack = half_last_digit(package.printed) * UNITS[package.unit][1]
        assert abs(package.value - 2 * die.value) <= slack * 1.001 + 1e-6


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
def test_links_of_a_chip_add_up_to_the_total_it_prints(chip):
    if chip.has("link") and chip.value("link") in accelerators.link_names() and chip.has("n_links"):
        joined = link(chip.value("link"), int(chip.value("n_links")))
        assert joined.bytes_per_s == pytest.approx(chip.link_bytes_per_s, rel=1e-3)  # PCIe is printed to 0.1 GB/s
    if chip.has("host_link"):
        assert chip.value("host_link") in accelerators.link_names()


@pytest.mark.parametrize(
    ("name", "one_way_gb_per_s"),
    [
        ("PCIe 1.0 x16", 4.0),
        ("PCIe 2.0 x16", 8.0),
        ("PCIe 3.0 x16", 15.754),
        ("PCIe 4.0 x16", 31.508),
        ("PCIe 5.0 x16", 63.015),
        ("PCIe 6.0 x16", 121.0),
        ("InfiniBand SDR x4", 1.0),
        ("InfiniBand QDR x4", 4.0),
        ("InfiniBand FDR x4", 6.818),
        ("InfiniBand EDR x4", 12.5),
        ("InfiniBand NDR x4", 50.0),
        ("Ethernet 100G", 12.5),
    ],
)
def test_lanes_times_rate_times_coding_is_the_rate_of_one_direction(name, one_way_gb_per_s):
    """Published: PCI-SIG and IBTA line rates and encodings; tolerance, the digits written here."""
    assert link(name).bytes_per_s / 1e9 == pytest.approx(one_way_gb_per_s, abs=0.0005)


def test_generations_of_pcie_double_but_for_their_coding():
    rates = [link(f"PCIe {generation}.0 x16").bytes_per_s for generation in range(1, 7)]
    assert [b / a for a, b in itertools.pairwise(rates)] == pytest.approx(
        [2, 8 / 5 * (128 / 130) / (8 / 10), 2, 2, 2 * (242 / 256) / (128 / 130)], rel=1e-12
    )


@given(st.sampled_from(accelerators.link_names()), st.integers(1, 100))
def test_links_add_up(name, n_links):
    assert math.isclose(link(name, n_links).bytes_per_s, n_links * link(name).bytes_per_s, rel_tol=1e-12)


@pytest.mark.parametrize("name", accelerators.node_names())
def test_a_node_is_made_of_what_the_catalogue_has(name):
    server = node(name)
    assert server.accelerator in accelerators.names()
    assert server.network_bytes_per_s == link(server.network, server.n_network_links).bytes_per_s
    assert server.n_accelerators == 8


def test_a_dgx_a100_has_eight_ports_of_200_gigabits():
    assert node("DGX A100").network_bytes_per_s == 8 * 200e9 / 8


FACTS = {  # what buyers get wrong: (accelerator, quantity, conditions) -> value in base units
    ("H100 PCIe", "memory_bandwidth"): 2.0e12,
    ("H100 PCIe", "sm_count"): 114,
    ("H100 SXM", "sm_count"): 132,
    ("H100 SXM", "matmul_bf16", "dense", "fp32 accumulate"): 989.4e12,
    ("H100 SXM", "matmul_bf16", "sparse", "fp32 accumulate"): 1978.9e12,
    ("A100 80GB SXM", "memory_bandwidth"): 2.039e12,
    ("A100 40GB SXM", "memory_bandwidth"): 1.555e12,
    ("A100 80GB SXM", "link_bandwidth", "both directions"): 600e9,
    ("RTX 4090", "matmul_fp16", "dense", "fp32 accumulate"): 165.2e12,
    ("RTX 4090", "matmul_fp16", "dense", "fp16 accumulate"): 330.3e12,
    ("RTX 3090", "link_bandwidth", "both directions"): 112.5e9,
    ("T4", "sm_count"): 40,
    ("RTX 2080 Ti", "sm_count"): 68,
    ("TPU v4", "memory_bandwidth"): 1.2e12,
    ("TPU v4", "memory"): 32 * 2**30,
    ("TPU v5e", "memory_bandwidth"): 819e9,
    ("TPU v5p", "memory_bandwidth"): 2.765e12,
    ("MI250", "matmul_fp16", "dense", "fp32 accumulate"): 362.1e12,
    ("MI250", "memory_bandwidth", "per die"): 1.6e12,
    ("B200 SXM", "matmul_bf16", "dense", "fp32 accumulate"): 2250e12,
    ("B200 SXM", "matmul_bf16", "sparse", "fp32 accumulate"): 4500e12,
}


@pytest.mark.parametrize(("asked", "expected"), FACTS.items(), ids=str)
def test_what_the_sources_print(asked, expected):
    name, quantity, *conditions = asked
    assert get(name).value(quantity, *conditions) == pytest.approx(expected, rel=1e-12)


def test_hbm_is_not_the_interconnect_and_the_pcie_v100_has_no_nvlink():
    assert get("H100 PCIe").value("memory_type") == "HBM2e"
    assert get("V100 PCIe").value("link") == "PCIe 3.0 x16"
    assert get("V100 SXM2").value("link") == "NVLink 2"


def test_an_a100_has_no_fp8_and_says_what_it_has():
    assert "fp8" not in get("A100 80GB SXM").matmul_dtypes()
    with pytest.raises(ValueError, match=r"A100 80GB SXM has no matmul_fp8 \(dense, fp32 accumulate\); its table has"):
        get("A100 80GB SXM").matmul_flop_per_s("fp8")


def test_sparse_and_narrow_sums_must_be_said():
    card = get("RTX 4090")
    usual = card.matmul_flop_per_s("fp16")
    assert card.matmul_flop_per_s("fp16", accumulate="fp16") / usual == pytest.approx(2, rel=1e-3)
    assert card.matmul_flop_per_s("fp16", sparse=True) / usual == pytest.approx(2, rel=1e-3)
    with pytest.raises(
        ValueError, match=re.escape("it is known (dense, fp32 accumulate) and (sparse, fp32 accumulate)")
    ):
        get("H100 SXM").matmul_flop_per_s("bf16", accumulate="fp16")


def test_where_a_source_does_not_say_the_width_of_the_sum_its_number_is_given_but_only_then():
    assert get("SN30").matmul_flop_per_s("bf16") == 688e12
    with pytest.raises(ValueError, match="it is known"):
        get("SN30").matmul_flop_per_s("bf16", accumulate="fp16")


def test_one_die_must_be_asked_for():
    assert get("MI250").value("memory") == 128e9
    assert get("MI250").value("memory", "per die") == 64e9
    with pytest.raises(ValueError, match=r"H100 SXM has no memory \(per die\)"):
        get("H100 SXM").value("memory", "per die")


def test_every_dtype_that_is_listed_has_a_rate():
    for chip in CHIPS:
        for dtype in chip.matmul_dtypes():
            assert chip.matmul_flop_per_s(dtype) > 0
            assert dtype in precision.NAMES


def test_properties_are_the_numbers_of_the_table():
    chip = get("H100 SXM")
    assert (chip.memory_bytes, chip.memory_bytes_per_s, chip.power_w) == (80e9, 3.35e12, 700.0)
    assert chip.link_bytes_per_s == 450e9
    assert chip.clock_hz("matmul units") == 1.83e9
    assert chip.clock_hz("vector units") == 1.98e9
    assert get("A100 80GB SXM").clock_hz() == 1.41e9


@given(st.integers(0, 10**6), st.integers(0, 10**5), st.floats(0, 1e10))
def test_peak_is_a_product(n_units, flop_per_clock, clock_hz):
    expected = n_units * flop_per_clock * clock_hz
    assert accelerators.peak_flop_per_s(n_units, flop_per_clock, clock_hz) == expected


def test_a_slower_clock_lowers_the_peak_in_proportion():
    chip = get("H100 SXM")
    full = chip.peak_from_clock_flop_per_s("bf16")
    assert chip.peak_from_clock_flop_per_s("bf16", clock_hz=1.83e9 / 2) == full / 2
    assert chip.vector_peak_from_clock_flop_per_s(clock_hz=1.98e9 / 2) == chip.vector_peak_from_clock_flop_per_s() / 2


@pytest.mark.parametrize(
    ("find", "wrong", "near"),
    [(get, "H100 SMX", "H100 SXM"), (link, "NVLink4", "NVLink 4"), (node, "DGX-H100", "DGX H100")],
)
def test_an_unknown_name_names_the_nearest(find, wrong, near):
    with pytest.raises(ValueError, match=f"{wrong!r} is not known; nearest: .*{near!r}"):
        find(wrong)


@pytest.mark.parametrize("n_links", [0, -1, 1.5])
def test_a_number_of_links_is_a_whole_number(n_links):
    with pytest.raises(ValueError, match="n_links must be a whole number of at least 1"):
        link("NVLink 4", n_links)
