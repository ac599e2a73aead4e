"""The stages in a pipeline of albumentations: flips and turns exactly, the others by
what they change.
"""

import json
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from exported import module_of, pictures, schedule_of
from random_inputs import drawn_magnitudes
from scipy import stats
from torch import Tensor

import hba
from hba.errors import SettingsError
from hba.exports.albumentations_file import FORMAT, GUARDS, transforms_of
from hba.operations import STAGED
from hba.policy.space import SearchSpace
from hba.schedule.library import policy_names
from hba.schedule.recipes import RECIPES
from hba.schedule.schedule import Schedule

SYMMETRIES = tuple(
    STAGED[name] for name in ("HorizontalFlip", "VerticalFlip", "QuarterTurn")
)
CROPS = tuple(STAGED[name] for name in ("ResizedCrop", "PaddedCrop"))
SIDE = 32


def fixed(operations: Any, *values: float) -> Schedule:
    return Schedule(
        SearchSpace(operations, count_probabilities=(1.0,)),
        np.array([values]),
        (0.0, 0.0, 0.0),
    )


def loaded(schedule: Schedule, tmp_path: Any) -> Any:
    albumentations = pytest.importorskip("albumentations")
    hba.export(schedule, "albumentations", tmp_path / "policy.json")
    return seeded(albumentations.load(tmp_path / "policy.json"))


def seeded(pipeline: Any) -> Any:
    """set_random_seed would give every transform the same random numbers."""
    pipeline.set_random_state(np.random.default_rng(0), random.Random(0))
    return pipeline


def test_stages_stand_before_and_after_the_walk_with_their_probabilities() -> None:
    schedule = schedule_of("stages").only(1).without("Perspective", "Elastic", "Blur")
    transforms = json.loads(hba.export(schedule, "albumentations"))["transform"][
        "transforms"
    ][len(GUARDS) :]
    slots = [slot for slot in schedule.space.slots if slot.operation.stage != "walk"]
    walk = next(
        number
        for number, transform in enumerate(transforms)
        if "Rotate" not in str(transform) and "InvertImg" in str(transform)
    )
    assert walk == sum(slot.operation.stage in ("symmetry", "crop") for slot in slots)
    chances = [
        transform["p"] for transform in transforms[:walk] + transforms[walk + 1 :]
    ]
    assert chances == pytest.approx(
        [schedule.values[0][slot.probability] for slot in slots], abs=1e-5
    )


def test_symmetries_are_exact_and_as_likely(tmp_path: Any) -> None:
    """All 8 symmetries of a square, also for a probability that RandomRotate90 cannot
    have.
    """
    schedule = fixed(SYMMETRIES, 0.3, 0.6, 0.9)
    image = np.arange(9, dtype=np.uint8).reshape(3, 3)
    pipeline = loaded(schedule, tmp_path)
    singles = Counter(pipeline(image=image)["image"].tobytes() for _ in range(2000))
    levels = torch.from_numpy(image).expand(20_000, 1, 3, 3)
    torch.manual_seed(0)
    batch = Counter(result.tobytes() for result in schedule.transform()(levels).numpy())
    assert singles.keys() == batch.keys()
    assert len(singles) == 8
    table = [[counts[symmetry] for symmetry in singles] for counts in (singles, batch)]
    assert stats.chi2_contingency(table).pvalue > 1e-3


def ramp() -> np.ndarray:
    """Red is the place in x, green the place in y, blue noise; in the middle of all
    levels.
    """
    image = np.random.default_rng(0).integers(60, 190, (SIDE, SIDE, 3), dtype=np.uint8)
    image[..., 0], image[..., 1] = (
        60 + 4 * np.arange(SIDE),
        60 + 4 * np.arange(SIDE)[:, None],
    )
    return image


