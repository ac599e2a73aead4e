"""Recipes against the libraries that they come from."""

import dataclasses
import itertools
import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision.transforms.functional as TF
from PIL import Image, ImageFilter, ImageOps
from random_inputs import seeded
from scipy import stats
from torch import Tensor
from torchvision.transforms import (
    ColorJitter,
    Grayscale,
    RandAugment,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
)

import hba
from hba.algorithms.algorithm import first_row
from hba.data import LabelledImages
from hba.errors import ScheduleError
from hba.exports import TARGETS
from hba.operations import OPERATIONS, STAGED
from hba.operations.drawing import SIGN
from hba.operations.erasing import ASPECTS, SMALLEST_SHARE
from hba.operations.geometric import CROP_RATIO
from hba.policy.draw import applied, poisson_binomial
from hba.policy.spaces import SPACES, of_row
from hba.policy_evaluation.baselines import named_rows
from hba.schedule.fit import SubPolicy
from hba.schedule.mixing import Mixing
from hba.schedule.recipes import RECIPES, THREE_AUGMENT, TIMM, timm_randaugment
from hba.schedule.schedule import Schedule
from hba.schedule.torchvision_policies import (
    policy_of_torchvision,
    policy_of_transform,
)
from hba.training.augmentation import ScheduleAugmentation

N_IMAGES = 10_000
Chances = dict[tuple[str, ...], float]
"""Of the operations of an image, in their order."""

FITTED = {
    "randaugment": ("randaugment", 0.032, 0.01),
    "randaugment-light": ("randaugment-light", 0.032, 0.01),
    "trivialaugment": ("trivialaugment", 0.0, 0.13),
    "autoaugment-imagenet": ("autoaugment", 0.299, 0.43),
    "autoaugment-cifar10": (None, 0.276, 0.43),
    "autoaugment-svhn": (None, 0.378, 0.43),
    "timm": ("timm", 0.0075, 0.09),
}
"""By policy, the recipe, how far its operations are from the policy's, and at most how
far its magnitudes are.
"""


def policy_and_schedule(name: str) -> tuple[Sequence[SubPolicy], Schedule]:
    recipe = FITTED[name][0]
    schedule = (
        hba.import_policy("torchvision", name)
        if recipe is None
        else hba.load_policy(recipe)
    )
    if name == "timm":
        policy = timm_randaugment()
    elif name == "randaugment-light":
        policy = policy_of_transform(RandAugment(magnitude=5))
    else:
        policy = policy_of_torchvision(name)
    return policy, schedule


def of_policy(policy: Sequence[SubPolicy]) -> Chances:
    chances_of_names: Chances = defaultdict(float)
    for sub_policy in policy:
        steps: list[dict[str, float]] = []
        for step in sub_policy.steps:
            chances: dict[str, float] = defaultdict(float)
            for choice in step:
                if choice.operation in OPERATIONS:
                    chances[choice.operation] += choice.chance
            steps.append({**chances, "": 1 - sum(chances.values())})
        for names in itertools.product(*steps):
            chance = np.prod(
                [step[name] for step, name in zip(steps, names, strict=True)]
            )
            chances_of_names[tuple(filter(None, names))] += (
                float(chance) * sub_policy.weight / sum(each.weight for each in policy)
            )
    return chances_of_names


def of_walk(schedule: Schedule) -> Chances:
    """By the numbers of slots that fire: of n, each pair in its order is as likely as
    another to come first.
    """
    space = schedule.space
    row = schedule.values[0]
    slots = space.slots[space.walk_slots]
    names = [slot.operation.name for slot in slots]
    fires = [row[slot.probability] for slot in slots]
    reached = row[space.count_columns].cumprod()
    chances: Chances = defaultdict(float)
    for name, chance in zip(names, applied(fires, 1 - reached)[0], strict=True):
        chances[(name,)] += chance
    if len(reached) > 1:
        for i, j in itertools.permutations(range(len(slots)), 2):
            n_others = poisson_binomial(
                fire for number, fire in enumerate(fires) if number not in (i, j)
            )
            n = np.arange(2, len(n_others) + 2)
            chance = (
                reached[1]
                * fires[i]
                * fires[j]
                * float((n_others / (n * (n - 1))).sum())
            )
            chances[names[i], names[j]] += chance
            chances[(names[i],)] -= chance
    chances[()] = 1 - sum(chances.values())
    return chances


