"""Whatever a table or a file of arrays holds, its images are read or it is refused in one line."""

import io
import os
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pandas
import pytest
from fuzz.inputs import csv_files, npz_files, other_bytes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from hba.data import load_search_data
from hba.data.config import DataConfig
from hba.errors import HbaError

FEW = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three small images each in cat/ and dog/, and a pipe, which nobody writes to."""
    folder = tmp_path_factory.mktemp("images")
    for name in ("cat", "dog"):
        (folder / name).mkdir()
        for number in range(3):
            Image.new("RGB", (6, 6), (40 * number, 0, 0)).save(folder / name / f"{number}.png")
    os.mkfifo(folder / "pipe")
    return folder


def parquet() -> bytes:
    file = io.BytesIO()
    names = ["cat"] * 3 + ["dog"] * 3
    paths = [f"{name}/{number % 3}.png" for number, name in enumerate(names)]
    pandas.DataFrame({"path": paths, "label": names}).to_parquet(file)
    return file.getvalue()


PARQUET = parquet()


def check(content: bytes, path: Path) -> str:
    """Whether it is read or refused."""
    path.write_bytes(content)
    config = DataConfig.make({"data": str(path), "image_size": 8, "val_size": 2})
    message = ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            data = load_search_data(config)
            assert len(data.train)
            assert len(data.val)
            assert len(data.class_names) > 1
        except HbaError as error:
            message = str(error)
    assert message.isprintable()
    assert len(message) < 7000
    return "refused" if message else "read"


KINDS: dict[str, st.SearchStrategy[bytes]] = {
    "a.csv": csv_files(),
    "a.parquet": other_bytes(PARQUET),
    "a.npz": npz_files(),
}


def tried(name: str, place: Path, how: settings) -> Counter[str]:
    counts: Counter[str] = Counter()

    @settings(how)
    @given(content=KINDS[name])
    def files(content: bytes) -> None:
        counts[check(content, place / name)] += 1

    run: Callable[[], None] = files
    run()
    return counts


@pytest.mark.parametrize("name", KINDS)
def test_any_file_is_read_or_refused_in_one_line(name: str, place: Path) -> None:
    assert tried(name, place, FEW).keys() == {"read", "refused"}


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_thousands_of_files(name: str, place: Path) -> None:
    """`pytest -m slow -s -n 0 tests/data/test_any_file_of_data.py` prints how many were tried."""
    counts = tried(name, place, settings(FEW, max_examples=3000, database=None))
    print(name, dict(counts))
    assert min(counts.values()) > 100, counts
