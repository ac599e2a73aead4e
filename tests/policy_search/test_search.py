"""Whole searches: what they return and write, what is refused, and what an earlier
search's settings give.
"""

import csv
import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from search_problems import (
    SMALL_SETTINGS,
    WithDropout,
    small_data,
    small_images,
    small_settings,
)
from torch import Tensor, nn

import hba
from hba.algorithms import Lookahead
from hba.algorithms.algorithm import first_row
from hba.config.training import PLATEAU
from hba.data import LabelledImages, SearchData
from hba.errors import DivergedError, HbaError, RunError, SettingsError
from hba.policy.space import SearchSpace
from hba.policy.spaces import of_row, search_space
from hba.policy_search.config import SearchConfig
from hba.policy_search.trainer import History
from hba.regularization.regularizer import Hyperparameter


def run(out: Path | None = None, data: Any = None, **settings: Any) -> hba.SearchResult:
    return hba.search(data or small_data(), out=out, **small_settings(**settings))


def schedule_of(result: hba.SearchResult) -> hba.Schedule:
    assert result.schedule is not None
    return result.schedule


def stored_config(folder: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads(
        (folder / "config.json").read_text(encoding="utf-8")
    )
    return config


@pytest.fixture(scope="module")
def search_result(tmp_path_factory: pytest.TempPathFactory) -> hba.SearchResult:
    """A search in a folder. torch's default generator is not used."""
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    result = run(tmp_path_factory.mktemp("found") / "run", seed=3)
    assert torch.equal(torch.rand(3), expected)
    return result


def test_a_search_returns_a_row_per_epoch_and_its_provenance(
    search_result: hba.SearchResult,
) -> None:
    schedule = schedule_of(search_result)
    assert search_result.finished
    assert schedule.values.shape == (3, 57)
    expected = schedule.space.decode(search_result.lam.double())
    assert torch.allclose(torch.tensor(schedule.values[-1]), expected, atol=1e-6)
    provenance = schedule.provenance
    assert provenance["settings"]["seed"] == 3
    assert (provenance["train_images"], provenance["val_images"]) == (24, 16)
    assert provenance["packages"]["torch"] == version("torch")
    assert (
        provenance["val_error_percent"]
        == search_result.metrics[-1]["val_error_percent"]
    )
    assert len(repr(search_result)) < 400


def test_the_folder_holds_what_was_found(search_result: hba.SearchResult) -> None:
    assert search_result.folder is not None
    names = {path.name for path in search_result.folder.iterdir()} - {".lock"}
    search_files = {"checkpoint.pt", "config.json", "metrics.csv", "policy.json"}
    assert names == search_files | {"report.html", "sample_images.png"}
    assert (
        hba.load_policy(search_result.folder).values
        == schedule_of(search_result).values
    ).all()
    config = stored_config(search_result.folder)
    assert (config["epochs"], config["sigma"]) == (3, Lookahead().sigma)
    assert config["val_batch_size"] == 4, "half of a batch"
    with (search_result.folder / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(search_result.metrics[0])
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    with pytest.raises(RunError, match="already holds a run"):
        run(search_result.folder)


def test_an_earlier_search_s_settings_find_the_same(
    search_result: hba.SearchResult, tmp_path: Path
) -> None:
    assert search_result.folder is not None
    again = hba.search(
        small_data(), out=tmp_path / "again", config=search_result.folder, device="cpu"
    )
    assert np.array_equal(schedule_of(again).values, schedule_of(search_result).values)
    assert stored_config(tmp_path / "again") == stored_config(search_result.folder)
    hba.search(
        small_data(),
        out=tmp_path / "other",
        config=search_result.folder,
        seed=4,
        epochs=1,
        batch_size=4,
        device="cpu",
    )
    assert stored_config(tmp_path / "other")["val_batch_size"] == 4, (
        "the number of the earlier search"
    )
    other = hba.load_policy(tmp_path / "other")
    assert (other.values[0] != schedule_of(search_result).values[0]).any(), (
        "another seed finds another schedule"
    )


@pytest.mark.parametrize("algorithm", ["lookahead", "population"])
def test_a_search_begins_at_a_schedule(algorithm: str, tmp_path: Path) -> None:
    """Nothing moves in the first epoch. The file is not needed afterwards."""
    imported = hba.import_policy("torchvision", "autoaugment-cifar10")
    file = tmp_path / "start.json"
    imported.save(file)
    still = (
        {"train_steps": 1000} if "population" in algorithm else {"warm_up_epochs": 1}
    )
    schedule = schedule_of(
        run(tmp_path, algorithm=algorithm, init_from=file, epochs=2, **still)
    )
    expected = schedule.space.decode(
        of_row(schedule.space, first_row(imported)).double()
    ).numpy()
    assert schedule.values[0] == pytest.approx(expected, abs=2e-6)
    assert stored_config(tmp_path)["init_from"] == {
        "schedule": str(file),
        "values": first_row(imported),
    }


def test_what_the_space_lacks_of_a_start_is_named() -> None:
    config = SearchConfig.make({"algorithm": "lookahead", "init_from": "photo"})
    note = config.algorithm.plan_note(config, SearchSpace(), 1)
    assert note is not None
    assert "HorizontalFlip, PaddedCrop" in note
    assert config.algorithm.plan_note(config, search_space("recipe"), 1) is None


def test_custom_components_must_be_given_again(tmp_path: Path) -> None:
    components: dict[str, Any] = {"network": WithDropout(), "space": SearchSpace()}
    run(tmp_path, epochs=1, **components)
    for name in components:
        other_components = {
            other: value for other, value in components.items() if other != name
        }
        for options in ({"config": tmp_path}, {"out": tmp_path, "resume": True}):
            with pytest.raises(SettingsError, match=name):
                hba.search(small_data(), **options, **other_components)


def test_networks_that_cannot_be_searched_in_are_refused_in_one_line() -> None:
    frozen = nn.Sequential(nn.Flatten(), nn.Linear(3 * 64, 2)).requires_grad_(False)
    cases: list[tuple[Any, str]] = [
        (frozen, "parameters to train"),
        (nn.Sequential(nn.Flatten(), nn.Linear(3 * 64, 5)), "2 classes"),
        ("resnet", "nn.Module"),
    ]
    for network, name in cases:
        with pytest.raises(SettingsError, match=name) as raised:
            run(network=network)
        assert len(str(raised.value).splitlines()) == 1


class Breakable(nn.Module):
    """Its losses are not finite in the mode that `broken` names."""

    broken: bool | None = None

    def __init__(self) -> None:
        super().__init__()
        self.bn = nn.BatchNorm2d(3)
        self.linear = nn.Linear(3 * 64, 2)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(self.bn(x).flatten(1))
        return y * float("nan") if Breakable.broken is self.training else y


class Break(hba.SearchCallback):
    def __init__(self, training: bool) -> None:
        self.training = training

    def epoch_done(self, metrics: Mapping[str, float | None]) -> None:
        Breakable.broken = self.training if metrics["epoch"] == 2 else None


def test_only_a_training_loss_that_is_not_finite_ends_a_search(tmp_path: Path) -> None:
    with pytest.raises(
        DivergedError, match="epoch 3 is not finite; the 2 epochs before it are in"
    ):
        run(tmp_path, network=Breakable(), callback=Break(training=True))
    assert hba.load_policy(tmp_path).epochs == 2
    Breakable.broken = None
    result = run(
        network=Breakable(),
        callback=Break(training=False),
        train_steps=1000,
        epochs=4,
        validate_every=1,
    )
    assert result.finished
    losses = [row["val_loss"] for row in result.metrics]
    assert [loss is not None and bool(np.isfinite(loss)) for loss in losses] == [
        True,
        True,
        False,
        True,
    ]


@pytest.mark.parametrize("algorithm", ["lookahead", "population"])
def test_the_learning_rate_follows_the_validation_loss_on_a_plateau(
    algorithm: str,
) -> None:
    on_plateau: dict[str, Any] = {
        "learning_rate_schedule": PLATEAU,
        "plateau_epochs": 1,
        "validate_every": 8,
    }
    members: dict[str, Any] = (
        {"population_size": 2} if algorithm == "population" else {}
    )
    result = run(
        algorithm=algorithm, learning_rate=0.2, epochs=8, **on_plateau, **members
    )
    least = float("inf")
    rate = 0.2
    rates = []
    for row in result.metrics:
        assert row["val_loss"] is not None
        rate, least = (
            (rate, row["val_loss"]) if row["val_loss"] < least else (rate * 0.1, least)
        )
        rates.append(rate)
    assert [row["learning_rate"] for row in result.metrics] == pytest.approx(rates)
    assert rates[-1] < 0.2


def test_rows_are_rounded_by_the_width_of_their_ranges() -> None:
    decay = Hyperparameter("weight_decay", 1e-6, 0.1, 5e-4, "log")
    history = History()
    space = SearchSpace((), count_probabilities=(1.0,), regularizers=(decay,))
    for value in (1.23456789e-6, 0.0123456789, 0.1 + 1e-12):
        history.note([value], 0.0, {}, space)
    assert history.rows == [[1.23457e-6], [0.0123457], [0.1]]
    ranges = [(0.0, 1e-6), (0.1, 0.0), (0.0, 256.0)]
    operations = (
        hba.Operation(f"Of{number}", lambda images, _: images, ends, "share")
        for number, ends in enumerate(ranges)
    )
    row = [
        0.123456789,
        3.123456789e-7,
        0.123456789,
        0.0123456789,
        0.123456789,
        123.123456789,
    ]
    history.note(row, 0.0, {}, SearchSpace(tuple(operations), copies=1))
    assert history.rows[-1] == [
        0.123457,
        3.1235e-7,
        0.123457,
        0.012346,
        0.123457,
        123.123457,
    ]


@pytest.mark.parametrize(
    ("algorithm", "spread_over"),
    [("lookahead", "all"), ("hba", "magnitudes"), ("stn", "none")],
)
def test_the_schedule_s_spread_is_the_noise_at_the_end_of_each_epoch(
    algorithm: str, spread_over: str, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {
        "spread_over": spread_over,
        "sigma": 0.5,
        "spread_share": 0.5,
    }
    if algorithm == "stn":
        settings["sigma_entropy"] = None
    schedule = schedule_of(
        run(tmp_path, algorithm=algorithm, count="searched", **settings)
    )
    is_probability = np.array(
        [name.endswith("probability") for name in schedule.space.names]
    )
    keeps = {
        "none": 0 * is_probability,
        "all": 1 + 0 * is_probability,
        "magnitudes": 1 - is_probability,
    }[spread_over]
    expected = np.outer([0.25, 0.25, 0.25], keeps)
    np.testing.assert_allclose(schedule.spread, expected, atol=1e-6)
    np.testing.assert_array_equal(hba.load_policy(tmp_path).spread, schedule.spread)
    assert (schedule.policy(1).spread is None) == (spread_over == "none")


class Pairs(list[tuple[Tensor, int]], torch.utils.data.Dataset[tuple[Tensor, int]]):  # type: ignore[misc]
    """40 images; it counts how often one is read."""

    classes = ("left", "right")
    n_reads = 0

    def __getitem__(self, number: Any) -> Any:
        self.n_reads += 1
        return super().__getitem__(number)


def test_a_dataset_is_read_once_split_and_searched_on() -> None:
    images = small_images(40, seed=0)
    dataset = Pairs(zip(images.images, images.labels.tolist(), strict=True))
    settings: dict[str, Any] = {
        **SMALL_SETTINGS,
        "epochs": 1,
        "image_size": 8,
        "val_size": 10,
    }
    origin = schedule_of(hba.search(dataset, **settings)).provenance
    assert dataset.n_reads == 40
    assert (origin["dataset"], origin["class_names"]) == ("Pairs", ["left", "right"])
    assert (origin["train_images"], origin["val_images"], origin["image_size"]) == (
        30,
        10,
        8,
    )
    result_of_list = hba.search(list(dataset), **settings)
    assert (
        schedule_of(result_of_list).provenance["data_fingerprint"]
        == origin["data_fingerprint"]
    )
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (dataset, {"workers": 2}, "workers"),
        ([], {}, "at least one pair"),
        ((dataset, dataset), {}, "one dataset"),
        ([(torch.zeros(3, 8, 8, dtype=torch.uint8), 0, 1)], {}, "pairs"),
    ]
    for data, options, word in cases:
        with pytest.raises(HbaError, match=word):
            hba.search(data, **settings, **options)


def test_images_in_memory_keep_the_network_size_that_a_baseline_gives(
    tmp_path: Path,
) -> None:
    pixels = torch.randint(
        0,
        256,
        (24, 3, 16, 16),
        dtype=torch.uint8,
        generator=torch.Generator().manual_seed(0),
    )
    images = LabelledImages(pixels, torch.arange(24) % 2)
    data = SearchData("noise", ("left", "right"), images, images)
    run(tmp_path / "first", data, random_resized_crop=True, epochs=1)
    assert stored_config(tmp_path / "first")["image_size"] < 16
    hba.search(data, out=tmp_path / "again", config=tmp_path / "first", device="cpu")
    assert stored_config(tmp_path / "again") == stored_config(tmp_path / "first")
