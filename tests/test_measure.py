"""`aiinfra measure`: the search on devices whose best shape is known, the file it writes, and the command."""

import csv
import math
import random
import re
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from aiinfra import accelerators, cli, measured, roofline, tables
from aiinfra.measure import bandwidth, best_matmul, command, device, record, search
from aiinfra.measure.bandwidth import Bandwidth, array_bytes, memory_bandwidth
from aiinfra.measure.best_matmul import BestMatmul, Products
from aiinfra.measure.distribution import Distribution
from aiinfra.measure.search import Search, Shape

ABOUT = {
    "item": "Abacus (2 threads)", "hardware": "Abacus", "driver": "Linux 6.1", "software": "torch 2.13.0, MKL 2024.2",
    "threads": "2", "date": "2026-11-20",
}  # fmt: skip


def matmul(dtype="fp32", rates=(1e11, 4e11, 3e11, 2e11), about=ABOUT, interrupted=False):
    return BestMatmul(Shape(1024, 2048, 512), dtype, Distribution(rates), 40, interrupted, about)


def memory(copy=(5e10, 4e10), triad=(6e10, 5e10), about=ABOUT):
    rates = {name: Distribution(values) for name, values in (("copy", copy), ("triad", triad)) if values}
    return Bandwidth(rates, 256_000_000, 32_000_000, 16_000_000_000, False, about)


# ---- the search


class Device:
    """A device of `n_units` that multiplies tiles of `tile`, with a clock of its own: it costs no real time.

    A tile that is cut and a wave that is not full cost what full ones do; a start costs `launch_s`; an output that
    does not fit `cache` elements slows it down.
    """

    def __init__(self, tile=(128, 128, 32), n_units=108, launch_s=5e-6, cache=math.inf, noise=0.0):
        self.tile, self.n_units, self.launch_s, self.cache = tile, n_units, launch_s, cache
        self.noise, self.random = noise, random.Random(1)
        self.now_s, self.timed = 0.0, []

    def rate(self, shape):
        tiles = [math.ceil(size / tile) for size, tile in zip(shape, self.tile, strict=True)]
        waves = math.ceil(tiles[0] * tiles[1] / self.n_units)
        padded = 2 * waves * self.n_units * math.prod(self.tile) * tiles[2]
        slow = 1.3 if shape.m * shape.k + shape.k * shape.n + shape.m * shape.n > self.cache else 1.0
        return shape.flop / (slow * padded / 300e12 + self.launch_s)

    def seconds(self, shape):
        self.timed.append(shape)
        seconds = shape.flop / self.rate(shape)
        self.now_s += 3 * seconds + 0.01
        return seconds * (1 + self.noise * self.random.expovariate(1.0))

    def search(self, budget_s=20.0, **kwargs):
        return Search(self.seconds, 128, self.n_units, budget_s, clock=lambda: self.now_s, **kwargs)


@pytest.mark.parametrize("n_units", [8, 84, 108, 132, 144])
@pytest.mark.parametrize("tile", [(128, 128, 32), (128, 256, 64), (256, 128, 64)])
def test_the_search_reaches_the_top_of_a_staircase(tile, n_units):
    chip = Device(tile, n_units)
    found = chip.search(fits=lambda shape: max(shape) <= 32768).run()
    assert chip.rate(found.shape) > 0.99 * 300e12
    assert chip.now_s < 20.0 * 1.05


def test_the_best_square_loses_where_waves_do_not_fill():
    chip = Device(n_units=132)
    found = chip.search(fits=lambda shape: max(shape) <= 3072).run()
    assert chip.rate(found.shape) > 1.02 * max(chip.rate(Shape(n, n, n)) for n in range(256, 3073, 128))


def test_a_best_shape_inside_the_range_is_found():
    chip = Device(n_units=2, cache=3e6, launch_s=1e-5)
    found = chip.search().run()
    sizes = range(128, 4097, 128)
    best = max(chip.rate(Shape(m, n, k)) for m in sizes for n in sizes for k in sizes)
    assert chip.rate(found.shape) > 0.98 * best


