"""torch.compile: the same numbers from one kernel that moves fewer bytes, and a clear sentence where it cannot."""

import os
import shutil
import subprocess
import sys

import pytest
import torch

from aiinfra.measure.fusion import CompilerMissing, bias_gelu_residual, compile_and_count

ROWS, WIDTH = 256, 512


def chain_arguments():
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(*shape, generator=generator) for shape in ((ROWS, WIDTH), (WIDTH,), (ROWS, WIDTH))]


@pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="no C++ compiler")
def test_three_kernels_become_one_and_seven_tensors_three():
    args = chain_arguments()
    before = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    fusion = compile_and_count(bias_gelu_residual, *args)
    assert os.environ.get("TORCHINDUCTOR_CACHE_DIR") == before
    tensor, bias = args[0].nbytes, args[1].nbytes
    assert (fusion.kernels_apart, fusion.kernels_fused) == (3, 1)
    assert fusion.bytes_apart == 7 * tensor + bias  # add 2, GELU 2, add 3
    assert fusion.bytes_fused == 3 * tensor + bias
    with torch.no_grad():
        assert torch.allclose(fusion.function(*args), bias_gelu_residual(*args), rtol=1e-5, atol=1e-5)
    assert fusion.compile_s > 0


def test_without_a_compiler_it_says_so():
    code = (
        "import torch\n"
        "from aiinfra.measure.fusion import CompilerMissing, bias_gelu_residual, compile_and_count\n"
        "x = torch.ones(8, 16)\n"
        "try:\n    compile_and_count(bias_gelu_residual, x, x[0], x)\n"
        "except CompilerMissing as error:\n    print(error)\n"
    )
    environment = os.environ | {"CXX": "/nowhere/g++", "PATH": "/nowhere"}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=600)
    assert "torch.compile found no compiler here" in run.stdout, run.stderr[-2000:]


def test_what_goes_wrong_inside_the_function_is_not_called_a_missing_compiler():
    def broken(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        compile_and_count(broken, torch.ones(2))
    assert not issubclass(KeyError, CompilerMissing)
