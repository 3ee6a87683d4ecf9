"""The CPU of this machine: what lscpu says, the peak that follows, and binding a process to some of its cores."""

import os
import platform
import re
import subprocess
import warnings
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from aiinfra import accelerators, precision
from aiinfra.units import count, number

_X86 = ("x86_64", "amd64", "i686", "i386")

# first flag that a CPU has -> bits of its widest vector unit
_VECTOR_BITS = (("avx512f", 512), ("avx2", 256), ("avx", 256), ("sse", 128), ("asimd", 128), ("neon", 128))


@dataclass(frozen=True)
class Cpu:
    """The processors of one machine, as lscpu prints them; what is not known is None or empty.

    Attributes
    ----------
    model, architecture : str       such as "AMD EPYC 7642 48-Core Processor" and "x86_64"
    sockets, cores_per_socket, threads_per_core : int
    cpus : tuple of int             numbers of the hardware threads that are on-line; lscpu calls each one a CPU
    n_numa_nodes : int
    numa_cpus : dict                NUMA node -> tuple of its CPU numbers; empty for a node of memory only
    max_clock_hz : float            "CPU max MHz": the highest that the driver admits, which may be base or boost
    base_clock_hz : float           from "@ 2.30GHz" in the model's name, or from BogoMIPS / 2
    clock_hz : float                the one that a peak is computed with
    clock_source : str              where `clock_hz` comes from, or "unknown"
    flags : frozenset of str        instruction sets, such as "avx2"
    core_of_cpu : dict              CPU number -> lowest CPU number on the same core; only `this_cpu` knows it
    """

    model: str | None
    architecture: str | None
    sockets: int | None
    cores_per_socket: int | None
    threads_per_core: int | None
    cpus: tuple[int, ...]
    n_numa_nodes: int | None
    numa_cpus: dict[int, tuple[int, ...]]
    max_clock_hz: float | None
    base_clock_hz: float | None
    clock_hz: float | None
    clock_source: str
    flags: frozenset[str] = field(repr=False)
    core_of_cpu: dict[int, int] = field(default_factory=dict, repr=False)

    @property
    def n_cores(self):
        """Cores of all sockets: what multiplies. None where it is not known."""
        if self.sockets is None or self.cores_per_socket is None:
            return None
        return self.sockets * self.cores_per_socket

    @property
    def n_threads(self):
        """Hardware threads that are on-line: what lscpu's "CPU(s)" counts. Two threads of a core share its units."""
        return len(self.cpus) or None


def parse_lscpu(text):
    """The `Cpu` that a printout of `lscpu` describes.

    A clock is looked for in "CPU max MHz", then "@ 2.30GHz" in the model's name, then BogoMIPS / 2, then "CPU MHz".
    Virtual machines often print only BogoMIPS. The kernel computes it on x86 as twice the rate of the time stamp
    counter, which ticks at the base clock whatever the cores do; on Arm it counts another timer and says nothing.
    "CPU MHz" comes last: it is the clock of that moment, and an idle core's is low.

    Raises ValueError where no line is one of lscpu's, such as a printout in another language.
    """
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    lines: dict[str, str] = {}
    for label, value in pairs:
        lines.setdefault(label.strip(), value.strip())
    if not {"Architecture", "Model name", "CPU(s)"} & lines.keys():
        raise ValueError("text is not a printout of lscpu in English; LC_ALL=C lscpu prints one")
    n_cpus = _int(lines, "CPU(s)") or 0
    nodes = {int(label[9:-7]): value for label, value in lines.items() if re.fullmatch(r"NUMA node\d+ CPU\(s\)", label)}
    base_clock_hz, base_source = _base_clock(lines)
    clocks = (
        (_mhz(lines, "CPU max MHz"), "CPU max MHz"),
        (base_clock_hz, base_source),
        (_mhz(lines, "CPU MHz"), "CPU MHz"),
    )
    clock_hz, clock_source = next((clock for clock in clocks if clock[0]), (None, "unknown"))
    return Cpu(
        model=lines.get("Model name") or None,
        architecture=lines.get("Architecture") or None,
        sockets=_int(lines, "Socket(s)") or _int(lines, "Cluster(s)"),
        cores_per_socket=_int(lines, "Core(s) per socket") or _int(lines, "Core(s) per cluster"),
        threads_per_core=_int(lines, "Thread(s) per core"),
        cpus=_cpu_list(lines.get("On-line CPU(s) list", "")) or tuple(range(n_cpus)),
        n_numa_nodes=_int(lines, "NUMA node(s)"),
        numa_cpus={node: _cpu_list(nodes[node]) for node in sorted(nodes)},
        max_clock_hz=_mhz(lines, "CPU max MHz"),
        base_clock_hz=base_clock_hz,
        clock_hz=clock_hz,
        clock_source=clock_source,
        flags=frozenset(lines.get("Flags", "").split()),
    )


