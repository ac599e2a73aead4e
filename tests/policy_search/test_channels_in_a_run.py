"""Searches and evaluations on images of four and of two channels, from the file to the report."""

import base64
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from channels import file_of, of_channels
from PIL import Image

import hba
from hba.data import EvaluationData, SearchData
from hba.errors import HbaError, SettingsError
from hba.models import MODELS, build_model
from hba.operations import OPERATIONS
from hba.preprocessing.baseline import Baseline
from hba.preprocessing.preprocessing import Preprocessing
from hba.report.samples import Samples

FITTING = ",".join(operation.name for operation in OPERATIONS.values() if operation.any_channels)
SETTINGS: dict[str, Any] = {
    "model": "wrn-10-1", "epochs": 2, "image_size": 8, "batch_size": 16, "device": "cpu", "train_steps": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("channels")
    for n_channels in (2, 4):
        file = file_of(folder, 80, n_channels)
        hba.search(file, out=folder / f"run-{n_channels}", operations=FITTING, **SETTINGS)
    return folder


def test_a_search_of_all_operations_is_refused_with_those_that_work(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=rf"Contrast and Color are defined .* not of 4: .*--operations {FITTING}$"):
        hba.search(file_of(tmp_path, 40, 4), **SETTINGS)


@pytest.mark.parametrize("n_channels", [2, 4])
def test_the_fill_is_the_mean_of_each_channel(place: Path, n_channels: int) -> None:
    schedule = hba.load_policy(place / f"run-{n_channels}" / "policy.json")
    assert len(schedule.fill) == n_channels
    assert schedule.fill[-1] > schedule.fill[0] + 0.1, "the last channel is brighter in half of the images"


@pytest.mark.parametrize(("n_channels", "n_shown", "words"), [(2, 1, "first channel"), (4, 3, "first three channels")])
def test_a_report_shows_the_first_channels_and_says_so(place: Path, n_channels: int, n_shown: int, words: str) -> None:
    folder = place / f"run-{n_channels}"
    samples = Samples.load(folder / "sample_images.png")
    assert {tuple(image.shape) for image in samples.images} == {(n_shown, 8, 8)}
    page = (folder / "report.html").read_text()
    assert f"<small>the {words} of {n_channels}</small>" in page
    pictures = [base64.b64decode(text) for text in re.findall(r"data:image/png;base64,([\w+/=]+)", page)]
    assert {Image.open(io.BytesIO(one)).mode for one in pictures} == {"L" if n_shown == 1 else "RGB"}


def test_what_is_told_by_the_fourth_channel_alone_is_learned() -> None:
    """Without it, half of the answers would be wrong."""
    data = EvaluationData("four", ("dark", "bright"), of_channels(64, 4), of_channels(40, 4, seed=1))
    schedule = hba.Schedule(
        hba.SearchSpace((OPERATIONS["Invert"],), copies=1, count_probabilities=(1.0, 0.0)), np.array([[0.0]]), (0.5,)
    )
    result = hba.evaluate(schedule, data, seeds=1, **_evaluation(4))
    assert [row.test_error_percent for row in result.rows] == [(0.0,), (0.0,)]


def _evaluation(epochs: int) -> dict[str, Any]:
    return {"model": "wrn-10-1", "epochs": epochs, "batch_size": 16, "device": "cpu"}


def test_an_evaluation_has_the_rows_that_need_no_picture(place: Path) -> None:
    against = ["none", "cutout", "shuffled", "random"]
    result = hba.evaluate(place / "run-4" / "policy.json", against=against, seeds=1, out=place / "evaluation")
    assert [row.name for row in result.rows] == ["run-4", *against]


@pytest.mark.parametrize("name", ["randaugment", "trivialaugment", "autoaugment"])
def test_torchvision_s_policies_are_refused_before_the_first_training(place: Path, name: str) -> None:
    with pytest.raises(SettingsError, match=f"{name} is defined for images of 1 or 3 channels, not 4: omit it"):
        hba.evaluate(place / "run-4" / "policy.json", against=[name], seeds=1)


def test_a_schedule_of_three_channels_is_refused_on_four(place: Path) -> None:
    with pytest.raises(SettingsError, match="Contrast and Color are defined"):
        hba.evaluate("digits", place / "4.npz", seeds=1, **_evaluation(1))


def test_a_fill_of_three_channels_is_refused_before_the_first_training(place: Path) -> None:
    schedule = hba.Schedule(hba.SearchSpace((OPERATIONS["Rotate"],), copies=2), np.full((1, 4), 0.5), (0.1, 0.2, 0.3))
    with pytest.raises(SettingsError, match="a fill of 3 numbers is for images of 3 channels, got 4"):
        hba.evaluate(schedule, place / "4.npz", seeds=1, **_evaluation(1))


@pytest.mark.parametrize(("setting", "n_channels"), [("color_jitter", 4), ("pca_jitter", 4), ("pca_jitter", 1)])
def test_jitters_of_colour_are_refused(setting: str, n_channels: int) -> None:
    with pytest.raises(
        SettingsError, match=f"^{setting} is for images in colour, got {n_channels} channels; set it to"
    ):
        Preprocessing.of(of_channels(4, n_channels), Baseline(**{setting: 0.1}))  # type: ignore[arg-type]


def test_an_export_is_refused(place: Path) -> None:
    with pytest.raises(SettingsError, match=r"kornia takes images of 1 or 3 channels, but .* searched on images of 4"):
        hba.export(place / "run-4" / "policy.json", "kornia")


def test_the_transform_takes_tensors_of_four_channels_and_no_pictures(place: Path) -> None:
    transform = hba.load_policy(place / "run-4" / "policy.json").transform()
    image = of_channels(1, 4).images[0]
    torch.manual_seed(0)
    assert {tuple(transform(image).shape) for _ in range(10)} == {(4, 8, 8)}
    with pytest.raises(HbaError, match="a fill of 4 numbers is for images of 4 channels, got 3"):
        transform(Image.new("RGB", (8, 8)))


@pytest.mark.parametrize("name", [name for name in MODELS if "272" not in name])
def test_networks_by_name_take_any_number_of_channels(name: str) -> None:
    with torch.device("meta"):
        network = MODELS[name](3, in_channels=5).eval()
        assert network(torch.empty(2, 5, 32, 32)).shape == (2, 3)


def test_three_channels_have_the_weights_that_they_had() -> None:
    one, other = build_model("resnet-18", 3, 0), build_model("resnet-18", 3, 0, in_channels=3)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_images_in_memory_are_searched_on_too() -> None:
    data = SearchData("four", ("dark", "bright"), of_channels(32, 4), of_channels(16, 4, seed=1))
    settings = {name: value for name, value in SETTINGS.items() if name != "image_size"}
    assert hba.search(data, operations=FITTING, **settings).finished


def test_a_fill_of_one_number_is_for_the_channels_of_the_search(place: Path) -> None:
    found = hba.search(place / "4.npz", operations=FITTING, fill="0.5", **SETTINGS).schedule
    assert found is not None
    assert found.fill == (0.5,) * 4
    assert found.transform()(of_channels(1, 4).images[0]).shape == (4, 8, 8)


def test_without_a_fill_a_policy_takes_any_number_of_channels(place: Path) -> None:
    schedule = hba.load_policy(place / "run-4")
    values = torch.tensor(schedule.values[-1], dtype=torch.float32)
    assert hba.Policy(schedule.space, values)(torch.rand(20, 5, 8, 8)).shape == (20, 5, 8, 8)