def test_noise_does_not_mislead_it():
    chip = Device(n_units=108, noise=0.05)
    found = chip.search(fits=lambda shape: max(shape) <= 16384).run()
    assert chip.rate(found.shape) > 0.98 * 300e12
    assert len(found.seconds) > 20


def test_a_busy_machine_does_not_mislead_it():
    chip = Device(n_units=108)
    quiet, busy = chip.seconds, random.Random(2)
    search_ = chip.search(fits=lambda shape: max(shape) <= 16384)
    search_.seconds_of = lambda shape: quiet(shape) * busy.choice((1.0, 1.0, 1.1, 2.0, 3.0))
    assert chip.rate(search_.run().shape) > 0.97 * 300e12


class LikesOneSquare(Device):
    """Fastest on the square of `n`, and slower the farther a shape is from a square and from that size."""

    n = 1280

    def rate(self, shape):
        unlike = abs(math.log(shape.m / shape.n)) + abs(math.log(shape.k / shape.n))
        return 300e12 / (1 + 0.2 * unlike + 0.05 * abs(math.log(shape.n / self.n)))


def test_a_square_between_those_of_the_start_is_found():
    assert LikesOneSquare().search().run().shape == Shape(1280, 1280, 1280)


def test_the_best_squares_come_into_the_final_whatever_their_rank():
    chip = Device(n_units=132)
    search_ = chip.search(fits=lambda shape: max(shape) <= 3072)
    found = search_.run()
    tried = sorted(filter(search.is_square, search_.timings), key=chip.rate)
    assert not search.is_square(found.shape)
    assert {shape for shape in search_.final if search.is_square(shape)} == set(tried[-search.SQUARE_FINALISTS :])
    assert len(search_.final) == search.FINALISTS


def test_a_square_may_take_more_of_the_budget_than_another_shape():
    chip = Device(launch_s=5e-3)  # the larger the better
    chip.search().run()
    longest_s = {kind: max(2 * shape.flop / chip.rate(shape) for shape in chip.timed if search.is_square(shape) == kind)
                 for kind in (True, False)}  # fmt: skip
    assert longest_s[False] <= search.SHAPE_FRAC * 20
    assert search.SQUARE_FRAC * 20 >= longest_s[True] > search.SHAPE_FRAC * 20


def test_only_timings_of_the_final_are_reported():
    chip = Device(noise=0.05)
    search_ = chip.search()
    found = search_.run()
    assert found.seconds == tuple(search_.final[found.shape])
    assert found.n_shapes == len(set(chip.timed))


@pytest.mark.parametrize("budget_s", [1e-9, 0.02, 0.3, 3.0])
def test_any_budget_gives_a_shape_and_is_kept_but_for_one_timing(budget_s):
    chip = Device()
    found = chip.search(budget_s).run()
    assert found.seconds
    slowest = max(3 * shape.flop / chip.rate(shape) + 0.01 for shape in chip.timed)
    assert chip.now_s <= budget_s + 3 * slowest


def test_most_of_the_time_goes_to_shapes_near_the_best():
    chip = Device()
    found = chip.search().run()
    near = sum(chip.rate(shape) > 0.9 * chip.rate(found.shape) for shape in chip.timed)
    assert near > 0.6 * len(chip.timed)


def test_progress_tells_the_best_and_the_time_left():
    told = []
    Device().search(progress=lambda *what: told.append(what)).run()
    rates, left = [rate for _, rate, _ in told], [left_s for _, _, left_s in told]
    assert rates == sorted(rates)
    assert left == sorted(left, reverse=True)
    assert left[-1] >= 0.0


