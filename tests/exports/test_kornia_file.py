"""A file for kornia augments batches as the schedule does, moves what goes along with
them, and needs no hba.
"""

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from exported import CASES, augmented, imported_from, module_of, schedule_of
from kornia.augmentation import AugmentationSequential
from PIL import Image
from random_inputs import seeded
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms import v2

import hba
from hba.operations import STAGED
from hba.policy.annotations import KEYPOINTS, move_annotation
from hba.policy.player import OpSample
from hba.policy.space import SearchSpace
from hba.policy.spaces import search_space
from hba.schedule.schedule import Schedule

HEIGHT = 21
WIDTH = 34
WALK = search_space(
    operations=["ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate"]
).operations
NEAREST = ("HorizontalFlip", "VerticalFlip", "QuarterTurn", "PaddedCrop")
MOVING = SearchSpace((*(STAGED[name] for name in NEAREST), *WALK))


def images(channels: int = 3, n: int = 32) -> Tensor:
    """Noise, so that each pixel tells."""
    return torch.rand(n, channels, HEIGHT, WIDTH, generator=seeded(1))


def exported(schedule: Schedule, **settings: Any) -> Any:
    return module_of(hba.export(schedule, "kornia")).policy(**settings)


def moving(space: SearchSpace = MOVING, low: float = 0.0) -> Schedule:
    """One row of random values, black where pixels were uncovered."""
    ends = np.array(space.ranges)
    values = ends[:, 0] + (ends[:, 1] - ends[:, 0]) * np.random.default_rng(3).uniform(
        low, 1, len(ends)
    )
    return Schedule(space, values[None], (0.0, 0.0, 0.0))


@pytest.mark.parametrize(("space", "spread"), CASES)
def test_it_gives_the_pixels_of_hba_s_own_policy(space: str, spread: str) -> None:
    schedule = schedule_of(space, spread)
    policy = exported(schedule)
    # Before the epoch is set, it is the last.
    by_last_row = augmented(schedule.policy(3), images(), 0)
    assert torch.equal(augmented(policy, images(), 0), by_last_row)
    policy.set_epoch(0, 4)
    by_first_row = augmented(schedule.policy(0), images(1), 0)
    assert torch.equal(augmented(policy, images(1), 0), by_first_row)


def test_same_on_batch_does_the_same_to_every_image_and_a_batch_may_be_empty() -> None:
    policy = exported(schedule_of("hba"), same_on_batch=True, keepdim=True)
    alike = images(n=1).repeat(8, 1, 1, 1)
    batches = [augmented(policy, alike, seed) for seed in range(10)]
    assert all(torch.equal(batch, batch[:1].expand_as(batch)) for batch in batches)
    assert any(not torch.equal(batch, alike) for batch in batches)
    for few in (images(n=0), images()[0]):
        assert policy(few).shape == few.shape
    with pytest.raises(TypeError, match="got 4"):
        policy(images(4))


def test_masks_move_as_their_images_do() -> None:
    """What is no colour of its own is the image itself."""
    policy = AugmentationSequential(exported(moving()), data_keys=["input", "mask"])
    pixels = images(1)
    result, mask = augmented(lambda batch: policy(batch, batch.clone()), pixels, 0)
    assert torch.equal(result, mask)
    assert not torch.equal(result, pixels)


def test_masks_keep_their_colours_and_labels() -> None:
    """Operations on colours leave them, and a bilinear policy takes them from the
    nearest pixel all the same.
    """
    colours = search_space(operations=["Invert", "Solarize", "Contrast", "Cutout"])
    labels = torch.randint(0, 5, (32, 1, HEIGHT, WIDTH)).float()
    of_colours = AugmentationSequential(
        exported(moving(colours, 0.5)), data_keys=["input", "mask"]
    )
    assert torch.equal(of_colours(images(), labels)[1], labels)
    bilinear = search_space(operations=["Rotate", "ShearX"], interpolation="bilinear")
    of_moves = AugmentationSequential(
        exported(moving(bilinear)), data_keys=["input", "mask"]
    )
    moved_labels = of_moves(images(), labels)[1]
    assert set(moved_labels.unique().tolist()) <= set(range(5))
    assert not torch.equal(moved_labels, labels)


