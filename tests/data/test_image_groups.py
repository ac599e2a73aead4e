"""Groups of images stay in one split, in one fold of a contest, and in one part of the
test of symmetries.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from mask_folders import squares, write_pair
from PIL import Image
from sklearn.model_selection import StratifiedKFold

import hba
from hba.algorithms.race_measures import held_out
from hba.config.evaluation import EvaluationConfig
from hba.data.config import DataConfig
from hba.data.groups import folds_of, means_of_groups
from hba.data.images import LabelledImages
from hba.data.load import load_evaluation_data, load_search_data, prepare
from hba.errors import DataError, SettingsError
from hba.policy_choice.contest import (
    Entry,
    contest_data,
    groups_held_out,
    train_and_compare,
)
from hba.policy_evaluation.baselines import named_rows, row_configs
from hba.schedule.recipes import RECIPES
from hba.training.checkpoint import TrainCheckpoint

PATTERN = "patient_[0-9]+"
N_PATIENTS = 12
N_OF_PATIENT = 5


@pytest.fixture(scope="module")
def animals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two classes of images, whose level is the number of their patient."""
    folder = tmp_path_factory.mktemp("groups") / "animals"
    for patient in range(N_PATIENTS):
        for number in range(N_OF_PATIENT):
            name = f"patient_{patient}_{number}.png"
            path = folder / ("cat", "dog")[(patient + number) % 2] / name
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("L", (8, 8), patient).save(path)
    return folder


def config(data: Path, **settings: Any) -> DataConfig:
    values = {"data": str(data), "image_size": 8, "group": PATTERN, **settings}
    return DataConfig.make(values)


def patients(images: Any) -> set[int]:
    assert isinstance(images, LabelledImages)
    return {*images.images[:, 0, 0, 0].tolist()}


@pytest.mark.parametrize("seed", range(5))
def test_splits_share_no_patient(animals: Path, seed: int) -> None:
    settings = config(animals, split_seed=seed)
    searched = load_search_data(settings)
    tested = load_evaluation_data(settings)
    parts = [
        patients(part) for part in (searched.train, searched.val, tested.test.opened())
    ]
    assert sum(map(len, parts)) == len(set.union(*parts)) == N_PATIENTS
    n_images = N_PATIENTS * N_OF_PATIENT
    for part in parts[1:]:
        assert len(part) * N_OF_PATIENT == pytest.approx(n_images / 5, abs=5)
    without = load_search_data(settings.model_copy(update={"group": None}))
    assert patients(without.train) & patients(without.val)


@pytest.mark.parametrize("column", ["label", "size"])
def test_groups_of_a_table_are_a_column(animals: Path, column: str) -> None:
    """Of classes and of numbers; the paths have no part that tells the patient."""
    rows = [
        {
            "path": path,
            "label": path.parent.name,
            "size": 0.5 * index,
            "patient": "p" + path.stem.split("_")[1],
        }
        for index, path in enumerate(sorted(animals.rglob("*.png")))
    ]
    table = animals.parent / f"{column}.csv"
    frame = pandas.DataFrame(rows).sample(frac=1, random_state=0)
    frame.to_csv(table, index=False)
    given = {"target": "size"} if column == "size" else {}
    settings = config(table, group="patient", **given)
    searched = load_search_data(settings)
    test = load_evaluation_data(settings).test.opened()
    parts = [patients(part) for part in (searched.train, searched.val, test)]
    assert sum(map(len, parts)) == len(set.union(*parts)) == N_PATIENTS
    frame.loc[3, "patient"] = None
    frame.to_csv(table, index=False)
    with pytest.raises(DataError, match="'patient'"):
        load_search_data(settings)


def test_folds_of_a_contest_share_no_patient(animals: Path) -> None:
    data, folds = contest_data(load_search_data(config(animals)))
    assert isinstance(data.train, LabelledImages)
    levels = data.train.images[:, 0, 0, 0]
    seen = [{*levels[fold].tolist()} for fold in folds if fold is not None]
    assert sum(map(len, seen)) == len(set.union(*seen))
    assert len(seen) > 2


