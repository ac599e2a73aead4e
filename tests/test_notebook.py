"""The notebook's cells run in their order; only its epochs are fewer here, and nothing is displayed."""

import json
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples" / "search.ipynb"


def code_cells() -> list[str]:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def test_it_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shown: list[Any] = []
    display = types.SimpleNamespace(display=shown.append, Image=lambda path: Path(path).read_bytes())
    # matplotlib asks for the version where IPython is loaded.
    ipython = types.SimpleNamespace(display=display, version_info=(9, 0), get_ipython=lambda: None)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    names: dict[str, Any] = {}
    for cell in code_cells():
        exec(compile(cell.replace("EPOCHS = 60", "EPOCHS = 2"), str(NOTEBOOK), "exec"), names)
    assert names["EPOCHS"] == 2
    assert shown[0].startswith(b"\x89PNG")
    assert (tmp_path / "runs" / "notebook" / "policy.json").is_file()
    assert "Verdict: " in capsys.readouterr().out


def test_it_names_the_seeds_that_it_trains() -> None:
    (seeds,) = re.findall(r"seeds=(\d+)", "\n".join(code_cells()))
    assert f"{['No', 'One', 'Two', 'Three'][int(seeds)]} seeds show" in NOTEBOOK.read_text(encoding="utf-8")


def test_it_is_kept_without_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert all(cell.get("outputs", []) == [] and cell.get("execution_count") is None for cell in cells)