@pytest.mark.parametrize("after", [1, 30, 600])
def test_an_interrupted_search_reports_what_it_has(after):
    chip = Device()

    def seconds(shape):
        if len(chip.timed) == after:
            raise KeyboardInterrupt
        return chip.seconds(shape)

    found = Search(seconds, 128, 108, 20.0, lambda shape: max(shape) <= 8192, lambda: chip.now_s).run()
    assert found.interrupted
    assert found.shape in chip.timed
    assert found.seconds


def test_an_interrupt_before_the_first_timing_is_an_interrupt():
    def seconds(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Search(seconds, 128, 108, 20.0).run()


def test_sizes_are_whole_tiles_and_waves_are_whole():
    assert [shape.m for shape in search.squares(64)][:6] == [128, 192, 256, 384, 512, 768]
    for n_units in (1, 7, 108, 132):
        for n in (128, 1024, 4096):
            for shape in search.whole_waves(Shape(n, n, n), 128, n_units):
                assert (shape.m // 128) * (shape.n // 256) % n_units == 0
                assert (shape.m % 128, shape.n % 256, shape.k) == (0, 0, n)
    neighbours = [
        shape for level in range(search.N_LEVELS) for shape in search.moves(Shape(256, 128, 4096), 128, level)
    ]
    assert all(size >= 128 and size % 128 == 0 for shape in neighbours for size in shape)
    assert {Shape(512, 128, 4096), Shape(128, 128, 4096), Shape(256, 256, 4096), Shape(256, 128, 4224)} <= {*neighbours}


# ---- real measurements, tiny


@pytest.mark.parametrize("dtype", ["fp64", "fp32", "bf16", "fp16"])
def test_a_real_search(dtype):
    before = torch.get_num_threads()
    result = best_matmul.best_matmul(dtype, 0.3, "cpu")
    assert result.dtype == dtype
    assert min(result.rates.values) > 0
    assert result.n_shapes >= 1
    assert result.about["software"].startswith(f"torch {torch.__version__}, Python")
    assert torch.get_num_threads() == before
    assert f"({result.shape.m} x {result.shape.k}) times ({result.shape.k} x {result.shape.n})" in str(result)


@pytest.fixture(scope="module")
def products():
    return Products(torch.float32, torch.device("cpu"))


def test_products_are_of_random_operands_from_pools_beyond_the_caches(products):
    cache_bytes = device.cache_bytes(torch.device("cpu")) or 0
    free_bytes, _ = device.memory_bytes(torch.device("cpu"))
    assert 4 * products.n_elements >= min(4 * cache_bytes, free_bytes // 16)
    assert 0.9 < products.a.std() < 1.1
    assert not torch.equal(products.a, products.b)


def test_pools_are_smaller_where_filling_them_would_take_the_budget(monkeypatch):
    monkeypatch.setattr(Products, "_block_s", lambda self: 0.01)
    small = Products(torch.float32, torch.device("cpu"), budget_s=0.3)
    assert small.n_elements == best_matmul.affordable(10**12, 0.01, 0.3) == best_matmul._BLOCK
    monkeypatch.setattr(device, "cache_bytes", lambda _: 10**9)
    assert "caches may hold a part" in Products(torch.float32, torch.device("cpu"), budget_s=0.3).operands
    monkeypatch.setattr(device, "cache_bytes", lambda _: 10**6)
    assert "no cache holds" in Products(torch.float32, torch.device("cpu"), budget_s=0.3).operands


def test_the_file_says_where_caches_may_hold_operands(tmp_path):
    record.write(tmp_path / "a.csv", replace(matmul(), operands=best_matmul._WARM))
    where = accelerators.from_measurement(tmp_path / "a.csv").number("matmul_fp32", "dense").where
    assert "caches may hold a part" in where
    assert "no cache holds" not in where


def test_products_take_turns_and_are_products(products, monkeypatch):
    seen = []
    mm = torch.mm
    monkeypatch.setattr(torch, "mm", lambda a, b, out: (seen.append((a, b, out)), mm(a, b, out=out)))
    products._timed(Shape(64, 32, 48), 5)
    assert len({a.data_ptr() for a, _, _ in seen}) == len({out.data_ptr() for _, _, out in seen}) == 5
    for a, b, out in seen:
        assert (a.shape, b.shape) == ((64, 48), (48, 32))
        assert torch.equal(out, mm(a, b))


def test_short_products_are_repeated_and_the_first_is_not_counted(products, monkeypatch):
    calls, seconds = [], {1: iter([9.0, 0.001])}
    monkeypatch.setattr(
        Products, "_timed", lambda self, shape, n: calls.append(n) or (next(seconds[1]) if n == 1 else 0.002 * n)
    )
    assert products.seconds(Shape(640, 640, 640)) == pytest.approx(0.002, rel=1e-12)
    assert calls == [1, 1, 10]


def test_what_does_not_fit_the_pools_is_not_tried(products):
    assert products.fits(Shape(64, 64, 64))
    assert not products.fits(Shape(products.n_elements, 2, 1))


def test_real_bandwidth():
    result = memory_bandwidth(0.05, "cpu")
    assert set(result.rates) == {"copy", "triad"}
    assert min(min(rates.values) for rates in result.rates.values()) > 0
    assert result.array_bytes >= min(4 * (result.cache_bytes or 0), device.memory_bytes(torch.device("cpu"))[0] // 8)


def test_copy_moves_two_arrays_and_triad_three(monkeypatch):
    monkeypatch.setattr(bandwidth, "_timed", lambda kernel, n_calls, device: 0.5 * n_calls)
    monkeypatch.setattr(bandwidth, "array_bytes", lambda *_: 1000)
    result = memory_bandwidth(1e-9, "cpu")
    assert (result.rates["copy"].values, result.rates["triad"].values) == ((4000.0,), (6000.0,))


def test_an_interrupted_bandwidth_keeps_what_it_has(monkeypatch):
    told = []

    def progress(*what):
        told.append(what)
        if len(told) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(bandwidth, "array_bytes", lambda *_: 6400)
    result = memory_bandwidth(60.0, "cpu", progress)
    assert result.interrupted
    assert [len(rates.values) for rates in result.rates.values()] == [2, 1]


@pytest.mark.parametrize(
    ("lscpu", "expected"),
    [
        ("L1d cache: 64 KiB (2 instances)\nL2 cache:  1 MiB (2 instances)\nL3 cache:   32 MiB (1 instance)", 2**25),
        ("L3 cache:                       1.5 GiB (16 instances)", 3 * 2**29),
        ("L2 cache:            1024K\nL3 cache:            36608K", 36608 * 2**10),
        ("L2 cache: 4 MiB", 2**22),
        ("L1d cache: 64 KiB", None),
        ("", None),
    ],
)
def test_caches_as_lscpu_prints_them(lscpu, expected):
    assert device.parse_cache_bytes(lscpu) == expected


def test_arrays_are_four_times_the_caches_and_leave_half_of_the_memory():
    assert array_bytes(2**30, 2**36) == 2**32
    assert array_bytes(None, None) == 1_024_000_000
    assert 3 * array_bytes(2**30, 2**32) <= 2**31


def test_a_distribution_has_quartiles():
    rates = Distribution((4.0, 1.0, 3.0, 2.0, 5.0))
    assert rates.statistics() == {"lower quartile": 2.0, "median": 3.0, "upper quartile": 4.0, "best": 5.0}
    assert Distribution((2.0,)).quartiles == (2.0, 2.0)
    assert rates.line("{:g}".format) == "3 median, half of them 2 to 4, 5 best of 5"


# ---- the file


def test_what_is_written_is_read_back(tmp_path):
    path = tmp_path / "abacus.csv"
    record.write(path, matmul())
    record.write(path, memory())
    record.write(path, matmul("bf16", (1e12,)))
    chip = accelerators.from_measurement(path)
    assert chip.name == "Abacus (2 threads)"
    assert chip.matmul_dtypes() == ("fp32", "bf16")
    assert (chip.matmul_flop_per_s("fp32"), chip.matmul_flop_per_s("bf16")) == (2.5e11, 1e12)
    assert (chip.memory_bytes_per_s, chip.memory_bytes) == (5.5e10, 16e9)
    number = chip.number("matmul_fp32", "dense", "measured")
    assert (number.condition, number.date_read, number.status) == (("dense", "measured"), "2026-11-20", "primary")
    for part in ("median", "(1024 x 512) times (512 x 2048)", "Abacus, 2 threads", "Linux 6.1", "torch 2.13.0"):
        assert part in number.where
    best = [row.value for row in chip.numbers if row.quantity == "matmul_fp32" and row.where.startswith("best")]
    assert best == [4e11]
    assert accelerators.from_measurement(path.read_text()) == accelerators.from_measurement(str(path)) == chip


def test_a_second_measurement_takes_the_place_of_the_first(tmp_path):
    path = tmp_path / "abacus.csv"
    record.write(path, memory())
    record.write(path, matmul())
    record.write(path, memory(triad=(7e10,)))
    chip = accelerators.from_measurement(path)
    assert (chip.memory_bytes_per_s, chip.matmul_flop_per_s("fp32")) == (7e10, 2.5e11)
    assert len(path.read_text().splitlines()) == 1 + 4 + 4 + 4 + 1


def test_an_interrupted_measurement_takes_nothings_place(tmp_path):
    path = tmp_path / "abacus.csv"
    record.write(path, matmul())
    before = path.read_text()
    record.write(path, matmul(rates=(1e9,), interrupted=True))
    assert path.read_text() == before
    record.write(path, matmul("bf16", (1e9,), interrupted=True))
    chip = accelerators.from_measurement(path)
    assert (chip.matmul_flop_per_s("fp32"), chip.matmul_flop_per_s("bf16")) == (2.5e11, 1e9)
    assert chip.number("matmul_bf16", "dense").where.count("interrupted") == 1


def test_copy_stands_in_where_triad_was_not_reached(tmp_path):
    record.write(tmp_path / "a.csv", memory(triad=()))
    assert accelerators.from_measurement(tmp_path / "a.csv").memory_bytes_per_s == 4.5e10


def test_a_rate_that_was_not_measured_is_said_so(tmp_path):
    record.write(tmp_path / "a.csv", matmul())
    chip = accelerators.from_measurement(tmp_path / "a.csv")
    with pytest.raises(ValueError, match="has no matmul_bf16"):
        chip.matmul_flop_per_s("bf16")
    with pytest.raises(ValueError, match=r"has no matmul_fp32 .*it is known \(dense, measured\)"):
        chip.matmul_flop_per_s("fp32", sparse=True)


def test_a_measured_machine_goes_where_an_accelerator_goes(tmp_path):
    record.write(tmp_path / "a.csv", matmul())
    record.write(tmp_path / "a.csv", memory())
    chip = accelerators.from_measurement(tmp_path / "a.csv")
    assert accelerators.get(chip) is chip
    assert roofline.ridge_flop_per_byte(chip, "fp32") == pytest.approx(2.5e11 / 5.5e10, rel=1e-12)


def changed(column, value, row=2):
    """A good file with one value changed."""
    rows = [{**ABOUT, **measurement} for measurement in record._rows(ABOUT, *matmul().rows()[0])]
    rows[row - 2][column] = value
    lines = [measured.COLUMNS, *([line[name] for name in measured.COLUMNS] for line in rows)]
    return "\n".join(",".join(f'"{value}"' for value in line) for line in lines) + "\n"


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("quantity", "matmul_fp23", "quantity 'matmul_fp23' is not known; nearest: 'matmul_fp32'"),
        ("statistic", "medium", "statistic 'medium' is not known; nearest: 'median'"),
        ("unit", "GFLOPs", "unit 'GFLOPs' is not known; nearest: 'GFLOP/s'"),
        ("unit", "GB/s", "matmul_fp32 is measured in flop_per_s, but unit 'GB/s' is bytes_per_s"),
        ("condition", "dens", "condition 'dens' is not known; nearest: 'dense'"),
        ("value", "fast", "value must be a number greater than 0, got 'fast'"),
        ("value", "0", "value must be a number greater than 0"),
        ("value", "nan", "value must be a number greater than 0"),
        ("value", "", "matmul_fp32 has no value"),
        ("software", "", "matmul_fp32 has no software"),
        ("threads", "two", "threads must be a whole number of at least 1, got 'two'"),
        ("date", "20.11.2026", "date must be YYYY-MM-DD, got '20.11.2026'"),
        ("used", "maybe", "used 'maybe' is not known"),
        ("item", "Slide rule", "item 'Slide rule' is not 'Abacus (2 threads)'; one machine a file"),
        ("used", "yes", "matmul_fp32 is already used from an earlier row"),
    ],
)
def test_a_row_that_cannot_be_trusted_is_named(column, value, says, tmp_path):
    path = tmp_path / "abacus.csv"
    path.write_text(changed(column, value, row=4))
    with pytest.raises(tables.TableError, match=re.escape(f"{path}, row 4: {says}")):
        accelerators.from_measurement(path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "text, row 1: columns must be item, quantity"),
        ("item,quantity,statistics\n", "'statistics' is not one of them; nearest: 'statistic'"),
        (",".join(measured.COLUMNS) + "\n", "text: no row"),
        (",".join(measured.COLUMNS) + "\na,b\n", "text, row 2: expected 13 columns"),
    ],
)
def test_a_file_that_is_none_is_refused(text, says):
    with pytest.raises(tables.TableError, match=re.escape(says)):
        accelerators.from_measurement(text)