def test_a_contest_holds_out_its_small_groups_first(animals: Path) -> None:
    data = load_search_data(config(animals))
    uneven: dict[str, Any] = {
        name: replace(part, groups=torch.arange(len(part)).sqrt().long() // 2)
        for name, part in (("train", data.train), ("val", data.val))
        if isinstance(part, LabelledImages)
    }
    _, folds = contest_data(replace(data, **uneven))
    sizes = [len(fold) for fold in folds if fold is not None]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


def test_means_of_groups_are_those_of_pandas() -> None:
    random = np.random.default_rng(0)
    values = random.normal(size=(60, 3))
    values[random.random((60, 3)) < 0.2] = np.nan
    groups = random.choice([2, 5, 9], 60)
    means = means_of_groups(torch.from_numpy(values), torch.from_numpy(groups))
    expected = pandas.DataFrame(values).groupby(groups).mean()
    np.testing.assert_allclose(means, expected)


def test_a_training_of_a_contest_has_a_loss_for_each_patient(animals: Path) -> None:
    data, (places, *_) = contest_data(load_search_data(config(animals)))
    groups = groups_held_out(data, places)
    assert places is not None
    assert groups is not None
    settings = {"model": "wrn-10-1", "epochs": 1, "batch_size": 8, "device": "cpu"}
    training = EvaluationConfig.make({**settings, **config(animals).model_dump()})
    nothing = RECIPES["none"].make()
    (row,) = row_configs(named_rows(nothing, ()), nothing, training)
    of_images, of_groups = (
        train_and_compare(
            Entry(row, 0, places, of_entry, TrainCheckpoint()), data, lambda: None
        )
        for of_entry in (None, groups)
    )
    losses = pandas.Series(of_images.losses)
    means = losses.groupby(groups.numpy()).mean()
    assert list(of_groups.losses) == pytest.approx(means.tolist(), abs=2e-4)
    assert len(of_groups.losses) < len(losses) == len(places)


def test_images_held_out_for_symmetries_are_of_patients_of_their_own(
    animals: Path,
) -> None:
    data = load_search_data(config(animals))
    problem: Any = type("Problem", (), {"data": data, "config": None})()
    problem.config = type("Config", (), {"seed": 3})()
    places = held_out(problem)
    is_held = torch.zeros(len(data.train), dtype=torch.bool)
    is_held[places] = True
    assert isinstance(data.train, LabelledImages)
    levels = data.train.images[:, 0, 0, 0]
    assert not {*levels[is_held].tolist()} & {*levels[~is_held].tolist()}
    assert 0 < is_held.float().mean() < 0.5


def test_half_or_more_of_the_images_may_be_taken(animals: Path) -> None:
    data = load_search_data(config(animals, val_size=35))
    assert len(data.val) == pytest.approx(35, abs=5)
    assert not patients(data.train) & patients(data.val)


@pytest.mark.parametrize("pattern", ["patient_([0-9]+)", "(patient_[0-9]+)|(video)"])
def test_a_part_of_the_pattern_tells_the_group(animals: Path, pattern: str) -> None:
    data = load_search_data(config(animals, group=pattern))
    assert not patients(data.train) & patients(data.val)


def test_a_search_with_forks_side_by_side_keeps_groups(animals: Path) -> None:
    result = hba.search(
        str(animals),
        group=PATTERN,
        image_size=8,
        model="wrn-10-1",
        operations=["HorizontalFlip", "Brightness"],
        space="full",
        epochs=3,
        batch_size=8,
        jobs=2,
        device="cpu",
    )
    assert result.finished


def test_masks_have_groups_too(tmp_path: Path) -> None:
    images, masks = squares(24)
    for number, (image, mask) in enumerate(zip(images, masks, strict=True)):
        pixels = np.full((16, 16, 3), number // 4, dtype=np.uint8)
        pixels[0, 0] = image[:, 0, 0]
        write_pair(tmp_path, f"patient_{number // 4}_{number}", pixels, mask.numpy())
    data = load_search_data(config(tmp_path, image_size=16))
    of_parts = [
        {*part.images[:, 0, 5, 5].tolist()}
        for part in (data.train, data.val)
        if isinstance(part, LabelledImages)
    ]
    assert not of_parts[0] & of_parts[1]


def test_folds_without_groups_are_those_of_scikit_learn() -> None:
    strata = np.arange(60) % 3
    splitter = StratifiedKFold(5, shuffle=True, random_state=7)
    expected = [part for _, part in splitter.split(strata, strata)]
    for part, other in zip(folds_of(strata, None, 5, 7), expected, strict=True):
        assert np.array_equal(part, other)


def test_what_has_no_groups_is_refused(animals: Path) -> None:
    with pytest.raises(DataError, match="every image"):
        load_search_data(config(animals, group="child_[0-9]+"))
    with pytest.raises(DataError, match="one group"):
        load_search_data(config(animals, group="patient"))
    with pytest.raises(SettingsError, match="group"):
        prepare(animals, animals.parent / "prepared", image_size=8, group=PATTERN)


def test_a_contest_needs_two_groups(animals: Path) -> None:
    data = load_search_data(config(animals))
    alone: dict[str, Any] = {
        name: replace(part, groups=torch.zeros(len(part), dtype=torch.int64))
        for name, part in (("train", data.train), ("val", data.val))
        if isinstance(part, LabelledImages)
    }
    with pytest.raises(DataError, match="only one"):
        contest_data(replace(data, **alone))
    with pytest.raises(SettingsError, match="regular expression"):
        config(animals, group="(")
    with pytest.raises(SettingsError, match="group"):
        load_search_data(config(Path("digits"), image_size=None))