def test_uncovered_pixels_of_masks_have_the_given_value() -> None:
    """By the file, or by the argument of policy(); others are those of a mask with
    zeros.
    """
    schedule = moving(search_space(operations=["TranslateX", "Rotate"]), 1.0)
    labels = torch.randint(1, 5, (32, 1, HEIGHT, WIDTH)).float()
    in_file = module_of(hba.export(schedule, "kornia", mask_fill=255)).policy()
    masks = []
    for policy in (exported(schedule), exported(schedule, mask_fill=255), in_file):
        augment = AugmentationSequential(policy, data_keys=["input", "mask"])
        masks.append(
            augmented(
                lambda batch, augment=augment: augment(batch, labels)[1], images(), 0
            )
        )
    black, by_argument, by_file = masks
    assert (black == 0).any()
    assert torch.equal(by_argument, torch.where(black == 0, 255.0, black))
    assert torch.equal(by_file, by_argument)
    with pytest.raises(ValueError, match="mask_fill"):
        exported(schedule, mask_fill=1e39).apply_transform_mask(labels, {})


@pytest.mark.skipif(not KEYPOINTS, reason="torchvision has keypoints since 0.23")
def test_keypoints_move_as_those_of_hba_s_transform() -> None:
    """kornia counts places from the centre of the first pixel, torchvision from its
    corner.
    """
    for interpolation in ("nearest", "bilinear"):
        operations = (
            operation.with_interpolation(interpolation)
            for operation in MOVING.operations
        )
        schedule = moving(SearchSpace((*operations, STAGED["ResizedCrop"])))
        policy: Any = AugmentationSequential(
            exported(schedule), data_keys=["input", "keypoints"]
        )
        points = torch.tensor([[4.0, 3.0], [20.5, 11.0], [30.0, 18.0]])
        _, moved_points = policy(images(n=16), points.expand(16, -1, -1))
        (item,) = policy._params
        rows = (
            item.data[name].tolist() for name in ("slots", "magnitudes", "positions")
        )
        by_slot = [slot.operation for slot in schedule.space.slots]
        assert (item.data["slots"] >= 0).any(dim=1).sum() > 5
        for *row, after in zip(*rows, moved_points, strict=True):
            steps = [
                OpSample(by_slot[slot], size, tuple(at))
                for slot, size, at in zip(*row, strict=True)
                if slot >= 0
            ]
            key_points = tv_tensors.KeyPoints(points + 0.5, canvas_size=(HEIGHT, WIDTH))
            expected = move_annotation(key_points, steps) - 0.5
            # torchvision's are cut off at the border.
            inside = (
                (expected > 0) & (expected < torch.tensor([WIDTH - 1, HEIGHT - 1]))
            ).all(dim=1)
            torch.testing.assert_close(
                after[inside], expected.as_subclass(Tensor)[inside], atol=1e-4, rtol=0
            )


def test_boxes_stay_on_what_they_mark_and_what_cannot_move_is_refused() -> None:
    """In kornia, the right end of a box is a pixel further, by as much as the image is
    enlarged.
    """
    image = torch.zeros(1, 1, HEIGHT, WIDTH)
    image[..., 8:14, 12:22] = 1
    box = torch.tensor([[[12.0, 8.0, 22.0, 14.0]]])
    for name in (*NEAREST, "ResizedCrop", "Perspective", "Elastic"):
        schedule = moving(SearchSpace((STAGED[name],), count_probabilities=(1.0,)), 0.4)
        policy: Any = AugmentationSequential(
            exported(schedule), data_keys=["input", "bbox_xyxy"]
        )
        if name in ("Perspective", "Elastic"):
            with pytest.raises(
                TypeError, match=f"{name}; export the schedule --without"
            ):
                policy(image, box)
            assert exported(schedule)(image).shape == image.shape
            continue
        for seed in range(10):
            result, moved_box = augmented(
                lambda batch, policy=policy: policy(batch, box.clone()), image, seed
            )
            rows, columns = (result[0, 0] > 0.5).nonzero(as_tuple=True)
            around = torch.stack(
                [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
            ).float()
            inside = (around > 0) & (
                around < torch.tensor([WIDTH, HEIGHT, WIDTH, HEIGHT])
            )
            most = {"QuarterTurn": WIDTH / HEIGHT, "ResizedCrop": 3.0}.get(name, 1.0)
            assert (moved_box[0, 0] - around)[inside].abs().max() <= most + 0.1, name


def test_it_repeats_a_draw_and_copies_and_pickles_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = imported_from(
        tmp_path, schedule_of("hba"), "kornia", "batch_policy", monkeypatch
    ).policy()
    policy.set_progress(0.25)
    result = augmented(policy, images(), 1)
    assert torch.equal(policy(images(), params=policy._params), result)
    for other in (copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))):
        assert torch.equal(augmented(other, images(), 1), result)


