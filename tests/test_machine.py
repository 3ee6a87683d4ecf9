"""What a printout of lscpu says and does not say, the peak that follows from it, and binding that leaves no trace."""

import os
import platform
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiinfra import accelerators
from aiinfra.measure import machine
from aiinfra.measure.machine import (
    bind,
    cores_of_node,
    parse_lscpu,
    peak_flop_per_s,
    this_cpu,
    usable_cpus,
    vector_bits,
)

# Two sockets, idle, and boost is not in "CPU max MHz".
EPYC = """
Architecture:          x86_64
CPU(s):                192
On-line CPU(s) list:   0-191
Thread(s) per core:    2
Core(s) per socket:    48
Socket(s):             2
NUMA node(s):          2
Model name:            AMD EPYC 7642 48-Core Processor
CPU MHz:               1500.000
CPU max MHz:           2300.0000
CPU min MHz:           1500.0000
BogoMIPS:              4600.12
NUMA node0 CPU(s):     0-47,96-143
NUMA node1 CPU(s):     48-95,144-191
Flags:                 fpu sse sse2 ht fma avx avx2
"""

# Newer lscpu: other order and spacing, sockets interleaved, second threads switched off.
XEON = """
Architecture:                         x86_64
CPU(s):                               16
  On-line CPU(s) list:                0-7
  Off-line CPU(s) list:               8-15
  Model name:                         Intel(R) Xeon(R) Gold 5122 CPU @ 3.60GHz
    Thread(s) per core:               1
    Core(s) per socket:               4
    Socket(s):                        2
    CPU max MHz:                      3700.0000
    BogoMIPS:                         7200.00
    Flags:                            sse avx fma avx2 avx512f avx512dq
NUMA:
  NUMA node(s):                       2
  NUMA node0 CPU(s):                  0,2,4,6
  NUMA node1 CPU(s):                  1,3,5,7
Vulnerabilities:
  Meltdown:                           Mitigation; PTI
"""

# Arm: no clock at all, BogoMIPS of another timer, clusters for sockets, and a node that is memory only.
NEOVERSE = """
Architecture:           aarch64
CPU(s):                 64
On-line CPU(s) list:    0-63
Model name:             Neoverse-N1
Thread(s) per core:     1
Core(s) per cluster:    64
Socket(s):              -
Cluster(s):             1
BogoMIPS:               243.75
Flags:                  fp asimd aes crc32 atomics asimddp
NUMA node(s):           2
NUMA node0 CPU(s):      0-63
NUMA node1 CPU(s):
"""

# A free notebook in the cloud: two "CPUs" are two threads of one core.
VIRTUAL = """
Architecture:          x86_64
CPU(s):                2
On-line CPU(s) list:   0,1
Model name:            Intel(R) Xeon(R) CPU @ 2.20GHz
Thread(s) per core:    2
Core(s) per socket:    1
Socket(s):             1
BogoMIPS:              4399.99
NUMA node(s):          1
NUMA node0 CPU(s):     0,1
Flags:                 sse sse2 fma avx avx2
"""


# ---- reading


def test_two_sockets_of_48_cores_are_192_threads():
    cpu = parse_lscpu(EPYC)
    assert (cpu.model, cpu.sockets, cpu.cores_per_socket) == ("AMD EPYC 7642 48-Core Processor", 2, 48)
    assert (cpu.n_cores, cpu.n_threads, cpu.threads_per_core) == (96, 192, 2)
    assert cpu.n_numa_nodes == 2
    assert {node: len(cpus) for node, cpus in cpu.numa_cpus.items()} == {0: 96, 1: 96}
    assert cpu.numa_cpus[1] == (*range(48, 96), *range(144, 192))
    assert sorted(cpu.numa_cpus[0] + cpu.numa_cpus[1]) == list(cpu.cpus)


def test_the_highest_clock_of_a_printout_may_be_the_base_clock():
    cpu = parse_lscpu(EPYC)
    assert (cpu.clock_hz, cpu.clock_source) == (2.3e9, "CPU max MHz")
    assert cpu.base_clock_hz == pytest.approx(cpu.max_clock_hz, rel=1e-4)
    assert accelerators.get("EPYC 7642").value("clock", "boost clock") == 3.3e9  # which no line shows


def test_threads_that_are_off_line_are_not_counted():
    cpu = parse_lscpu(XEON)
    assert (cpu.n_cores, cpu.n_threads) == (8, 8)
    assert cpu.numa_cpus == {0: (0, 2, 4, 6), 1: (1, 3, 5, 7)}
    assert (cpu.clock_hz, cpu.max_clock_hz, cpu.base_clock_hz) == (3.7e9, 3.7e9, 3.6e9)