def both(name: str, magnitude: float, n: int = 600) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, H, W, 3) by albumentations, and (2000, H, W, 3) by hba."""
    albumentations = pytest.importorskip("albumentations")
    operation = STAGED[name]
    low, high = sorted(operation.draw_magnitude(magnitude, end) for end in (0.0, 1.0))
    leaves = [
        {**transform, "p": 1.0}
        for transform in transforms_of(operation, (low, high), (0, 0, 0), SIDE)
    ]
    one_of = {"__class_fullname__": "OneOf", "transforms": leaves, "p": 1.0}
    pipeline = seeded(
        albumentations.from_dict({"__version__": FORMAT, "transform": one_of})
    )
    image = ramp()
    theirs = np.stack([pipeline(image=image)["image"] for _ in range(n)]).astype(float)
    uniforms = torch.rand(
        2000, 1 + operation.n_uniforms, generator=torch.Generator().manual_seed(0)
    )
    ours = operation(
        (torch.from_numpy(image).permute(2, 0, 1) / 255).expand(2000, -1, -1, -1),
        drawn_magnitudes(operation, magnitude, uniforms[:, 0]),
        fill=torch.zeros(3),
        position=uniforms[:, 1:],
    )
    return theirs, ours.mul(255).permute(0, 2, 3, 1).numpy()


CHANGES = {
    "Zoom": 0.5,
    "Shear": 40.0,
    "Rotation": 40.0,
    "BrightnessJitter": 0.5,
    "ContrastJitter": 0.5,
    "Hue": 0.1,
    "Saturation": 0.7,
    "Gamma": 0.8,
    "Gray": 0.0,
    "Blur": 0.08,
    "Noise": 0.1,
    "Jpeg": 20.0,
}


@pytest.mark.parametrize("name", [*CHANGES, "Erase"])
def test_images_change_as_much_as_hba_changes_them(name: str) -> None:
    """Mean and spread over images. Holes are cut to whole pixels, a tenth of their area
    at this size; JPEG takes red for blue.
    """
    changes = [
        np.abs(images - ramp()).mean(axis=(1, 2, 3))
        for images in both(name, CHANGES.get(name, 0.4))
    ]
    tolerance = 0.2 if name in ("Erase", "Jpeg") else 0.1
    assert changes[0].mean() == pytest.approx(changes[1].mean(), rel=tolerance)
    if name != "Jpeg":
        assert changes[0].std() == pytest.approx(
            changes[1].std(), rel=2 * tolerance, abs=0.05
        )


def test_crops_have_the_area_the_ratio_and_the_place_of_hba_s() -> None:
    for least_area in (0.25, 0.6):
        parts = []
        for images in both("ResizedCrop", least_area, 1200):
            x, y = ((images[..., channel] - 60) / 4 for channel in (0, 1))
            across = (x[:, 16, 24] - x[:, 16, 8]) / 16
            down = (y[:, 24, 16] - y[:, 8, 16]) / 16
            parts.append(
                (across * down, np.log(across / down), x[:, 16, 16], y[:, 16, 16])
            )
        for theirs, expected, tolerance in zip(
            *parts, (0.02, 0.02, 0.3, 0.3), strict=True
        ):
            assert theirs.mean() == pytest.approx(expected.mean(), abs=tolerance)
            assert theirs.std() == pytest.approx(expected.std(), rel=0.3)
    # Shifts in grey levels, 4 a pixel; cut to whole pixels, they are half a pixel
    # shorter.
    shifts = [images[:, 16, 16, 0] - 124 for images in both("PaddedCrop", 0.25, 1200)]
    means = [np.abs(shift).mean() / 4 for shift in shifts]
    assert shifts[0].mean() == pytest.approx(0, abs=1.5)
    assert means[0] == pytest.approx(means[1] - 0.5, abs=0.3)


def test_masks_boxes_and_keypoints_move_with_flips_turns_and_crops(
    tmp_path: Any,
) -> None:
    albumentations = pytest.importorskip("albumentations")
    policy = loaded(
        fixed((*SYMMETRIES, *CROPS), *[0.5] * 3, 0.6, 0.4, 0.6, 0.1), tmp_path
    )
    boxes = albumentations.BboxParams("pascal_voc", label_fields=["labels"])
    pipeline = seeded(
        albumentations.Compose(
            [policy],
            bbox_params=boxes,
            keypoint_params=albumentations.KeypointParams("xy"),
        )
    )
    image = np.zeros((SIDE, SIDE, 3), np.uint8)
    image[10:19, 14:21] = 255
    distinct = set()
    for _ in range(60):
        result = pipeline(
            image=image,
            mask=image[..., 0],
            bboxes=[[14, 10, 21, 19]],
            labels=[1],
            keypoints=[[17.0, 14.0]],
        )
        distinct.add(result["image"].tobytes())
        rows, columns = np.nonzero(result["mask"])
        # An enlarged image is bilinear, its mask is not.
        assert ((result["image"][..., 0] > 127) == (result["mask"] > 0)).mean() > 0.96
        around = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
        assert result["bboxes"][0] == pytest.approx(around, abs=1.5)
        middle = [columns.mean(), rows.mean()]
        assert result["keypoints"][0] == pytest.approx(middle, abs=1.5)
    assert len(distinct) > 30


def test_other_types_become_what_uint8_becomes_or_are_refused(tmp_path: Any) -> None:
    """A grey image needs a fill of one colour."""
    image = ramp()[::2, ::2]
    wrong: list[Any] = [
        (image.astype(np.int16), "int16"),
        (image > 127, "bool"),
        (pictures()[0], "numpy array"),
    ]
    wrong += [
        (repeated, "1-channel or 3-channel")
        for repeated in (image.repeat(2, axis=2), image.transpose(2, 0, 1))
    ]
    for name in [*RECIPES, *policy_names()]:
        schedule = hba.load_policy(name).averaged()
        pipeline = loaded(schedule, tmp_path)
        grey = [image[..., 0], image[..., :1]] * (len({*schedule.fill}) == 1)
        cases = [("image", form) for form in (image, *grey)]
        for target, levels in [
            *cases,
            *((batch, np.stack([image, image])) for batch in ("images", "volume")),
        ]:
            results = []
            for form in (
                levels,
                np.float32(levels / 255),
                levels / 255,
                np.uint16(levels) * np.uint16(257),
            ):
                seeded(pipeline)
                results.append(
                    np.stack(
                        [pipeline(**{target: form.copy()})[target] for _ in range(4)]
                    )
                )
            assert all(
                result.dtype == np.uint8 and np.array_equal(result, results[0])
                for result in results
            ), (name, target)
        for mistake, named in wrong:
            with pytest.raises((TypeError, RuntimeError), match=named):
                pipeline(image=mistake)


def test_what_albumentations_cannot_express_is_named_with_what_to_do() -> None:
    for name in ("Perspective", "Elastic", "Blur"):
        schedule = fixed((*SYMMETRIES, STAGED[name]), 0.1, 0.2, 0.3, 0.5, 0.05)
        with pytest.raises(
            SettingsError, match=f"cannot express {name}, .*--without {name}"
        ):
            hba.export(schedule, "albumentations")
        assert "HorizontalFlip" in hba.export(schedule.without(name), "albumentations")
    with pytest.raises(hba.errors.ScheduleError, match="did you mean Blur"):
        schedule.without("blur")


def test_the_head_of_a_file_says_how_to_mix_and_its_lines_do_that() -> None:
    operations = (STAGED["HorizontalFlip"], STAGED["Mixup"], STAGED["CutMix"])
    schedule = fixed(operations, 0.5, 0.3, 0.4, 0.5, 0.9)
    head = str(module_of(hba.export(schedule, "torchvision")).__doc__)
    lines = [
        line.strip().removeprefix("mix = ")
        for line in head.splitlines()
        if "mix = " in line
    ]
    from timm.data.mixup import Mixup
    from torchvision.transforms import v2

    images = torch.rand(4, 1, 6, 6)
    labels = torch.arange(4)
    assert lines[1].startswith("timm.data.Mixup(")
    timm_s = eval(lines[1].removeprefix("timm.data."), {"Mixup": Mixup, "n": 4})
    for mix in (
        eval(lines[0], {"v2": v2, "n": 4}),
        timm_s,
        schedule.batch_transform(4),
    ):
        torch.manual_seed(0)
        np.random.seed(0)
        kinds = [kind_of(images, mix(images.clone(), labels)[0]) for _ in range(1500)]
        assert np.mean([effect == "mixup" for effect in kinds]) == pytest.approx(
            0.3, abs=0.05
        ), mix
        # A box of CutMix can be empty.
        assert 0.2 < np.mean([effect == "cutmix" for effect in kinds]) < 0.35 + 0.05, (
            mix
        )
    only = Schedule(
        SearchSpace(operations[1:], count_probabilities=(1.0,)), schedule.values[:, 1:]
    )
    for to in ("torchvision", "kornia", "albumentations"):
        with pytest.raises(SettingsError, match="batch_transform"):
            hba.export(only, to)


def kind_of(images: Tensor, mixed: Tensor) -> str:
    if torch.equal(images, mixed):
        return "none"
    return "mixup" if (images != mixed).all() else "cutmix"