@pytest.mark.parametrize("name", FITTED)
def test_operations_of_an_image_are_as_far_from_the_policy_as_stated(name: str) -> None:
    policy, schedule = policy_and_schedule(name)
    ours = of_walk(schedule)
    theirs = of_policy(policy)
    for numbers in range(3):
        of_length = [
            sum(chance for names, chance in chances.items() if len(names) == numbers)
            for chances in (ours, theirs)
        ]
        assert of_length[0] == pytest.approx(of_length[1], abs=1e-5)
    distance = (
        sum(abs(ours.get(key, 0.0) - theirs.get(key, 0.0)) for key in {*ours, *theirs})
        / 2
    )
    assert distance == pytest.approx(FITTED[name][1], abs=1e-3)


def magnitudes_of(schedule: Schedule, n_images: int) -> dict[str, Tensor]:
    draw = schedule.policy(0).draw(n_images, seeded(0))
    drawn: dict[str, list[Tensor]] = defaultdict(list)
    for number, slot in enumerate(schedule.space.slots):
        drawn[slot.operation.name].append(draw.magnitudes[draw.slots == number])
    return {name: torch.cat(parts) for name, parts in drawn.items()}


@pytest.mark.parametrize("name", FITTED)
def test_magnitudes_are_as_far_from_the_policy_as_stated(name: str) -> None:
    policy, schedule = policy_and_schedule(name)
    weights: dict[str, dict[float, float]] = defaultdict(lambda: defaultdict(float))
    for sub_policy in policy:
        for choice in itertools.chain(*sub_policy.steps):
            if choice.magnitude is not None:
                weights[choice.operation][choice.magnitude] += (
                    sub_policy.weight * choice.chance
                )
    for operation, drawn in magnitudes_of(schedule, 5 * N_IMAGES).items():
        if operation not in weights or not len(drawn):
            continue
        if OPERATIONS[operation].drawing == SIGN:
            assert (drawn < 0).double().mean() == pytest.approx(
                0.5, abs=3 / len(drawn) ** 0.5
            )
        at, shares = (
            np.array(numbers_or_shares)
            for numbers_or_shares in zip(
                *sorted(weights[operation].items()), strict=True
            )
        )
        upto = np.concatenate([[0.0], shares.cumsum() / shares.sum()])
        ordered = np.sort(drawn.abs().numpy())
        rounding = 1e-4 * (1 + at.max())
        above, below = (
            np.searchsorted(ordered, at + error) / len(ordered)
            for error in (rounding, -rounding)
        )
        distance = max(abs(above - upto[1:]).max(), abs(below - upto[:-1]).max())
        assert distance < FITTED[name][2] + 2 / len(drawn) ** 0.5, operation


def without_walk(name: str) -> Schedule:
    schedule = hba.load_policy(name)
    values = schedule.values.copy()
    values[:, schedule.space.count_columns] = 0.0
    return dataclasses.replace(schedule, values=values)


def augmented(name: str, image: Tensor) -> Tensor:
    policy = without_walk(name).policy(0)
    return policy(
        image.expand(N_IMAGES, -1, -1, -1).contiguous(),
        seeded(1),
    )


@pytest.mark.parametrize(
    ("name", "n"),
    [
        ("flip", 2),
        ("photo", 2),
        ("oriented", 1),
        ("overhead", 8),
        ("overhead-randaugment", 8),
    ],
)
def test_each_symmetry_comes_equally_often(name: str, n: int) -> None:
    """An eighth of 3 pixels is no shift. All flips and turns of a square are 8, each as
    likely as the others.
    """
    image = torch.arange(9.0).reshape(1, 1, 3, 3) / 9
    versions = [
        image,
        image.flip(3),
        *(
            symmetry.rot90(k, (2, 3))
            for symmetry in (image, image.flip(3))
            for k in (1, 2, 3)
        ),
    ]
    result = augmented(name, image)
    shares = [
        (result == version).all(dim=(1, 2, 3)).double().mean().item()
        for version in versions
    ]
    assert shares[:n] == pytest.approx([1 / n] * n, abs=0.02)
    assert sum(shares) == 1