def test_a_file_that_is_not_there_or_not_text_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        accelerators.from_measurement(tmp_path / "nothing.csv")
    (tmp_path / "picture.csv").write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(tables.TableError, match="not a text file"):
        accelerators.from_measurement(tmp_path / "picture.csv")


def test_another_machines_file_and_a_strange_one_are_left_alone(tmp_path):
    path = tmp_path / "abacus.csv"
    record.write(path, matmul())
    before = path.read_text()
    with pytest.raises(ValueError, match=r"is of Abacus \(2 threads\), not of Slide rule"):
        record.write(path, matmul(about={**ABOUT, "item": "Slide rule"}))
    path.with_name("notes.csv").write_text("buy,milk\n")
    with pytest.raises(ValueError, match=r"notes.csv, row 1: columns must be"):
        record.write(path.with_name("notes.csv"), matmul())
    assert path.read_text() == before
    assert path.with_name("notes.csv").read_text() == "buy,milk\n"


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupt_while_writing_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, error):
    path = tmp_path / "abacus.csv"
    record.write(path, matmul())
    before = path.read_text()

    def replace(*_):
        raise error

    monkeypatch.setattr(record.os, "replace", replace)
    with pytest.raises(error):
        record.write(path, memory())
    assert [entry.name for entry in tmp_path.iterdir()] == ["abacus.csv"]
    assert path.read_text() == before


