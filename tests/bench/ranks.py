"""How long a call of run_ranks takes: the first, which imports torch, and later ones, as ratios.

Run it alone on the machine: python tests/bench/ranks.py
"""

import subprocess
import sys
import time

from aiinfra.measure.ranks import run_ranks

REPEATS = 7


def nothing():
    import torch
    import torch.distributed as dist

    dist.all_reduce(torch.ones(1))


def call_s(n_ranks):
    started = time.perf_counter()
    run_ranks(nothing, n_ranks)
    return time.perf_counter() - started


def import_s():
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch.distributed"], check=True)
    return time.perf_counter() - started


def main():
    import_s()  # brings torch from the disk into memory
    one_import_s = min(import_s() for _ in range(3))
    first_s = call_s(2)
    later_s = {n_ranks: sorted(call_s(n_ranks) for _ in range(REPEATS))[REPEATS // 2] for n_ranks in (2, 4)}
    print(f"first call, 2 ranks     {first_s:6.3f} s  {first_s / one_import_s:5.2f} x importing torch in a new process")
    for n_ranks, seconds in later_s.items():
        print(f"later calls, {n_ranks} ranks    {seconds:6.3f} s  {seconds / first_s:5.2f} x the first call")


if __name__ == "__main__":
    main()