@pytest.mark.parametrize("name", ["oriented", "photo", "overhead"])
def test_crops_are_those_of_random_crop_with_an_eighth_of_padding(name: str) -> None:
    """torchvision's RandomCrop(16, padding=2): 25 places, equally likely."""
    image = torch.rand(1, 1, 16, 16, generator=seeded(0))
    turned = (
        [image.rot90(k, (2, 3)) for k in range(4)] if name == "overhead" else [image]
    )
    turned += [version.flip(3) for version in turned if name != "oriented"]
    result = augmented(name, image)
    shares = []
    for version in turned:
        padded = TF.pad(version, [2], fill=0.5)
        crops = [
            TF.crop(padded, top, left, 16, 16) for top in range(5) for left in range(5)
        ]
        shares += [
            (result == crop).all(dim=(1, 2, 3)).double().mean().item() for crop in crops
        ]
    assert shares == pytest.approx(
        [1 / len(shares)] * len(shares), abs=6 / (N_IMAGES * len(shares)) ** 0.5
    )
    assert sum(shares) == pytest.approx(1)


def boxes_of_crop_flip(n_images: int) -> Tensor:
    """Area, logarithm of the ratio of width to height, and place among those possible,
    (N, 4).
    """
    draw = hba.load_policy("crop-flip").policy(0).draw(n_images, seeded(0))
    crop = STAGED["ResizedCrop"].function(
        draw.magnitudes[:, 1].double(), 1, 1, draw.positions[:, 1].double()
    )
    width = crop["a"]
    height = crop["e"]
    return torch.stack(
        [
            width * height,
            (width / height).log(),
            crop["c"] / (1 - width),
            crop["f"] / (1 - height),
        ],
        dim=1,
    )


def boxes_of_torchvision(n_images: int) -> Tensor:
    """The same of RandomResizedCrop, on an image so large that whole pixels are
    fine.
    """
    side = 100_000
    crop = RandomResizedCrop(224)
    image = torch.empty(1, 1, 1).expand(1, side, side)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        boxes = [
            crop.get_params(image, [*crop.scale], [*crop.ratio])
            for _ in range(n_images)
        ]
    top, left, height, width = torch.tensor(boxes).double().div(side).unbind(dim=1)
    return torch.stack(
        [
            width * height,
            (width / height).log(),
            left / (1 - width),
            top / (1 - height),
        ],
        dim=1,
    )


def test_resized_crops_are_as_far_from_torchvision_as_stated() -> None:
    """Up to 3/4 of the area, every ratio fits, and crops are alike."""
    ours, theirs = (
        boxes.numpy()
        for boxes in (boxes_of_crop_flip(N_IMAGES), boxes_of_torchvision(N_IMAGES))
    )
    noise = 2 * (2 / N_IMAGES) ** 0.5
    areas = stats.ks_2samp(ours[:, 0], theirs[:, 0])
    assert areas.statistic == pytest.approx(0.124, abs=noise)
    means = ours[:, 0].mean(), theirs[:, 0].mean()
    assert means == pytest.approx((0.54, 0.478), abs=noise / 2)
    small_ours, small_theirs = (boxes[boxes[:, 0] < 0.75] for boxes in (ours, theirs))
    for column in range(4):
        alike = stats.ks_2samp(small_ours[:, column], small_theirs[:, column])
        assert alike.pvalue > 1e-3, column


def test_crop_flip_flips_as_often_as_torchvision() -> None:
    draw = hba.load_policy("crop-flip").policy(0).draw(N_IMAGES, seeded(0))
    share = (draw.slots[:, 0] == 0).double().mean()
    assert share == pytest.approx(RandomHorizontalFlip().p, abs=3 / N_IMAGES**0.5)