def _base_clock(lines):
    named = re.search(r"@ *([\d.]+) *([GM])Hz", lines.get("Model name", ""))
    if named:
        return float(named[1]) * (1e9 if named[2] == "G" else 1e6), "model name"
    bogomips_hz = _mhz(lines, "BogoMIPS")
    if bogomips_hz and lines.get("Architecture", "").lower() in _X86:
        return bogomips_hz / 2, "BogoMIPS / 2"
    return None, "unknown"


def _int(lines, label):
    value = lines.get(label, "")
    return int(value) if value.isdecimal() else None


def _mhz(lines, label):
    with suppress(ValueError):
        return float(lines.get(label, "").replace(",", ".")) * 1e6 or None
    return None


def _cpu_list(text):
    """CPU numbers in the kernel's notation.

    >>> _cpu_list("0-2,96-98,7")
    (0, 1, 2, 7, 96, 97, 98)
    """
    ranges = [part.partition("-") for part in text.split(",") if part.strip()]
    return tuple(sorted(k for low, _, high in ranges for k in range(int(low), int(high or low) + 1)))


# ---- this machine


def this_cpu():
    """The `Cpu` of this machine, from lscpu, or from /proc/cpuinfo or macOS's sysctl where there is no lscpu.

    In a container it is the whole machine: `usable_cpus` says what this process may run on. In a virtual machine it
    is what the hypervisor chose to show. Never raises; a system that says nothing gives a `Cpu` full of None.
    """
    for read in (_lscpu, _proc_cpuinfo, _sysctl):
        with suppress(OSError, subprocess.SubprocessError, ValueError, LookupError):
            return replace(parse_lscpu(read()), core_of_cpu=_core_of_cpu())
    lines = (f"Architecture: {platform.machine()}", f"Model name: {platform.processor()}", f"CPU(s): {os.cpu_count()}")
    return parse_lscpu("\n".join(lines))


def _run(*command):
    environment = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True, env=environment).stdout


def _lscpu():
    return _run("lscpu")


