"""Run a function on N real ranks: in a notebook with `run_ranks`, on a cluster, unchanged, with `main`.

In a notebook the ranks are processes on this machine that talk over gloo and the loopback interface. On a cluster
torchrun or SLURM starts them, and `main` connects them, over NCCL where there are GPUs.
"""

import linecache
import os
import pickle
import reprlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from aiinfra.measure import supervisor, worker
from aiinfra.measure.failure import RankError, rank_error
from aiinfra.units import count, format_bytes, format_s, nearest, number

MAX_RANKS = 64
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "gather", "scatter")
OPERATIONS = (*COLLECTIVES, "send", "recv")
_RANKS_SHOWN = 8  # values in the repr


class Traffic(NamedTuple):
    """What one rank handed to one kind of operation.

    The payload is what the call is about, not what crosses a wire: how many bytes a rank sends for a payload M
    depends on the algorithm (a ring all-reduce sends 2 (n - 1)/n M). The size M of one call is that of nccl-tests:

    - all_reduce, broadcast, reduce: the tensor
    - all_gather: the gathered output, n times what a rank puts in
    - reduce_scatter: the whole input, n times what a rank gets back
    - all_to_all: the whole input or output of this rank, whichever is larger
    - gather, scatter: the whole tensor list on the root, one tensor on the other ranks
    - send, recv: the tensor, and here the payload does cross the wire

    Barriers and waiting carry none. Coalesced calls count as one. Collectives of Python objects count the bytes of
    their pickles and the exchange of sizes before.

    Attributes
    ----------
    calls : int             number of calls
    payload_bytes : int     sum of their payloads, in bytes
    """

    calls: int
    payload_bytes: int


@dataclass(frozen=True)
class RankResults:
    """What N ranks gave back; every list is by rank.

    Attributes
    ----------
    values : list                           what the function returned
    traffic : list[dict[str, Traffic]]      operation -> calls and payload_bytes
    wall_s : list[float]                    time inside the function, in seconds, without start-up
    output : list[str]                      what was printed
    """

    values: list[Any]
    traffic: list[dict[str, Traffic]]
    wall_s: list[float]
    output: list[str]

    def payload_bytes(self, operation):
        """Bytes that each rank handed to `operation`, such as "all_reduce" or "send": a list by rank."""
        self._check(operation)
        return [of_rank[operation].payload_bytes if operation in of_rank else 0 for of_rank in self.traffic]

    def calls(self, operation):
        """How often each rank called `operation`: a list by rank."""
        self._check(operation)
        return [of_rank[operation].calls if operation in of_rank else 0 for of_rank in self.traffic]

    def _check(self, operation):
        known = {*OPERATIONS, *(name for of_rank in self.traffic for name in of_rank)}
        if operation not in known:
            raise ValueError(f"operation {operation!r} is not known; {nearest(operation, known)}")

    def show_output(self):
        """Print what the ranks printed, rank by rank."""
        for rank, text in enumerate(self.output):
            for line in text.splitlines():
                print(f"[rank {rank}] {line}")

    def __repr__(self):
        n_ranks = len(self.values)
        lines = [f"{n_ranks} rank{'s' if n_ranks > 1 else ''}, {format_s(max(self.wall_s))} on the slowest"]
        lines += [f"  rank {rank} returned {_shorten(value)}" for rank, value in enumerate(self.values[:_RANKS_SHOWN])]
        lines += [f"  and {n_ranks - _RANKS_SHOWN} more"] if n_ranks > _RANKS_SHOWN else []
        for name in dict.fromkeys(name for of_rank in self.traffic for name in of_rank):
            calls, payloads = self.calls(name), self.payload_bytes(name)
            lines.append(f"  {name}: calls {_span(calls, str)}, payload {_span(payloads, format_bytes)}")
        if any(self.output):
            lines.append("  show_output() prints what the ranks printed")
        return "\n".join(lines)


def _shorten(value):
    shortener = reprlib.Repr()
    shortener.maxother = shortener.maxstring = 60
    return " ".join(shortener.repr(value).split())


def _span(values, text):
    low, high = text(min(values)), text(max(values))
    return low if low == high else f"{low} to {high}"