def test_operations_are_pil_s_but_for_the_rounding_of_enhancers_and_means() -> None:
    for interpolation in ("nearest", "bilinear"):
        space = search_space(interpolation=interpolation)
        module = module_of(
            hba.export(
                Schedule(space, np.array(space.ranges).mean(axis=1)[None]), "kornia"
            )
        )
        pixels = np.random.default_rng(0).integers(
            0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8
        )
        batch = torch.from_numpy(pixels).permute(2, 0, 1)[None].float() / 255
        for operation in space.operations:
            magnitude = float(
                np.float32(sum(operation.magnitude_range or (0.0, 0.0)) * 0.4)
            )
            result = module.OPERATIONS[operation.name].compute(
                batch,
                torch.tensor([magnitude]),
                torch.tensor([10.0, 20.0, 30.0]) / 255,
                torch.tensor([[0.3, 0.6]]),
            )
            expected = operation.apply_to_pil(
                Image.fromarray(pixels), magnitude, (10, 20, 30), (0.3, 0.6)
            )
            levels = result[0].permute(1, 2, 0).mul(255).round().numpy()
            rounds = operation.name in (
                "Contrast",
                "Color",
                "Brightness",
                "Sharpness",
            ) or (operation.interpolation == "bilinear")
            assert np.abs(levels - np.asarray(expected, dtype=float)).max() <= rounds, (
                operation.name
            )


def test_images_that_are_not_floats_in_0_to_1_are_refused() -> None:
    """Also in the compositions of torchvision."""
    policy = exported(schedule_of("hba"), keepdim=True)
    levels = images().mul(255).byte()
    pixels = levels[0].permute(1, 2, 0).numpy()
    picture = Image.fromarray(pixels)
    wrong: list[Any] = [
        images() * 255,
        (images() - 0.5) / 0.2,
        images() / 0,
        levels,
        levels[0],
        levels > 127,
        picture,
    ]
    wrong += [
        levels.clamp(max=1),
        levels.to(torch.uint16),
        pixels,
        pixels / 255,
        images(4),
        images().movedim(1, 3),
    ]
    for composed in (policy, v2.Compose([policy])):
        for mistake in wrong:
            with pytest.raises(
                (TypeError, ValueError), match=r"\[0, 1\]|1 or 3 channels"
            ) as refused:
                composed(mistake)
            assert "\n" not in str(refused.value)
    steps = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True), policy])
    assert torch.equal(
        augmented(steps, picture, 0), augmented(policy, levels[0] / 255, 0)
    )


def test_half_precision_gives_the_pixels_and_places_of_single_precision() -> None:
    policy: Any = AugmentationSequential(
        exported(schedule_of("hba")), data_keys=["input", "keypoints"]
    )
    points = torch.tensor([[20.5, 11.0]]).expand(32, 1, 2)
    halves = images().half()
    results, expected = (
        augmented(lambda batch: policy(batch, points), precision, 0)
        for precision in (halves, halves.float())
    )
    assert torch.equal(results[0], expected[0].half())
    assert torch.equal(results[1], expected[1])
