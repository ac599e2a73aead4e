"""Whatever a table or a file of arrays holds, its images are read or it is refused in one line."""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from fuzzed.checks import READ, REFUSED, check_data
from fuzzed.inputs import csv_files, npz_files, parquet_files
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

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


def check(content: bytes, path: Path) -> str:
    path.write_bytes(content)
    return check_data(path)


KINDS: dict[str, st.SearchStrategy[bytes]] = {
    "a.csv": csv_files(),
    "a.parquet": parquet_files(),
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
    assert tried(name, place, FEW).keys() == {READ, REFUSED}


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_thousands_of_files(name: str, place: Path) -> None:
    """`pytest -m slow -s -n 0 tests/data/test_any_file_of_data.py` prints how many were tried."""
    counts = tried(name, place, settings(FEW, max_examples=3000, database=None))
    print(name, dict(counts))
    assert min(counts.values()) > 100, counts