def _proc_cpuinfo():
    """What /proc/cpuinfo says, in lscpu's words; it knows nothing of NUMA."""
    blocks = []
    for block in Path("/proc/cpuinfo").read_text(encoding="utf-8").strip().split("\n\n"):
        pairs = (line.partition(":") for line in block.splitlines())
        blocks.append({label.strip(): value.strip() for label, _, value in pairs})
    first = blocks[0]
    cores = {(block["physical id"], block["core id"]) for block in blocks if "core id" in block}
    sockets = {socket for socket, _ in cores}
    lines = {
        "Architecture": platform.machine(),
        "Model name": first.get("model name", ""),
        "CPU(s)": len(blocks),
        "CPU MHz": first.get("cpu MHz", ""),
        "BogoMIPS": first.get("bogomips", ""),
        "Flags": first.get("flags") or first.get("Features", ""),
    }
    if cores:
        lines |= {"Socket(s)": len(sockets), "Core(s) per socket": len(cores) // len(sockets)}
        lines |= {"Thread(s) per core": len(blocks) // len(cores)}
    return "\n".join(f"{label}: {value}" for label, value in lines.items())


def _sysctl():
    """What macOS's sysctl says, in lscpu's words. Apple's own chips tell no clock."""
    values = dict(line.split(": ", 1) for line in _run("sysctl", "machdep.cpu", "hw").splitlines() if ": " in line)
    cores, threads, sockets = (int(values.get(f"hw.{name}", 1)) for name in ("physicalcpu", "logicalcpu", "packages"))
    flags = " ".join(values.get(f"machdep.cpu.{name}", "").lower() for name in ("features", "leaf7_features"))
    lines = {
        "Architecture": platform.machine(),
        "Model name": values["machdep.cpu.brand_string"],
        "CPU(s)": threads,
        "Socket(s)": sockets,
        "Core(s) per socket": cores // sockets,
        "Thread(s) per core": threads // cores,
        "CPU max MHz": int(values.get("hw.cpufrequency_max", 0)) / 1e6,
        "Flags": "asimd" if platform.machine() == "arm64" else flags,
    }
    return "\n".join(f"{label}: {value}" for label, value in lines.items())


def _core_of_cpu():
    lists = Path("/sys/devices/system/cpu").glob("cpu[0-9]*/topology/thread_siblings_list")
    return {int(path.parts[-3][3:]): _cpu_list(path.read_text())[0] for path in lists}


def usable_cpus():
    """Numbers of the CPUs that this process may run on; in a container or a SLURM job fewer than lscpu shows.

    A limit on CPU *time* (`docker run --cpus 2`) does not show here: the process sees all CPUs and is made to wait.
    """
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


# ---- the peak


def vector_bits(cpu):
    """Width in bits of the widest vector unit that `cpu.flags` names; ValueError where they name none.

    Arm's SVE has a width of its own, which the flags do not tell: 128 is counted.
    """
    for flag, bits in _VECTOR_BITS:
        if flag in cpu.flags:
            return bits
    raise ValueError(
        f"cpu.flags names no vector unit of {cpu.model}; known are {', '.join(f for f, _ in _VECTOR_BITS)}"
    )


def peak_flop_per_s(cpu, dtype="fp32", *, fma_units=2, n_cores=None, clock_hz=None):
    """Peak of the vector units, in FLOP/s: cores x FMA units x lanes x 2 x clock.

    A lane is one number in a vector register: 16, 8 or 4 of fp32 in 512, 256 or 128 bits. Three of the factors
    cannot be read from lscpu:

    - the number of FMA units a core. Two is usual; some Xeons have one for 512 bits, and Zen 4 spends both of its
      256-bit units on one 512-bit instruction; recent Arm server cores have four of 128 bits
    - the clock under load: boost raises it above base, wide vectors, heat and busy neighbours lower it
    - matrix units (flags `amx_...`), which multiply bf16 and int8 many times faster; they are not counted

    A CPU without FMA (SSE, first AVX) adds and multiplies in two units: say `fma_units=1`.

    Parameters
    ----------
    cpu : Cpu
    dtype : str             "fp32" or "fp64"
    fma_units : int         vector units of a core that each start one fused multiply-add a clock
    n_cores : int           cores that take part; all of `cpu` unless given. Count cores, not threads
    clock_hz : float        `cpu.clock_hz` unless given

    Raises ValueError for an argument that makes no sense, or that must be given because lscpu did not tell it.

    >>> cpu = parse_lscpu("Model name: X @ 2.0GHz\\nSocket(s): 1\\nCore(s) per socket: 64\\nFlags: fma avx2")
    >>> peak_flop_per_s(cpu)
    4096000000000.0
    """
    if dtype not in ("fp32", "fp64"):
        raise ValueError(f"dtype must be 'fp32' or 'fp64', got {dtype!r}; the flags do not tell the rate of others")
    for name, given, known in (("n_cores", n_cores, cpu.n_cores), ("clock_hz", clock_hz, cpu.clock_hz)):
        if given is None and known is None:
            raise ValueError(f"{name} must be given: the printout does not tell it for {cpu.model}")
    n_cores = count("n_cores", cpu.n_cores if n_cores is None else n_cores)
    clock_hz = number("clock_hz", cpu.clock_hz if clock_hz is None else clock_hz, above=True)
    lanes = vector_bits(cpu) / (8 * precision.get(dtype).bytes)
    return accelerators.peak_flop_per_s(n_cores * count("fma_units", fma_units), 2 * lanes, clock_hz)


# ---- binding


def cores_of_node(cpu, node):
    """CPU numbers of NUMA node `node`, one for each core: what to bind a program to that has one thread a core.

    All hardware threads of the node are `cpu.numa_cpus[node]`. Which two share a core is known for this machine. A
    printout does not say; there the usual numbering of Linux servers is assumed, first threads before second ones.
    """
    if node not in cpu.numa_cpus:
        raise ValueError(f"node must be one of {list(cpu.numa_cpus)}, got {node!r}")
    cpus = cpu.numa_cpus[node]
    if cpu.core_of_cpu:
        firsts = {cpu.core_of_cpu.get(k, k): k for k in reversed(cpus)}
        return tuple(sorted(firsts.values()))
    return cpus[: len(cpus) // (cpu.threads_per_core or 1)]


@contextmanager
def bind(cpus):
    """Keep this process on `cpus` inside `with bind(cpus)`; afterwards, also after an error, as it was before.

    Binds all threads that the process has, and so those it starts inside; processes it starts inherit it too.
    PyTorch keeps its number of threads: set it to the number of cores left. Gives the CPUs that the process may use
    inside. Where the system can't bind (macOS, Windows) it warns and changes nothing.

    Raises ValueError where `cpus` is empty or names one that this process may not use.
    """
    wanted = tuple(sorted({count("cpus", k, minimum=0) for k in cpus}))
    usable = usable_cpus()
    if not wanted or not set(wanted) <= set(usable):
        raise ValueError(f"cpus must be some of those that this process may use, {list(usable)}; got {list(wanted)}")
    if not hasattr(os, "sched_setaffinity"):
        warnings.warn(f"{platform.system()} cannot bind a process to CPUs; all stay in use", stacklevel=3)
        yield usable
        return
    before = {}
    for thread in _threads():
        with suppress(ProcessLookupError):
            before[thread] = os.sched_getaffinity(thread)
    try:
        _set_affinity(dict.fromkeys(before, wanted))
        yield wanted
    finally:
        _set_affinity({thread: before.get(thread, usable) for thread in _threads()})


def _threads():
    """Thread numbers of this process: `sched_setaffinity(0)` alone would bind only the thread that calls it."""
    tasks = Path("/proc/self/task")
    return [int(path.name) for path in tasks.iterdir()] if tasks.exists() else [0]


def _set_affinity(cpus_of_thread):
    for thread, cpus in cpus_of_thread.items():
        with suppress(ProcessLookupError):  # it has ended since
            os.sched_setaffinity(thread, cpus)
