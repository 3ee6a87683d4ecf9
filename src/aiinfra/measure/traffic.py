"""Bytes that PyTorch's operators read and write, counted while they run, behind a cache of any size or none."""

from collections import OrderedDict

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

from aiinfra.units import count

_PAGE_BYTES = 4096
_NO_WORK = ("view", "_unsafe_view", "t", "transpose", "permute", "expand", "slice", "select", "unsqueeze", "squeeze",
            "detach", "alias", "split", "as_strided", "empty", "empty_like", "new_empty", "unbind",
            "lift_fresh")  # fmt: skip
_OVERWRITES = ("copy_", "fill_", "zero_")


class MemoryTraffic(TorchDispatchMode):
    """Count what crosses the memory bus inside `with MemoryTraffic() as traffic:`.

    Each operator reads its tensor arguments once, in their order, and writes its results once: what `roofline` assumes.
    Views move nothing. An expanded argument counts the values that are stored.

    With `cache_bytes` a cache lies between operators and memory, whose least recently used page of 4 KiB leaves first.
    Reading a page that it holds costs nothing. A page that was written costs when it leaves, or at the end; nothing
    where its tensor has died before, whose room is free at once, as an allocator gives it to the next one.

    Attributes
    ----------
    read_bytes, written_bytes : int     that crossed between cache and memory
    n_kernels : int                     operators that did any work
    operators : dict                    operator -> (calls, bytes that it asked for, cache or not)

    Counts tensors, not what a kernel does inside: a matmul whose operands a real cache cannot hold reads them more
    than once.
    """

    def __init__(self, cache_bytes=0):
        super().__init__()
        self.cache = _Cache(count("cache_bytes", cache_bytes, 0) // _PAGE_BYTES)
        self.n_kernels = 0
        self.operators = {}

    @property
    def read_bytes(self):
        return self.cache.read_bytes

    @property
    def written_bytes(self):
        return self.cache.written_bytes

    @property
    def total_bytes(self):
        return self.read_bytes + self.written_bytes

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        name = function._schema.name.removeprefix("aten::")
        if name not in _NO_WORK and not name.startswith("profiler::"):
            with _disable_current_modes():
                self._count(name, *_read_and_written(name, function._schema.arguments, args, kwargs or {}, result))
        return result

    def __exit__(self, *error):
        self.cache.flush()
        return super().__exit__(*error)

    def _count(self, name, read, written):
        self.n_kernels += 1
        calls, n_bytes = self.operators.get(name, (0, 0))
        self.operators[name] = (calls + 1, n_bytes + sum(map(stored_bytes, (*read, *written))))
        for tensor in read:
            self.cache.touch(tensor, writes=False)
        for tensor in written:
            self.cache.touch(tensor, writes=True)


def _read_and_written(name, schema, args, kwargs, result):
    """Tensors that an operator reads and those that it writes: its results, and arguments that it changes."""
    given = [*zip(schema, args, strict=False), *((one, kwargs[one.name]) for one in schema if one.name in kwargs)]
    changed = [
        tensor for one, value in given if one.alias_info and one.alias_info.is_write for tensor in _tensors(value)
    ]
    unread = [tensor for one, value in given if one.name == "out" for tensor in _tensors(value)]
    if name in _OVERWRITES:
        unread += changed
    arguments = [tensor for _, value in given for tensor in _tensors(value)]
    read = [tensor for tensor in arguments if not any(tensor is other for other in unread)]
    places = {_place(tensor) for tensor in arguments}
    return read, changed + [tensor for tensor in _tensors(result) if _place(tensor) not in places]


def _tensors(value):
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _place(tensor):
    return tensor.data_ptr(), tuple(tensor.shape)


def stored_bytes(tensor):
    """Bytes of the values of a tensor, each counted once where it is expanded."""
    n_values = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        n_values *= size if stride else 1
    return n_values * tensor.element_size()


class _Cache:
    """Pages of storages, least recently used first, each with whether it was written. None of them: no cache."""

    def __init__(self, n_pages):
        self.n_pages = n_pages
        self.read_bytes = self.written_bytes = 0
        self.pages = OrderedDict()  # (number of the storage, page) -> written
        self.storages = {}  # address of the storage -> (weak reference, number)
        self.n_seen = 0

    def touch(self, tensor, writes):
        if not self.n_pages:
            n_bytes = stored_bytes(tensor)
            self.read_bytes, self.written_bytes = (
                self.read_bytes + n_bytes * (not writes),
                self.written_bytes + n_bytes * writes,
            )
            return
        self._drop_dead()
        storage = self._number(tensor.untyped_storage())
        for page in _pages(tensor):
            written = self.pages.pop((storage, page), None)
            if written is None and not writes:
                self.read_bytes += _PAGE_BYTES
            self.pages[storage, page] = bool(written) or writes
            if len(self.pages) > self.n_pages:
                _, leaves_written = self.pages.popitem(last=False)
                self.written_bytes += _PAGE_BYTES * leaves_written

    def flush(self):
        self._drop_dead()
        self.written_bytes += _PAGE_BYTES * sum(self.pages.values())
        self.pages.clear()

    def _number(self, storage):
        if storage._cdata not in self.storages:
            self.n_seen += 1
            self.storages[storage._cdata] = (StorageWeakRef(storage), self.n_seen)
        return self.storages[storage._cdata][1]

    def _drop_dead(self):
        dead = {address: number for address, (weak, number) in self.storages.items() if weak.expired()}
        if dead:
            numbers = set(dead.values())
            self.pages = OrderedDict((key, written) for key, written in self.pages.items() if key[0] not in numbers)
            for address in dead:
                del self.storages[address]


def _pages(tensor):
    """Pages of its storage that a tensor touches, in order."""
    itemsize = tensor.element_size()
    outer = sorted(
        ((stride, size) for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride), reverse=True
    )
    run = 1
    while outer and outer[-1][0] <= run:  # the innermost dimensions that lie together
        stride, size = outer.pop()
        run += stride * (size - 1)
    starts = torch.zeros(1, dtype=torch.int64)
    for stride, size in outer:
        starts = (starts[:, None] + stride * torch.arange(size)).flatten()
    first = (tensor.storage_offset() + starts) * itemsize
    last = first + run * itemsize - 1
    spans = zip((first // _PAGE_BYTES).tolist(), (last // _PAGE_BYTES).tolist(), strict=True)
    return dict.fromkeys(page for low, high in spans for page in range(low, high + 1))
