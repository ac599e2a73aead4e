"""A pipeline of albumentations: how often slots fire, one after the other, is hba's; and its own library reads it."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from exported import pictures, schedule_of

import hba
from hba.errors import SettingsError
from hba.exports.albumentations_file import row_of, twice
from hba.exports.albumentations_leaves import LEAVES
from hba.exports.check import check
from hba.operations import OPERATIONS, Operation
from hba.policy.draw import draw_operations
from hba.policy.rates import DrawStep, draw_steps
from hba.policy.space import SearchSpace
from hba.policy.spaces import search_space
from hba.schedule.schedule import Schedule

N_IMAGES = 200_000


def stages_in(schedule: Schedule) -> list[DrawStep]:
    row = row_of(schedule)
    return draw_steps(row.probabilities, row.limits)


@pytest.mark.parametrize("spread", ["none", "all"])
@pytest.mark.parametrize("space", ["hba", "K searched", "one slot"])
def test_slots_fire_first_second_and_so_on_as_often_as_hba_draws_them(space: str, spread: str) -> None:
    schedule = schedule_of(space, spread).only(1)
    values, widths = (torch.tensor(rows[0], dtype=torch.float32) for rows in (schedule.values, schedule.spread))
    drawn = draw_operations(schedule.space, values, N_IMAGES, torch.Generator().manual_seed(0), widths).slots
    reached = 1.0
    for step, stage in enumerate(stages_in(schedule)):
        fired = drawn[:, step][drawn[:, step] >= 0]
        reached *= stage.chance
        assert len(fired) / N_IMAGES == pytest.approx(reached, abs=0.005)
        shares = np.bincount(fired.numpy(), minlength=len(stage.shares)) / len(fired)
        errors = np.sqrt(stage.shares * (1 - stage.shares) / len(fired))
        assert (np.abs(shares - stage.shares) <= 5 * errors).all()
        assert stage.shares.sum() == pytest.approx(1)


def two_slots(first: float, second: float) -> Schedule:
    """Of Invert and Equalize, once each; two operations where both fire."""
    return Schedule(
        SearchSpace(tuple(OPERATIONS[name] for name in ("Invert", "Equalize")), 1, (0.0, 0.0, 1.0)),
        np.array([[first, second]]),
    )


def test_two_slots_by_hand() -> None:
    """First Invert: 0.5 (1 - 0.2) + 0.5 x 0.2 / 2 of 0.6; second: of both fired, each as likely."""
    first, second = stages_in(two_slots(0.5, 0.2))
    assert first.chance == pytest.approx(1 - 0.5 * 0.8)
    assert first.shares == pytest.approx(np.array([0.45, 0.15]) / 0.6)
    assert first.chance * second.chance == pytest.approx(0.1)
    assert second.shares == pytest.approx([0.5, 0.5])
    assert twice(row_of(two_slots(0.5, 0.2))) == pytest.approx(0.1 * (0.75 * 0.5 + 0.25 * 0.5))


def chosen(pipeline: Any, image: Any) -> list[str]:
    """Names of transforms that an image got."""
    return [name for name, _ in pipeline(image=image)["applied_transforms"]]


def test_the_library_reads_it_and_draws_as_often(tmp_path: Path) -> None:
    pipelines = pytest.importorskip("albumentations")
    hba.export(two_slots(0.5, 0.2), "albumentations", tmp_path / "policy.json")
    loaded = pipelines.load(tmp_path / "policy.json")
    pipeline = pipelines.Compose(loaded.transforms, save_applied_params=True, seed=0)
    image = np.asarray(pictures()[0])
    found = [chosen(pipeline, image) for _ in range(4000)]
    assert np.mean([bool(one) for one in found]) == pytest.approx(0.6, abs=0.03)
    assert np.mean([len(one) == 2 for one in found]) == pytest.approx(0.1, abs=0.02)
    assert np.mean([one[0] == "InvertImg" for one in found if one]) == pytest.approx(0.75, abs=0.03)


def test_a_whole_space_loads_and_augments(tmp_path: Path) -> None:
    pipelines = pytest.importorskip("albumentations")
    schedule = schedule_of("hba", "magnitudes").only(2)
    text = hba.export(schedule, "albumentations", tmp_path / "policy.json")
    names = {one["__class_fullname__"] for one in leaves(json.loads(text)["transform"])}
    assert {"Affine", "ColorJitter", "CoarseDropout", "Equalize", "Sharpen", "GaussianBlur"} <= names
    pipeline = pipelines.load(tmp_path / "policy.json")
    image = np.asarray(pictures()[0])
    assert len({pipeline(image=image)["image"].tobytes() for _ in range(30)}) > 10


@pytest.mark.parametrize("channels", [(), (1,), (3,)])
def test_a_schedule_of_grey_images_takes_them_with_any_channels(channels: tuple[int, ...], tmp_path: Path) -> None:
    """Folders of grey images are read as RGB, whose mean colour has three equal numbers."""
    pipelines = pytest.importorskip("albumentations")
    schedule = dataclasses.replace(schedule_of("hba", "magnitudes"), fill=(0.25, 0.25, 0.25)).only(2)
    hba.export(schedule, "albumentations", tmp_path / "policy.json")
    pipeline = pipelines.load(tmp_path / "policy.json")
    grey = np.array(pictures()[0].convert("L")).reshape(*pictures()[0].size[::-1], *(1 for _ in channels))
    image = np.broadcast_to(grey, (*grey.shape[:2], *channels))
    for _ in range(100):
        assert pipeline(image=image.copy())["image"].shape == image.shape


def test_the_check_takes_grey_images_where_the_fill_is_grey() -> None:
    pytest.importorskip("albumentations")
    grey = [image.convert("L") for image in pictures()]
    schedule = schedule_of("hba", "magnitudes").only(2)
    for fill in ((0.25,), (0.25, 0.25, 0.25)):
        of_grey = dataclasses.replace(schedule, fill=fill)
        checked = check(hba.export(of_grey, "albumentations"), "albumentations", of_grey, grey)
        assert checked[-1].n == len(grey)
    in_colour = dataclasses.replace(schedule, fill=(0.25, 0.25, 0.5))
    with pytest.raises(SettingsError, match="a check needs an image in colour"):
        check(hba.export(in_colour, "albumentations"), "albumentations", in_colour, grey)


def leaves(transform: dict[str, Any]) -> list[dict[str, Any]]:
    inner = transform.get("transforms")
    return [transform] if inner is None else [leaf for one in inner for leaf in leaves(one)]


def test_a_magnitude_that_is_spread_keeps_its_median_and_takes_both_signs() -> None:
    space = search_space(operations=["Rotate"])
    schedule = Schedule(space, np.array([[1.0, 15.0, 0.0, 15.0]])).with_spread(1.0)
    found = leaves(json.loads(hba.export(schedule, "albumentations"))["transform"])
    degrees = sorted({round(one["rotate"][0], 3) for one in found})
    # 30 times the sigmoid of -0.967, 0 and 0.967, the normal's sixths.
    third = 30 / (1 + np.exp(0.9674))
    assert degrees == pytest.approx([third - 30, -15, -third, third, 15, 30 - third], abs=1e-2)


def test_a_schedule_that_changes_is_refused_with_what_to_choose() -> None:
    with pytest.raises(SettingsError, match=r"does not change over epochs.*--epoch N or --average"):
        hba.export("digits", "albumentations")


def test_an_operation_of_one_s_own_is_refused_by_name(registered: dict[str, Operation]) -> None:
    from own_operations import GAMMA

    hba.register_operation(GAMMA)
    schedule = Schedule(SearchSpace((hba.OPERATIONS["Invert"], GAMMA), 1), np.array([[0.5, 0.5, 1.0]]))
    with pytest.raises(SettingsError, match="Gamma cannot be written"):
        hba.export(schedule, "albumentations")


def test_every_operation_has_its_transform() -> None:
    assert list(LEAVES) == list(OPERATIONS)
