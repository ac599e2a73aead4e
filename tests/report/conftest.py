"""Runs that the tests of reports share: a search, an evaluation of it, and searches that tune regularizers."""

from pathlib import Path
from typing import Any

import pytest
from report_pages import EVIL, TUNES
from search_problems import SMALL_SETTINGS, WithDropout, small_data, small_images
from small_trainings import tiny_data

import hba
from hba.data import EvaluationData, SearchData


@pytest.fixture(scope="package")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search on classes whose names try to get out of their place."""
    folder = tmp_path_factory.mktemp("search")
    data = SearchData("<b>data</b>", EVIL, small_images(24, seed=0), small_images(16, seed=1))
    settings: dict[str, Any] = {**SMALL_SETTINGS, "epochs": 5, "validate_every": 2}
    assert hba.search(data, out=folder, **settings).report == folder / "report.html"
    return folder


@pytest.fixture(scope="package")
def evaluated(tmp_path_factory: pytest.TempPathFactory, searched: Path) -> Path:
    folder = tmp_path_factory.mktemp("evaluation")
    tiny = tiny_data()
    data = EvaluationData("tiny", EVIL, tiny.train, tiny.test)
    settings = {"model": "wrn-10-1", "epochs": 1, "batch_size": 20, "device": "cpu", "seeds": 2}
    result = hba.evaluate(searched, data, against=("none", "random"), out=folder, **settings)  # type: ignore[arg-type]
    assert result.report == folder / "report.html"
    return folder


@pytest.fixture(scope="package")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search of one operation and regularizers, `both`, and one of regularizers `alone`."""
    folder = tmp_path_factory.mktemp("tuned")
    for name, tune in TUNES.items():
        settings: dict[str, Any] = {**SMALL_SETTINGS, **({"operations": ("Rotate",)} if name == "both" else {})}
        hba.search(small_data(), tune=tune, network=WithDropout(), out=folder / name, **settings)
    return folder