def test_arm_tells_no_clock_and_its_bogomips_is_not_taken_for_one():
    cpu = parse_lscpu(NEOVERSE)
    assert (cpu.n_cores, cpu.sockets, cpu.cores_per_socket) == (64, 1, 64)
    assert (cpu.clock_hz, cpu.base_clock_hz, cpu.clock_source) == (None, None, "unknown")
    assert cpu.numa_cpus[1] == ()


def test_a_virtual_machine_may_have_fewer_cores_than_cpus():
    cpu = parse_lscpu(VIRTUAL)
    assert (cpu.n_cores, cpu.n_threads) == (1, 2)


@pytest.mark.parametrize(
    ("lines", "clock_hz", "source"),
    [
        ("CPU max MHz: 3000\nBogoMIPS: 4000\nCPU MHz: 1000", 3e9, "CPU max MHz"),
        ("CPU max MHz: 3000,0000", 3e9, "CPU max MHz"),
        ("Model name: Xeon @ 2.50GHz\nBogoMIPS: 4000\nCPU MHz: 1000", 2.5e9, "model name"),
        ("Model name: Celeron @ 900MHz", 0.9e9, "model name"),
        ("BogoMIPS: 4000\nCPU MHz: 1000", 2e9, "BogoMIPS / 2"),
        ("CPU MHz: 1000", 1e9, "CPU MHz"),
        ("CPU max MHz: 0\nBogoMIPS: -", None, "unknown"),
    ],
)
def test_which_clock_is_taken(lines, clock_hz, source):
    cpu = parse_lscpu(f"Architecture: x86_64\n{lines}")
    assert (cpu.clock_hz, cpu.clock_source) == (clock_hz, source)


def test_what_a_printout_leaves_out_is_none():
    cpu = parse_lscpu("Architecture: x86_64")
    assert (cpu.model, cpu.n_cores, cpu.n_threads, cpu.n_numa_nodes) == (None, None, None, None)
    assert (cpu.cpus, cpu.numa_cpus, cpu.flags) == ((), {}, frozenset())


@pytest.mark.parametrize("text", ["", "nonsense", "Architektur: x86_64\nModellname: EPYC"])
def test_another_text_is_refused(text):
    with pytest.raises(ValueError, match="LC_ALL=C lscpu"):
        parse_lscpu(text)


@given(st.sets(st.integers(0, 300), min_size=1))
def test_cpu_lists_are_read_as_the_kernel_writes_them(cpus):
    ordered = sorted(cpus)
    starts = [k for k in ordered if k - 1 not in cpus]
    ends = [k for k in ordered if k + 1 not in cpus]
    text = ",".join(str(low) if low == high else f"{low}-{high}" for low, high in zip(starts, ends, strict=True))
    assert machine._cpu_list(text) == tuple(ordered)


# ---- this machine


def test_this_machine_is_read():
    cpu = this_cpu()
    assert cpu.n_threads >= len(usable_cpus()) >= 1
    assert set(cpu.core_of_cpu.values()) <= set(cpu.core_of_cpu)


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="Linux")
def test_without_lscpu_the_kernel_says_the_same(monkeypatch):
    with_lscpu = this_cpu()
    monkeypatch.setattr(machine, "_lscpu", lambda: (_ for _ in ()).throw(FileNotFoundError()))
    without = this_cpu()
    assert (without.n_threads, without.flags) == (with_lscpu.n_threads, with_lscpu.flags)
    if platform.machine() == "x86_64":
        assert (without.model, without.n_cores) == (with_lscpu.model, with_lscpu.n_cores)


def test_macos_is_read_through_sysctl(monkeypatch):
    said = "hw.physicalcpu: 8\nhw.logicalcpu: 8\nhw.packages: 1\nmachdep.cpu.brand_string: Apple M2\n"
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    monkeypatch.setattr(machine, "_run", lambda *command: said)
    cpu = parse_lscpu(machine._sysctl())
    assert (cpu.model, cpu.n_cores, cpu.n_threads, cpu.clock_hz) == ("Apple M2", 8, 8, None)
    assert vector_bits(cpu) == 128


@pytest.mark.parametrize("error", [OSError(), subprocess.TimeoutExpired("lscpu", 10), ValueError(), KeyError("hw")])
def test_a_system_that_says_nothing_raises_nothing(monkeypatch, error):
    for name in ("_lscpu", "_proc_cpuinfo", "_sysctl"):
        monkeypatch.setattr(machine, name, lambda: (_ for _ in ()).throw(error))
    cpu = this_cpu()
    assert (cpu.n_threads, cpu.n_cores, cpu.clock_hz) == (os.cpu_count(), None, None)


# ---- the peak