def run_ranks(fn, n_ranks, *args, timeout_s=60, **kwargs):
    """Run `fn(*args, **kwargs)` on `n_ranks` real processes of this machine, connected by gloo over loopback.

    `fn` may be defined in a notebook cell. In each rank `torch.distributed` is initialised, torch uses one thread,
    and RANK, LOCAL_RANK and WORLD_SIZE are set as torchrun sets them. The ranks share nothing with the notebook:
    arguments, and globals that `fn` uses, arrive as copies. Temporary files of a rank are removed with it. The first
    call takes some seconds, to import torch. A function in a module is imported by each rank, one in a notebook or in
    the main script is sent to it.

    Parameters
    ----------
    fn : callable           what each rank runs
    n_ranks : int           1 to 64
    timeout_s : float       > 0, in seconds, counted from when all ranks are connected; then all are ended

    Returns
    -------
    RankResults: by rank, what `fn` returned, bytes by collective, wall time, and what was printed.

    Raises
    ------
    ValueError      an argument that makes no sense
    TypeError       `fn` or an argument that cannot be sent to another process
    RankError       a rank raised, died, or was not finished in time; all ranks have been ended
    RuntimeError    called inside a rank
    """
    if not callable(fn):
        raise ValueError(f"fn must be a function to run on each rank, got {fn!r}")
    n_ranks = count("n_ranks", n_ranks)
    if n_ranks > MAX_RANKS:
        raise ValueError(f"n_ranks must be a whole number of at most {MAX_RANKS}, got {n_ranks!r}")
    timeout_s = number("timeout_s", timeout_s, above=True)
    if worker.inside_a_rank:
        raise RuntimeError(
            "run_ranks was called inside a rank; if fn is in a file that calls run_ranks when it is imported, "
            "put that call under `if __name__ == '__main__':`"
        )
    content = _pickled(fn, args, kwargs)
    with tempfile.TemporaryDirectory(prefix="aiinfra-ranks-", ignore_cleanup_errors=True) as folder:
        worker.call_path(folder).write_bytes(content)
        reply = supervisor.ask(folder, n_ranks, timeout_s)
        if reply["reason"] == "broken":
            raise RankError(f"the ranks could not be started:\n{reply['text']}")
        output = [_read_text(worker.output_path(folder, rank)) for rank in range(n_ranks)]
        stuck = [_read_text(worker.stuck_path(folder, rank)) for rank in range(n_ranks)]
        # other ranks may have been ended while they wrote theirs
        reported = [phase in ("returned", "raised") for phase in reply["phases"]]
        reports = [_read_report(folder, rank) if reported[rank] else {} for rank in range(n_ranks)]
    if reply["reason"] != "returned":
        raise rank_error(reply, reports, output, stuck, timeout_s)
    return RankResults(
        values=[pickle.loads(report["value"]) for report in reports],
        traffic=[report["traffic"] for report in reports],
        wall_s=[report["wall_s"] for report in reports],
        output=output,
    )


def _pickled(fn, args, kwargs):
    import cloudpickle

    # the source of notebook cells, which is in no file, so that tracebacks in the ranks can show it
    sources = {name: entry[2] for name, entry in linecache.cache.items() if len(entry) > 2 and not Path(name).exists()}
    try:
        return cloudpickle.dumps((fn, args, kwargs, sources))
    except Exception as error:
        name = getattr(fn, "__name__", repr(fn))
        raise TypeError(
            f"{name}, or something that it uses or is given, cannot be sent to the ranks: {error}"
        ) from error


def _read_text(path):
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def _read_report(folder, rank):
    return pickle.loads(worker.report_path(folder, rank).read_bytes())


def device():
    """The device that this rank's tensors belong on: its own GPU where `main` has connected GPUs, else the CPU."""
    import torch
    import torch.distributed as dist

    if "nccl" in dist.get_backend_config():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def main(fn, *args, **kwargs):
    """Run `fn(*args, **kwargs)` on this rank of a job that torchrun or SLURM's srun has started.

    Connects the ranks (NCCL for GPU tensors where there are GPUs, gloo for CPU tensors), runs `fn`, and prints what
    it returned on rank 0. From torchrun it reads RANK, WORLD_SIZE and LOCAL_RANK, from srun SLURM_PROCID,
    SLURM_NTASKS and SLURM_LOCALID; both need MASTER_ADDR and MASTER_PORT, which torchrun sets itself.

    Returns what `fn` returned on this rank. Raises RuntimeError where a variable is missing.

        torchrun --nproc-per-node 8 job.py                                     # one machine
        export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1) MASTER_PORT=29500
        srun --ntasks-per-node 8 python job.py                                 # many, under SLURM
    """
    import torch
    import torch.distributed as dist

    _adopt_slurm(os.environ)
    missing = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise RuntimeError(
            f"{', '.join(missing)} not set in the environment; start this file with "
            "`torchrun --nproc-per-node N FILE`, or with srun after exporting MASTER_ADDR and MASTER_PORT"
        )
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count())
        dist.init_process_group("cpu:gloo,cuda:nccl")
    else:
        dist.init_process_group("gloo")
    value = fn(*args, **kwargs)
    if dist.get_rank() == 0:
        print(value, flush=True)
    dist.barrier()
    dist.destroy_process_group()
    return value


def _adopt_slurm(environ):
    if "RANK" not in environ and "SLURM_PROCID" in environ:
        names = {"RANK": "SLURM_PROCID", "WORLD_SIZE": "SLURM_NTASKS", "LOCAL_RANK": "SLURM_LOCALID"}
        environ.update({name: environ[slurm] for name, slurm in names.items() if slurm in environ})