SHIPPED = sorted((tables.resources.files("aiinfra") / "data" / "measured").iterdir(), key=lambda path: path.name)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_a_shipped_file_gives_an_accelerator(path):
    chip = accelerators.from_measurement(path)
    assert 0 < chip.memory_bytes_per_s < chip.matmul_flop_per_s("fp32")
    quartile = {row["statistic"]: float(row["value"]) for row in csv.DictReader(path.read_text().splitlines())}
    assert quartile["lower quartile"] <= quartile["median"] <= quartile["upper quartile"] <= quartile["best"]


# ---- the command


def run(*arguments):
    return cli.main(["measure", *arguments])


def test_the_command_measures_prints_and_writes(tmp_path, capsys):
    path = tmp_path / "here.csv"
    assert run("matmul", "--budget-s", "0.3", "--device", "cpu", "--out", str(path)) == 0
    assert run("bandwidth", "--budget-s", "0.05", "--device", "cpu", "--out", str(path)) == 0
    printed = capsys.readouterr()
    for part in ("FLOP/s median, half of them", "copy", "triad", f"torch {torch.__version__}", f"Written: {path}"):
        assert part in printed.out
    assert "best so far" in printed.err
    chip = accelerators.from_measurement(path)
    assert chip.name == device.about(torch.device("cpu"), torch.get_num_threads())["item"]
    assert chip.memory_bytes_per_s > 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("matmul", "--budget-s", "0"), "budget_s must be a finite number greater than 0, got 0.0"),
        (("matmul", "--budget-s", "nan"), "budget_s must be a finite number"),
        (("bandwidth", "--budget-s", "-1"), "budget_s must be a finite number greater than 0, got -1.0"),
        (("matmul", "--dtype", "fp33"), "dtype 'fp33' is not known; nearest: 'fp32'"),
        (("matmul", "--dtype", "fp8"), "dtype 'fp8' cannot be measured"),
        (("matmul", "--device", "gpu"), "device must be one of cpu, cuda, got 'gpu'"),
        (("matmul", "--out", "no/such/folder/x.csv"), "out: there is no folder no/such/folder"),
        (("matmul", "--out", "."), "out: . is a folder"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name_before_anything_is_measured(arguments, says, capsys, monkeypatch):
    monkeypatch.setattr(best_matmul, "Products", None)
    assert run(*arguments) == 2
    assert f"aiinfra measure: {says}" in capsys.readouterr().err


def test_cuda_without_a_gpu_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert run("bandwidth", "--device", "cuda") == 2
    assert "device 'cuda' cannot be used" in capsys.readouterr().err


def test_without_pytorch_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert run("matmul") == 1
    assert "pip install 'aiinfra[torch]'" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [(), ("speed",), ("matmul", "--budget-s", "soon")])