def test_three_augment_makes_an_image_gray_or_solarized_or_blurred() -> None:
    """torchvision's Grayscale and PIL's solarize, as in DeiT's augment.py, and PIL's
    SMOOTH.
    """
    schedule = hba.load_policy("three-augment").without(*THREE_AUGMENT)
    image = torch.randint(256, (3, 6, 7), generator=seeded(0)).byte()
    pil = TF.to_pil_image(image)
    versions = [
        TF.pil_to_tensor(version)
        for version in (
            Grayscale(3)(pil),
            ImageOps.solarize(pil),
            pil.filter(ImageFilter.SMOOTH),
        )
    ]
    result = schedule.policy(0)(image.expand(N_IMAGES, -1, -1, -1), seeded(0))
    shares = [
        (result == version).all(dim=(1, 2, 3)).double().mean().item()
        for version in versions
    ]
    assert shares == pytest.approx([1 / 3] * 3, abs=0.02)
    assert sum(shares) == pytest.approx(1)


def test_the_blur_of_three_augment_is_in_the_range_of_deit() -> None:
    dot = Image.new("L", (5, 5))
    dot.putpixel((2, 2), 255)
    shares = np.array(dot.filter(ImageFilter.SMOOTH)) / 255
    variance = (shares.sum(axis=0) * (np.arange(5) - 2) ** 2).sum()
    assert variance**0.5 == pytest.approx(0.68, abs=0.01)


def test_three_augment_has_the_jitter_and_the_crop_of_deit() -> None:
    jitter = ColorJitter(0.3, 0.3, 0.3)
    schedule = hba.load_policy("three-augment")
    drawn = magnitudes_of(schedule, N_IMAGES)
    for name, ends in (
        ("BrightnessJitter", jitter.brightness),
        ("ContrastJitter", jitter.contrast),
        ("Saturation", jitter.saturation),
    ):
        assert len(drawn[name]) == N_IMAGES
        low, high = ends
        uniform = stats.kstest(drawn[name], "uniform", args=(low, high - low))
        assert uniform.pvalue > 1e-3, name
    crop = RandomCrop(224, padding=4)
    shift = drawn["PaddedCrop"][0] * crop.size[0]
    assert shift == pytest.approx(crop.padding)


def test_timm_applies_the_operations_that_timm_applies() -> None:
    auto_augment = pytest.importorskip("timm.data.auto_augment")
    transform = auto_augment.rand_augment_transform(
        "rand-m9-mstd0.5-inc1", {"translate_const": 100}
    )
    theirs: dict[str, list[float]] = defaultdict(list)
    for step in transform.ops:
        name = step.name.removesuffix("Increasing").removesuffix("Rel")
        step.aug_fn = lambda image, *level, name=name, **_: theirs[name].append(
            abs(level[0]) if level else 0.0
        )
    # timm draws from these two.
    states = np.random.get_state(), random.getstate()
    np.random.seed(0)
    random.seed(0)
    for _ in range(5 * N_IMAGES):
        transform("an image")
    np.random.set_state(states[0])
    random.setstate(states[1])
    ours = magnitudes_of(hba.load_policy("timm"), 5 * N_IMAGES)
    assert theirs.keys() - ours.keys() == {"SolarizeAdd"}
    for name in theirs.keys() & ours.keys():
        drawn = ours[name].abs().double()
        expected = torch.tensor(theirs[name], dtype=torch.float64)
        assert len(drawn) == pytest.approx(
            len(expected), abs=8 * len(expected) ** 0.5
        ), name
        if OPERATIONS[name].magnitude_range is not None:
            error = float(drawn.std() + expected.std()) / len(expected) ** 0.5
            # At level 10, Posterize keeps no bit in timm.
            rounding = 0.05 if name == "Posterize" else 0.0
            assert drawn.mean() == pytest.approx(
                float(expected.mean()), abs=6 * error + rounding
            ), name
            assert drawn.std() == pytest.approx(
                float(expected.std()), rel=0.1, abs=4 * rounding
            ), name


