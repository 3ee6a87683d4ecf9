"""The core runs in the reader's browser: no module of layers 0 to 6 may load anything but the standard library."""

import subprocess
import sys
from pathlib import Path

import pytest

import aiinfra

ROOT = Path(aiinfra.__file__).parent
SIDES = ("authoring", "checks", "cli", "grading", "measure", "predictions")
CORE = sorted(
    ".".join(("aiinfra", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
    for path in ROOT.rglob("*.py")
    if path.relative_to(ROOT).parts[0].removesuffix(".py") not in SIDES
)


def loaded_by(code):
    """Top-level modules outside the standard library that `code` loads into a fresh interpreter."""
    script = f"import sys; before = set(sys.modules)\n{code}\nprint(*(set(sys.modules) - before))"
    run = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in run.stdout.split()} - set(sys.stdlib_module_names)


@pytest.mark.parametrize("module", CORE)
def test_importing_it_alone_loads_only_the_standard_library(module):
    assert loaded_by(f"import {module}") == {"aiinfra"}


def test_formulas_and_views_load_only_the_standard_library_when_called():
    code = (
        "from aiinfra.explorers.accelerators import all_reduce_view as view\n"
        "view('Llama 2 7B', 'bf16', 'NVLink 4 (H100 SXM)', 8, 5.0, True)"
    )
    assert loaded_by(code) == {"aiinfra"}


def test_this_test_sees_what_is_loaded():
    assert "numpy" in loaded_by("import aiinfra.units, numpy")
