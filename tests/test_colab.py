"""Labs under the versions that Colab has: `make test` installs them into .venv-colab."""

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
KERNELS = ROOT / ".venv-colab" / "share" / "jupyter"
NOTEBOOKS = sorted([*(ROOT / "labs").glob("*.ipynb"), *(ROOT / "solutions").glob("*.ipynb")])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_notebook_runs_top_to_bottom_with_colabs_versions(path, tmp_path, monkeypatch):
    assert (KERNELS / "kernels" / "colab").is_dir(), "make .venv-colab/stamp installs Colab's versions"
    monkeypatch.setenv("JUPYTER_PATH", str(KERNELS))
    notebook = nbformat.read(path, 4)
    versions = nbformat.v4.new_code_cell("import ipywidgets, numpy\nprint(ipywidgets.__version__, numpy.__version__)")
    notebook.cells.append(versions)
    environment = {**os.environ, "AIINFRA_PREDICTIONS": str(tmp_path / "predictions.jsonl")}
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, kernel_name="colab", timeout=120, resources=resources).execute(env=environment)
    assert versions.outputs[0].text.strip() == "7.7.1 2.1.3"
    figures = [out for cell in notebook.cells for out in cell.get("outputs", []) if "data" in out]
    assert any("application/vnd.jupyter.widget-view+json" in out.data for out in figures)
