"""The examples of docs/pipelines.md augment: by a policy that inverts all images, white ones come out black."""

import re
import runpy
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from documented_files import make_saved_dataset
from documents import text_of
from hba.cli import main
from PIL import Image

from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.schedule.schedule import Schedule

SECTIONS: dict[str, str] = dict(
    re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text_of("docs/pipelines.md"), re.DOTALL | re.M)
)
MODULES = {"Lightning": "lightning", "Hugging Face datasets": "datasets"}
"""Of libraries that are called otherwise. They alone take long to import."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """White images of three classes, and a schedule that inverts them."""
    for name in ("cat", "dog", "horse"):
        (tmp_path / "animals" / name).mkdir(parents=True)
        for number in range(11):
            Image.new("RGB", (40, 36), "white").save(tmp_path / "animals" / name / f"{number}.jpg")
    inverting = Schedule(SearchSpace((OPERATIONS["Invert"],), 1, (0.0, 1.0)), np.ones((3, 1)), (1.0, 1.0, 1.0))
    inverting.save(tmp_path / "runs" / "animals-1" / "policy.json")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def example_of(section: str, language: str) -> str:
    return "".join(re.findall(rf"^```{language}\n(.*?)^```", SECTIONS[section], re.DOTALL | re.M))


@pytest.mark.parametrize(
    "section", [pytest.param(name, marks=pytest.mark.slow if name in MODULES else ()) for name in SECTIONS]
)
def test_it_inverts_white_images(section: str, place: Path) -> None:
    pytest.importorskip(MODULES.get(section, section))
    if section == "Hugging Face datasets":
        make_saved_dataset(place)
    for line in example_of(section, "bash").splitlines():
        assert CliRunner().invoke(main, shlex.split(line)[1:]).exit_code == 0
    (place / "example.py").write_text(example_of(section, "python").replace("epochs = 20", "epochs = 2"), "utf-8")
    names = runpy.run_path(str(place / "example.py"))
    for exported in ("policy_timm", "policy_kornia"):
        sys.modules.pop(exported, None)
    images = augmented(section, names)
    assert images.shape[-3:] == (3, 32, 32)
    assert images.dtype == torch.float32
    # timm's standardisation takes black below zero.
    assert float(images.max()) <= 0
    if section == "kornia":
        assert names["masks"].min() == 1


def augmented(section: str, names: dict[str, Any]) -> torch.Tensor:
    """The last batch, or image, of an example."""
    images: torch.Tensor = names["images"]
    return names["module"].policy(images) if section == "Lightning" else images
