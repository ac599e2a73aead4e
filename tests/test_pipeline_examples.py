"""The examples with other libraries run as they stand, against these libraries, and learn something."""

import importlib.util
import re
from pathlib import Path

import pytest
from test_example import run_example

PIPELINES = {
    "with_albumentations.py": "albumentations",
    "with_datasets.py": "datasets",
    "with_kornia.py": "kornia",
    "with_lightning.py": "lightning",
    "with_timm.py": "timm",
}


def test_no_example_is_left_out() -> None:
    folder = Path(__file__).parents[1] / "examples" / "pipelines"
    assert sorted(path.name for path in folder.glob("with_*.py")) == list(PIPELINES)


SLOW = ("with_datasets.py", "with_lightning.py")
"""Their libraries alone take long to import."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in PIPELINES]
)
def test_it_trains(name: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(PIPELINES[name]) is None:
        pytest.skip(f"{PIPELINES[name]} is not installed")
    done = run_example(tmp_path, name=f"pipelines/{name}")
    assert done.returncode == 0, done.stderr
    (error,) = re.findall(r"^test error: (\d+\.\d\d) %$", done.stdout, re.MULTILINE)
    # Guessing is wrong for nine digits of ten.
    assert 0 < float(error) < 60