def test_the_peak_of_a_printout_equals_the_catalogue():
    per_socket = accelerators.get("EPYC 7642").vector_peak_from_clock_flop_per_s("fp32", clock_hz=2.3e9)
    assert peak_flop_per_s(parse_lscpu(EPYC)) == pytest.approx(2 * per_socket, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "arguments", "peak"),
    [
        (EPYC, {}, 96 * 2 * 8 * 2 * 2.3e9),
        (EPYC, {"dtype": "fp64"}, 96 * 2 * 4 * 2 * 2.3e9),
        (EPYC, {"n_cores": 1, "clock_hz": 3.3e9}, 2 * 8 * 2 * 3.3e9),
        (XEON, {}, 8 * 2 * 16 * 2 * 3.7e9),
        (XEON, {"fma_units": 1}, 8 * 16 * 2 * 3.7e9),
        (NEOVERSE, {"clock_hz": 2.5e9}, 64 * 2 * 4 * 2 * 2.5e9),
        (VIRTUAL, {}, 1 * 2 * 8 * 2 * 2.2e9),
    ],
)
def test_peak_is_cores_times_units_times_lanes_times_two_times_clock(text, arguments, peak):
    assert peak_flop_per_s(parse_lscpu(text), **arguments) == pytest.approx(peak, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "arguments", "named"),
    [
        (NEOVERSE, {}, "clock_hz must be given"),
        ("Model name: X @ 2GHz\nFlags: avx2", {}, "n_cores must be given"),
        ("CPU(s): 2", {"n_cores": 2, "clock_hz": 2e9}, "cpu.flags"),
        (EPYC, {"dtype": "bf16"}, "dtype"),
        (EPYC, {"fma_units": 0}, "fma_units"),
        (EPYC, {"n_cores": 0}, "n_cores"),
        (EPYC, {"clock_hz": 0}, "clock_hz"),
    ],
)
def test_what_is_missing_or_makes_no_sense_is_named(text, arguments, named):
    with pytest.raises(ValueError, match=named):
        peak_flop_per_s(parse_lscpu(text), **arguments)


# ---- binding


def test_a_node_gives_one_cpu_for_each_core():
    assert cores_of_node(parse_lscpu(EPYC), 0) == tuple(range(48))
    assert cores_of_node(parse_lscpu(EPYC), 1) == tuple(range(48, 96))
    assert cores_of_node(parse_lscpu(XEON), 1) == (1, 3, 5, 7)


def test_cores_that_the_machine_tells_are_not_guessed():
    neighbours = "CPU(s): 4\nThread(s) per core: 2\nNUMA node0 CPU(s): 0-3"
    cpu = replace(parse_lscpu(neighbours), core_of_cpu={0: 0, 1: 0, 2: 2, 3: 2})
    assert cores_of_node(cpu, 0) == (0, 2)
    assert cores_of_node(parse_lscpu(neighbours), 0) == (0, 1)


def test_an_unknown_node_is_named():
    with pytest.raises(ValueError, match=r"node must be one of \[0, 1\], got 2"):
        cores_of_node(parse_lscpu(EPYC), 2)


needs_affinity = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system cannot bind")


@needs_affinity
@pytest.mark.parametrize("fails", [False, True])
def test_binding_holds_inside_and_is_gone_afterwards(fails):
    before = usable_cpus()
    inside = None
    try:
        with bind(before[-1:]) as bound:
            inside = usable_cpus()
            if fails:
                raise KeyError
    except KeyError:
        assert fails
    assert (bound, inside, usable_cpus()) == (before[-1:], before[-1:], before)


@needs_affinity
def test_threads_of_before_and_of_inside_and_processes_are_bound_and_freed():
    before, seen, meet = usable_cpus(), [], threading.Barrier(3, timeout=60)

    def look_twice():
        for _ in range(2):
            meet.wait()
            seen.append(usable_cpus())
            meet.wait()

    def let_them_look():
        meet.wait()
        meet.wait()

    threading.Thread(target=look_twice, daemon=True).start()
    with bind(before[:1]):
        threading.Thread(target=look_twice, daemon=True).start()
        ask = "import os; print(len(os.sched_getaffinity(0)))"
        of_child = int(subprocess.run([sys.executable, "-c", ask], capture_output=True, check=True).stdout)
        let_them_look()
    let_them_look()
    assert of_child == 1
    assert seen == [before[:1], before[:1], before, before]


@pytest.mark.parametrize("cpus", [[], [10**6], [-1], [0.5], ["0"]])
def test_cpus_that_make_no_sense_are_named_and_change_nothing(cpus):
    before = usable_cpus()
    with pytest.raises(ValueError, match="cpus must be"), bind(cpus):
        pass
    assert usable_cpus() == before


def test_a_system_that_cannot_bind_says_so(monkeypatch):
    for name in ("sched_setaffinity", "sched_getaffinity"):
        monkeypatch.delattr(os, name, raising=False)
    with pytest.warns(UserWarning, match="cannot bind a process to CPUs"), bind([0]) as bound:
        pass
    assert bound == tuple(range(os.cpu_count()))
