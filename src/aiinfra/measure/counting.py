"""Bytes that a rank hands to collectives; the only file that touches PyTorch's private dispatch interface."""

import torch
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from aiinfra.measure.ranks import Traffic

_NAMESPACES = ("c10d", "_c10d_functional", "c10d_functional")
_NO_PAYLOAD = ("barrier", "monitored_barrier_", "wait_tensor", "_wrap_tensor_autograd", "check_for_nan")

# start of the name inside PyTorch -> public name; an operator that is not listed is counted under its own name
_PUBLIC_NAMES = (
    ("allreduce", "all_reduce"),
    ("all_reduce", "all_reduce"),
    ("allgather", "all_gather"),
    ("all_gather", "all_gather"),
    ("reduce_scatter", "reduce_scatter"),  # before "reduce"
    ("alltoall", "all_to_all"),
    ("all_to_all", "all_to_all"),
    ("broadcast", "broadcast"),
    ("reduce", "reduce"),
    ("gather", "gather"),
    ("scatter", "scatter"),
    ("send", "send"),
    ("isend", "send"),
    ("recv", "recv"),
    ("irecv", "recv"),
)


class CountBytes(TorchDispatchMode):
    """Counts the payload of every collective, send and recv that this thread enters inside `with CountBytes()`.

    `run_ranks` counts a whole rank function; use this inside one to count a part of it, such as one training step.
    DDP's reducer, FSDP2, tensor parallelism and functional collectives are seen; what another thread enters is not.
    Counting costs some microseconds for each operator that PyTorch runs.

    Attributes
    ----------
    traffic : dict[str, Traffic]    public name of the operation -> calls and payload_bytes, by the convention of
                                    `aiinfra.measure.ranks.Traffic`
    """

    def __init__(self):
        super().__init__()
        self.traffic = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # the DTensor then breaks up into local operators and collectives, which come here
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.partition("::")[2]
        if func.namespace in _NAMESPACES and name not in _NO_PAYLOAD:
            if name == "batch_p2p_ops":
                for operation, tensor in zip(args[0], args[3], strict=True):
                    self._add(operation, _bytes(tensor))
            else:
                self._add(name, max(_bytes(part) for part in (*args, result)))
        return result

    def _add(self, name, payload_bytes):
        stem = name.lstrip("_")
        name = next((public for start, public in _PUBLIC_NAMES if stem.startswith(start)), name)
        before = self.traffic.get(name, Traffic(0, 0))
        self.traffic[name] = Traffic(before.calls + 1, before.payload_bytes + payload_bytes)


def _bytes(tree):
    """Bytes of all tensors in one argument of an operator, or in its result."""
    return sum(leaf.numel() * leaf.element_size() for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor))
