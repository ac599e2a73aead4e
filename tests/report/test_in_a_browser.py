"""Pages in a real Chromium, that of Qt WebEngine: they fit a phone, ask for nothing, and are dark where wanted.

    HBA_PICTURES=DIR pytest -m slow -n 0 -s tests/report/test_in_a_browser.py -k pictures

writes pictures of the reports on a search and an evaluation of digits into DIR, at the width of a phone and of a
desk, light and dark, and prints how large the files are; HBA_RUNS=RUN:RUN adds the reports of run folders.
"""

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest
from browser import opened
from PIL import Image
from search_problems import SMALL_SETTINGS, small_data
from small_trainings import tiny_data

import hba

if importlib.util.find_spec("PySide6") is None or importlib.util.find_spec("PySide6.QtWebEngineWidgets") is None:
    pytest.skip("needs pip install '.[browser]'", allow_module_level=True)

pytestmark = pytest.mark.slow

BACKGROUNDS = {"light": (253, 252, 250), "dark": (23, 24, 26)}
WIDTHS = {"phone": 390, "desk": 1100}
EVALUATION: dict[str, Any] = {"model": "wrn-10-1", "epochs": 1, "batch_size": 20, "device": "cpu", "seeds": 2}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("browser")
    hba.search(small_data(), out=folder / "run", **SMALL_SETTINGS)  # type: ignore[arg-type]
    hba.evaluate(hba.load_policy(folder / "run"), tiny_data(), out=folder / "evaluation", **EVALUATION)
    return {"report": folder / "run" / "report.html", "evaluation": folder / "evaluation" / "report.html"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 390, 1280])
@pytest.mark.parametrize("name", ["report", "evaluation"])
def test_a_page_opens(name: str, width: int, scheme: str, pages: dict[str, Path]) -> None:
    found = opened(pages[name], width, scheme)
    assert found["window"] == width
    assert found["width"] <= width, "nothing is cut off at the right"
    assert found["outside"] == found["beyond"] == []
    assert found["dark"] == (scheme == "dark")
    assert found["background"] == f"rgb{BACKGROUNDS[scheme]}"
    assert found["broken"] == found["flat"] == 0
    assert found["said"] == []
    assert [address for address in found["asked"] if not address.startswith(("file:", "data:"))] == []
    if name == "report":
        assert found["images"] == 4 + 3 * 4 * 3
        assert found["tables"] == 5


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pictures")
    hba.search("digits", epochs=40, device="cpu", out=folder / "search")
    hba.evaluate(folder / "search", "digits", epochs=10, seeds=2, device="cpu", jobs=1, out=folder / "evaluation")
    runs = {"search": folder / "search", "evaluation": folder / "evaluation"}
    runs |= {Path(run).name: Path(run) for run in os.environ.get("HBA_RUNS", "").split(os.pathsep) if run}
    return {name: run / "report.html" for name, run in runs.items()}


@pytest.mark.skipif("HBA_PICTURES" not in os.environ, reason="needs HBA_PICTURES=DIR, where to write them")
def test_pictures_of_reports_show_all_of_the_page(reports: dict[str, Path]) -> None:
    folder = Path(os.environ["HBA_PICTURES"])
    folder.mkdir(parents=True, exist_ok=True)
    for name, report in reports.items():
        print(f"\n{name}: {report.stat().st_size / 1000:.0f} kB")
        for of_width, width in WIDTHS.items():
            for scheme, background in BACKGROUNDS.items():
                picture = folder / f"{name}-{of_width}-{scheme}.png"
                found = opened(report, width, scheme, picture)
                with Image.open(picture) as image:
                    assert image.size == (width, found["height"])
                    assert image.convert("RGB").getpixel((1, 1)) == background
                print(f"  {picture.name}: {found['height']} pixels high, {picture.stat().st_size / 1000:.0f} kB")