def test_timm_has_the_other_numbers_of_timm() -> None:
    data = pytest.importorskip("timm.data")
    transforms = data.create_transform(
        32,
        is_training=True,
        auto_augment="rand-m9-mstd0.5-inc1",
        re_prob=0.25,
        re_mode="pixel",
    ).transforms
    by_name = {type(transform).__name__: transform for transform in transforms}
    assert [*by_name] == [
        "RandomResizedCropAndInterpolation", "RandomHorizontalFlip", "RandAugment",
        "MaybeToTensor", "Normalize", "RandomErasing",
    ]  # fmt: skip
    crop = by_name["RandomResizedCropAndInterpolation"]
    erasing = by_name["RandomErasing"]
    assert by_name["RandomHorizontalFlip"].p == TIMM["HorizontalFlip"][0]
    assert crop.scale == (TIMM["ResizedCrop"][1], 1)
    assert crop.ratio == (1 / CROP_RATIO, CROP_RATIO)
    assert (erasing.probability, erasing.max_area) == TIMM["Erase"]
    assert erasing.min_area == SMALLEST_SHARE
    assert np.exp(erasing.log_aspect_ratio) == pytest.approx(ASPECTS, abs=0.04)
    mixup = data.Mixup(mixup_alpha=0.8, cutmix_alpha=1.0)
    row = hba.load_policy("timm")
    mixing = Mixing.of(row.space, row.values[0])
    assert (mixing.mixup_alpha, mixing.cutmix_alpha) == (
        mixup.mixup_alpha,
        mixup.cutmix_alpha,
    )
    assert mixing.mixup_probability == mixup.mix_prob * (1 - mixup.switch_prob)
    assert (
        1 - mixing.mixup_probability
    ) * mixing.cutmix_probability == mixup.mix_prob * mixup.switch_prob


def test_recipes_are_schedules_by_name(tmp_path: Path) -> None:
    for name in RECIPES:
        schedule = hba.load_policy(name)
        assert schedule.epochs == 1
        schedule.save(tmp_path / f"{name}.json")
        loaded = hba.load_policy(tmp_path / f"{name}.json")
        np.testing.assert_array_equal(loaded.values, schedule.values)
        assert (
            ScheduleAugmentation(loaded).definition
            == ScheduleAugmentation(schedule).definition
        )
        assert [*named_rows(name, [])] == [name]
        assert all(hba.export(name, target) for target in TARGETS)
    for wrong, meant in (
        ("phto", "photo"),
        ("Overhead", "overhead"),
        ("randaugmnt", "randaugment"),
    ):
        with pytest.raises(ScheduleError, match=f"did you mean {meant}"):
            hba.load_policy(wrong)


def test_none_changes_nothing() -> None:
    schedule = hba.load_policy("none")
    images = torch.rand(50, 3, 8, 8)
    levels = (255 * images).byte()
    assert torch.equal(schedule.policy(0)(images), images)
    transform = schedule.transform()
    assert all(torch.equal(transform(image), image) for image in levels)


def test_none_begins_searches_of_every_space_near_no_augmentation() -> None:
    row = first_row(hba.load_policy("none"))
    for space in SPACES.values():
        if space.always:
            continue
        start = space.decode(of_row(space, row))
        assert (start[space.probability_columns(start.device)] < 0.05).all()


def test_a_recipe_takes_the_mean_training_colour_unless_it_was_given_another() -> None:
    train = LabelledImages(
        torch.full((2, 3, 16, 16), 51, dtype=torch.uint8),
        torch.zeros(2, dtype=torch.int64),
    )
    white = torch.ones(64, 3, 16, 16)
    recipe = without_walk("oriented")
    for schedule, fill in (
        (recipe, 0.2),
        (dataclasses.replace(recipe, fill=(0.75,) * 3), 0.75),
    ):
        (augment,) = ScheduleAugmentation(schedule).by_epoch(1, train)
        levels = augment(white, seeded(0)).unique()
        assert levels.tolist() == pytest.approx([fill, 1.0])
    augmentations = [
        ScheduleAugmentation(dataclasses.replace(recipe, provenance=provenance))
        for provenance in ({}, recipe.provenance)
    ]
    assert augmentations[0].definition != augmentations[1].definition
