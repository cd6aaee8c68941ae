"""The notebook runs as it stands: it starts a cluster, kills a node, counts each order once, and plots."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import matplotlib.image
import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "examples" / "failover.ipynb"
CELL_S = 240


@pytest.mark.slow
@pytest.mark.timeout(420)
def test_every_order_is_counted_once_and_plotted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "clear the outputs before a commit"
    NotebookClient(
        notebook, timeout=CELL_S, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    text = "".join(output.text for output in outputs if output.output_type == "stream")
    assert "each was counted once" in text
    [plot] = [output.data["image/png"] for output in outputs if "image/png" in output.get("data", {})]
    (tmp_path / "plot.png").write_bytes(base64.b64decode(plot))
    picture = matplotlib.image.imread(io.BytesIO(base64.b64decode(plot)))
    bars = np.all(np.isclose(picture[:, :, :3], (0x44 / 255, 0x77 / 255, 0xAA / 255), atol=0.01), axis=2)
    assert 0.05 < bars.mean() < 0.9, "bars of orders, neither blank nor filled"