def test_wrong_use_is_explained(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        run(*arguments)
    assert ended.value.code == 2
    assert "usage: aiinfra measure" in capsys.readouterr().err


def test_ctrl_c_writes_what_was_measured_or_nothing(tmp_path):
    path = tmp_path / "here.csv"
    line = [sys.executable, "-m", "aiinfra.cli", "measure", "matmul", "--budget-s", "60", "--device", "cpu"]
    process = subprocess.Popen([*line, "--out", str(path)], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    process.stderr.readline()  # the first line of progress: something has been timed
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert [entry.name for entry in tmp_path.iterdir()] == ["here.csv"]
    assert accelerators.from_measurement(path).matmul_flop_per_s("fp32") > 0


def test_an_interrupt_before_anything_is_measured_writes_nothing(tmp_path, monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(best_matmul, "best_matmul", interrupted)
    assert run("matmul", "--device", "cpu", "--out", str(tmp_path / "x.csv")) == 130
    assert "nothing is written" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_on_a_terminal_the_line_is_written_over():
    class Terminal(list):
        write = list.append

        def isatty(self):
            return True

        def flush(self):
            pass

    now, terminal = iter(range(100)), Terminal()
    progress = command.Progress(terminal, lambda: next(now))
    progress.matmul(Shape(1, 2, 3), 2e11, 5.0)
    progress.bandwidth({"copy": 5e10}, 4.0)
    progress.end()
    assert [text.strip() for text in terminal] == [
        "best so far 200.0 GFLOP/s at m 1, n 2, k 3; 5 s left", "best so far copy 50.0 GB/s; 4 s left", "",
    ]  # fmt: skip
    assert all(text.startswith("\r") for text in terminal)
