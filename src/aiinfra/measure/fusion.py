"""What `torch.compile` does to a chain of elementwise operators: kernels and bytes before and after."""

import logging
import os
import shutil
import tempfile
import time
from dataclasses import dataclass

import torch

from aiinfra.measure.traffic import MemoryTraffic


def bias_gelu_residual(x_SD, bias_D, residual_SD):
    """The end of an MLP block: add the bias, GELU, add the residual."""
    return torch.nn.functional.gelu(x_SD + bias_D) + residual_SD


@dataclass(frozen=True)
class Fusion:
    """Kernels and bytes of one call, operator by operator and compiled; `function` is the compiled one."""

    function: object
    kernels_apart: int
    bytes_apart: int
    kernels_fused: int
    bytes_fused: int
    compile_s: float


class CompilerMissing(RuntimeError):
    """`torch.compile` cannot build a kernel here; the message says what is missing."""


def compile_and_count(function, *args):
    """Compile `function` for these tensors and count: a `Fusion`.

    Kernels and bytes of the separate operators are counted while they run; those of the compiled one are what Inductor,
    PyTorch's compiler, generated and says that it accesses. Its files go to a temporary folder that is deleted.

    Raises CompilerMissing where the compiler finds no C++ compiler (on a CPU) or no Triton (on a GPU).
    """
    with torch.no_grad(), MemoryTraffic() as apart:
        function(*args)
    folder = tempfile.mkdtemp(prefix="aiinfra-inductor-")
    before = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
    try:
        return _compiled(function, args, apart)
    finally:
        if before is None:
            del os.environ["TORCHINDUCTOR_CACHE_DIR"]
        else:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = before
        shutil.rmtree(folder, ignore_errors=True)


def _compiled(function, args, apart):
    # Inductor's counters are not public: they are looked at here and nowhere else.
    from torch._inductor import compile_fx, config, metrics

    log = compile_fx.inductor_metrics_log
    level = log.level
    quick = {
        "cpp.vec_isa_ok": True,
        "cpp_cache_precompile_headers": False,
        "compile_threads": 1,
        "fx_graph_cache": False,
    }
    metrics.reset()
    torch._dynamo.reset()
    compiled = torch.compile(function)
    start = time.perf_counter()
    try:
        log.setLevel(logging.INFO)  # the bytes are added up only where they would be logged
        with torch.no_grad(), config.patch(quick):
            compiled(*args)
    except Exception as error:
        if not _says_no_compiler(error):
            raise
        raise CompilerMissing(
            "torch.compile found no compiler here: it needs g++ or clang++ for a CPU, Triton for a GPU. "
            "Read the numbers of the page instead, or install one (Debian and Ubuntu: apt-get install g++)."
        ) from error
    finally:
        log.setLevel(level)
    return Fusion(
        function=compiled,
        kernels_apart=apart.n_kernels,
        bytes_apart=apart.total_bytes,
        kernels_fused=metrics.generated_kernel_count,
        bytes_fused=metrics.num_bytes_accessed,
        compile_s=time.perf_counter() - start,
    )


def _says_no_compiler(error):
    chain = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    names = {type(one).__name__ for one in chain}
    return bool(names & {"InvalidCxxCompiler", "TritonMissing", "CppCompileError"}) or "No such file" in str(chain[0])
