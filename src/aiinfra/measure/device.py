"""What is measured on: the CPU or a GPU, its memory and caches, and the versions that a measurement is good for."""

import math
import os
import platform
import re
import subprocess
from contextlib import contextmanager, suppress
from datetime import date

import torch

from aiinfra.measure import machine
from aiinfra.units import count

KINDS = ("cpu", "cuda")
_UNITS = {"B": 1, "KiB": 2**10, "K": 2**10, "MiB": 2**20, "M": 2**20, "GiB": 2**30, "G": 2**30}


def get(kind=None):
    """The torch.device for "cpu" or "cuda" (AMD's GPUs too); the GPU where there is one unless given."""
    if kind is None:
        kind = "cuda" if torch.cuda.is_available() else "cpu"
    if kind not in KINDS:
        raise ValueError(f"device must be one of {', '.join(KINDS)}, got {kind!r}")
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device 'cuda' cannot be used: torch {torch.__version__} finds no GPU on this machine")
    return torch.device(kind)


@contextmanager
def threads(n_threads=None):
    """Let PyTorch use `n_threads` on the CPU inside `with threads(n)`, its own number unless given."""
    before = torch.get_num_threads()
    n_threads = before if n_threads is None else count("n_threads", n_threads)
    torch.set_num_threads(n_threads)
    try:
        yield n_threads
    finally:
        torch.set_num_threads(before)


def wait(device):
    """A GPU works on its own: wait for it. Nothing to do on a CPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def hardware(device):
    """Name of the GPU or of the CPU."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return machine.this_cpu().model or f"{platform.machine()} CPU"


def cache_bytes(device):
    """Size of the last-level caches in bytes: L2 of a GPU, all L3 (else all L2) of a CPU; None where not known."""
    if device.type == "cuda":
        return getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0) or None
    with suppress(OSError, subprocess.SubprocessError):
        return parse_cache_bytes(machine._lscpu())
    return None


def parse_cache_bytes(lscpu):
    """All instances of the last level of cache in a printout of lscpu, in bytes, or None.

    >>> parse_cache_bytes("L2 cache:   2 MiB (2 instances)\\nL3 cache:   32 MiB (1 instance)")
    33554432
    """
    found = re.findall(r"^L([23]) cache:\s+([\d.]+) *([KMG]?i?B?)", lscpu, flags=re.MULTILINE)
    sizes = {int(level): math.ceil(float(size) * _UNITS[unit]) for level, size, unit in found if unit in _UNITS}
    return sizes[max(sizes)] if sizes else None


def n_units(device, n_threads):
    """How many tiles are worked on at once: multiprocessors of a GPU, threads on a CPU."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else n_threads


def memory_bytes(device):
    """(free, total) memory in bytes; None for what the system does not tell."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)

    def pages(name):
        with suppress(AttributeError, OSError, ValueError):
            return os.sysconf(name) * os.sysconf("SC_PAGE_SIZE")
        return None

    return pages("SC_AVPHYS_PAGES"), pages("SC_PHYS_PAGES")


def about(device, n_threads):
    """Columns of a file of measurements that say on what, with which versions and when."""
    name = hardware(device)
    on_cpu = device.type == "cpu"
    return {
        "item": f"{name} ({n_threads} thread{'s' if n_threads > 1 else ''})" if on_cpu else name,
        "hardware": name,
        "driver": f"{platform.system()} {platform.release()}" if on_cpu else _gpu_driver(),
        "software": _software(device),
        "threads": str(n_threads),
        "date": date.today().isoformat(),
    }


def _software(device):
    versions = [f"torch {torch.__version__}", f"Python {platform.python_version()}"]
    if device.type == "cuda":
        versions.append(f"ROCm {torch.version.hip}" if torch.version.hip else f"CUDA {torch.version.cuda}")
    else:
        libraries = re.findall(r"(Math Kernel Library|MKL-DNN|OpenBLAS)\D*?v?([\d.]+)", torch.__config__.show())
        names = {"Math Kernel Library": "MKL", "MKL-DNN": "oneDNN"}
        versions += [f"{names.get(library, library)} {number}" for library, number in libraries]
    return ", ".join(versions)


def _gpu_driver():
    if torch.version.hip:
        return f"{platform.system()} {platform.release()}"
    with suppress(OSError, subprocess.SubprocessError, IndexError):
        query = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
        return f"NVIDIA {machine._run(*query).splitlines()[0].strip()}"
    return ""
