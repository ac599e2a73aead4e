"""Boxes, masks, keypoints and videos: as torchvision and PIL move them, and always on
their image.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from random_inputs import seeded
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as TF

import hba
from hba.errors import SettingsError
from hba.operations import OPERATIONS, STAGED, Operation
from hba.operations.on_pil import apply_to_pil
from hba.packed import apply_to_all
from hba.policy.annotations import KEYPOINTS, move_annotation
from hba.policy.player import OpSample
from hba.policy.space import SearchSpace
from hba.policy.spaces import search_space
from hba.schedule.schedule import Schedule

SIZE = (40, 56)
GEOMETRIC = [name for name, operation in OPERATIONS.items() if operation.moves_pixels]
CORNERS = [[3.0, 5.0, 20.0, 17.0], [10.0, 2.0, 50.0, 39.0], [0.0, 0.0, 56.0, 40.0]]
POINTS = [[3.5, 5.5], [28.0, 20.0], [50.0, 2.0]]


def drawn(name: str, magnitude: float) -> OpSample:
    return OpSample(OPERATIONS[name], magnitude, (0.5, 0.5))


def boxes(form: str = "XYXY", numbers: Any = CORNERS) -> Any:
    of_corners = tv_tensors.BoundingBoxes(
        torch.tensor(numbers), format="XYXY", canvas_size=SIZE
    )
    return TF.convert_bounding_box_format(
        of_corners, new_format=tv_tensors.BoundingBoxFormat(form)
    )


def keypoints(numbers: Any = POINTS) -> list[Any]:
    """One set of them; none where torchvision has none, as before 0.23."""
    return [
        keypoint_type(torch.tensor(numbers), canvas_size=SIZE)
        for keypoint_type in KEYPOINTS
    ]


def torchvision_s(name: str, magnitude: float) -> Callable[[Any], Any]:
    """What torchvision's own AutoAugment does for an operation."""
    if name == "Rotate":
        return lambda image: TF.rotate(image, magnitude)
    degrees = math.degrees(math.atan(magnitude))
    pixels = (
        magnitude * SIZE[1],
        magnitude * SIZE[0],
    )
    shear = {"ShearX": [degrees, 0.0], "ShearY": [0.0, degrees]}.get(name, [0.0, 0.0])
    shift = {"TranslateX": [-pixels[0], 0.0], "TranslateY": [0.0, -pixels[1]]}.get(
        name, [0.0, 0.0]
    )
    return lambda image: TF.affine(
        image, angle=0.0, translate=shift, scale=1.0, shear=shear, center=[0.0, 0.0]
    )


MAGNITUDES = {
    "Rotate": 23.0,
    "ShearX": 0.3,
    "ShearY": 0.2,
    "TranslateX": 8 / SIZE[1],
    "TranslateY": 6 / SIZE[0],
}


def test_flips_turns_and_crops_move_annotations_as_torchvision_does() -> None:
    """Boxes, keypoints and masks, exactly; torchvision's flips of keypoints count
    places from the centre of a pixel.
    """
    height, width = SIZE
    crop = OpSample(STAGED["ResizedCrop"], 0.25, (0.5, 0.5, 0.5))
    references: list[tuple[OpSample, Callable[[Any], Any]]] = [
        (OpSample(STAGED["HorizontalFlip"], 0.0, ()), TF.horizontal_flip),
        (OpSample(STAGED["VerticalFlip"], 0.0, ()), TF.vertical_flip),
        (
            OpSample(STAGED["QuarterTurn"], 0.0, (0.5,)),
            lambda image: TF.rotate(image, 180),
        ),
        (
            OpSample(STAGED["Zoom"], 1.4975, ()),
            lambda image: TF.affine(image, 0.0, [0, 0], 1.4975, [0.0, 0.0]),
        ),
        (
            crop,
            lambda image: TF.resized_crop(
                image, height // 4, width // 4, height // 2, width // 2, list(SIZE)
            ),
        ),
    ]
    mask = tv_tensors.Mask(torch.arange(height * width).view(1, height, width) % 251)
    for step, reference in references:
        for annotation in (
            boxes(),
            *keypoints(),
            *([mask] if STAGED[step.operation.name].stage == "symmetry" else []),
        ):
            turned = move_annotation(annotation, [step])
            expected = reference(annotation)
            if isinstance(annotation, KEYPOINTS) and step.operation.name.endswith(
                "Flip"
            ):
                expected = expected + torch.tensor(
                    [
                        float(name == step.operation.name)
                        for name in ("HorizontalFlip", "VerticalFlip")
                    ]
                )
            assert torch.allclose(
                turned.as_subclass(Tensor).double(),
                expected.as_subclass(Tensor).double(),
            ), step
    square = tv_tensors.BoundingBoxes(
        torch.tensor([[3.0, 5.0, 20.0, 17.0]]), format="XYXY", canvas_size=(40, 40)
    )
    for times, at in ((90, 0.1), (270, 0.9)):
        turned = move_annotation(square, [OpSample(STAGED["QuarterTurn"], 0.0, (at,))])
        assert torch.allclose(turned, TF.rotate(square, times)), times


@pytest.mark.parametrize(
    ("name", "largest", "error"), [("Perspective", 0.5, 1.0), ("Elastic", 0.1, 2.0)]
)
def test_distortions_keep_annotations_on_the_image(
    name: str, largest: float, error: float
) -> None:
    """torchvision moves places of an elastic distortion by the displacement at the old
    place, not at the new one.
    """
    picture = spot(30, 18) / 255
    for seed in range(20):
        uniforms = torch.rand(STAGED[name].n_uniforms, generator=seeded(seed)).tolist()
        steps = [OpSample(STAGED[name], largest, (*uniforms, 0.5))]
        levels = apply_to_all(steps, picture[None], torch.zeros(3))[0, 0]
        mask = move_annotation(tv_tensors.Mask(picture[0].byte()), steps).as_subclass(
            Tensor
        )
        assert ((levels > 0.5) != mask.bool()).sum() <= 1
        rows, columns = torch.nonzero(mask, as_tuple=True)
        around = torch.stack(
            [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
        )
        assert (
            move_annotation(boxes(numbers=[[28.0, 16.0, 33.0, 21.0]]), steps)[0]
            - around
        ).abs().max() < error
        for points in keypoints([[30.5, 18.5]]):
            middle = torch.stack([columns.float().mean(), rows.float().mean()]) + 0.5
            assert (move_annotation(points, steps)[0] - middle).abs().max() < error
    space = SearchSpace((STAGED[name],), count_probabilities=(1.0,))
    schedule = Schedule(space, np.array([[1.0, largest]]), (0.0, 0.0, 0.0))
    image, mask = schedule.transform()(
        TF.to_pil_image(picture), tv_tensors.Mask(picture[0].byte())
    )
    assert ((TF.pil_to_tensor(image)[0] > 127) != mask.bool()).sum() <= 1


def test_boxes_and_keypoints_move_as_in_torchvision() -> None:
    for name, sign in itertools.product(GEOMETRIC, (1, -1)):
        magnitude = sign * MAGNITUDES[name]
        reference = torchvision_s(name, magnitude)
        for before in (boxes(), boxes("XYWH"), boxes("CXCYWH"), *keypoints()):
            after = move_annotation(before, [drawn(name, magnitude)])
            expected = reference(before)
            assert type(after) is type(before)
            assert after.canvas_size == SIZE
            assert not torch.equal(after, before)
            torch.testing.assert_close(
                after.as_subclass(Tensor),
                expected.as_subclass(Tensor),
                atol=1e-3,
                rtol=0,
            )


def test_a_mask_moves_as_pil_moves_the_same_picture() -> None:
    levels = torch.randint(0, 256, SIZE, generator=seeded(0), dtype=torch.uint8)
    for name, dtype, share in itertools.product(
        GEOMETRIC, (torch.uint8, torch.int64, torch.bool), (1, -0.7)
    ):
        what = [drawn(name, share * MAGNITUDES[name])]
        mask = tv_tensors.Mask(levels.to(dtype))
        picture = Image.fromarray(levels.to(dtype).to(torch.uint8).numpy())
        expected = torch.from_numpy(np.array(apply_to_pil(what, picture, (0.0,)))).to(
            dtype
        )
        moved_mask = move_annotation(mask, what)
        assert (type(moved_mask), moved_mask.dtype) == (tv_tensors.Mask, dtype)
        assert torch.equal(moved_mask.as_subclass(Tensor), expected)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float32])
@pytest.mark.parametrize("shape", [SIZE, (2, *SIZE)])
def test_uncovered_pixels_of_a_mask_are_filled_as_torchvision_fills_them(
    dtype: torch.dtype, shape: Any
) -> None:
    """A shift by whole pixels, and a distortion; what is not uncovered is the same with
    every fill.
    """
    mask = tv_tensors.Mask(torch.randint(1, 20, shape).to(dtype))
    shift = OpSample(OPERATIONS["TranslateX"], 5 / SIZE[1], ())
    expected = TF.affine(mask, 0.0, [-5, 0], 1.0, [0.0, 0.0], fill=255)
    assert torch.equal(move_annotation(mask, [shift], 255), expected)
    for name, uniforms in (
        ("Rotate", ()),
        ("Perspective", (0.9,) * 8),
        ("Elastic", (0.3,)),
    ):
        largest = {"Rotate": 30.0, "Perspective": 0.5, "Elastic": 0.1}[name]
        step = OpSample({**OPERATIONS, **STAGED}[name], largest, uniforms)
        black = move_annotation(mask, [step])
        filled = move_annotation(mask, [step], 255)
        assert filled.dtype == dtype
        assert torch.equal(filled == 255, black == 0), name
        assert torch.equal(filled[filled != 255], black[black != 0]), name
    cutout = OpSample(OPERATIONS["Cutout"], 0.2, (0.5, 0.5))
    assert torch.equal(move_annotation(mask, [cutout], 255), mask)


def test_a_mask_fill_that_the_mask_cannot_hold_is_refused() -> None:
    schedule = geometric_schedule()
    image = torch.zeros(3, *SIZE, dtype=torch.uint8)
    mask = torch.zeros(SIZE, dtype=torch.uint8)
    for wrong in (256, -1, 0.5):
        with pytest.raises(SettingsError, match="mask_fill"):
            schedule.transform(mask_fill=wrong)(image, tv_tensors.Mask(mask))
        with pytest.raises(SettingsError, match="mask_fill"):
            schedule.policy(0, mask_fill=wrong)(image[None], masks=mask[None])
    no_numbers: tuple[Any, ...] = ("255", True, math.nan)
    for no_number in no_numbers:
        with pytest.raises(SettingsError, match="mask_fill"):
            schedule.transform(mask_fill=no_number)
    schedule.transform(mask_fill=-100)(image, tv_tensors.Mask(mask.long()))


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_a_policy_moves_masks_of_a_batch_with_their_images(interpolation: str) -> None:
    """Each mask as `move_annotation` moves it by its image's draw; without a move, it
    stays.
    """
    schedule = geometric_schedule(interpolation)
    policy = schedule.policy(0, mask_fill=255)
    images = torch.rand(8, 3, *SIZE)
    masks = torch.randint(0, 20, (8, *SIZE))
    generator = seeded(0)
    sample = policy.draw(8, generator)
    generator.manual_seed(0)
    new_images, new_masks = policy(images, generator, masks=masks)
    assert torch.equal(new_images, policy.replay(images, sample))
    by_slot = [slot.operation for slot in schedule.space.slots]
    for number, mask in enumerate(masks):
        rows = zip(
            sample.slots[number],
            sample.magnitudes[number],
            sample.positions[number],
            strict=True,
        )
        steps = [
            OpSample(by_slot[slot], float(size), tuple(at.tolist()))
            for slot, size, at in rows
            if slot >= 0
        ]
        expected = move_annotation(tv_tensors.Mask(mask), steps, 255).as_subclass(
            Tensor
        )
        assert torch.equal(new_masks[number], expected)
    assert torch.equal(policy.replay_masks(masks[:, None], sample)[:, 0], new_masks)
    for wrong in (masks[:4], masks[0]):
        with pytest.raises(SettingsError, match="shape"):
            policy.replay_masks(wrong, sample)
    unknown = dataclasses.replace(STAGED["Elastic"], moves_pixels=None)
    elastic = Schedule(
        SearchSpace((unknown,), count_probabilities=(1.0,)), np.array([[1.0, 0.1]])
    )
    with pytest.raises(TypeError, match="Elastic"):
        elastic.policy(0)(images, masks=masks)


@pytest.mark.parametrize(("name", "largest"), [("Perspective", 0.5), ("Elastic", 0.1)])
def test_distorted_masks_of_a_batch_are_those_of_torchvision(
    name: str, largest: float
) -> None:
    """Up to pixels whose source is as near to two of the image."""
    operation = STAGED[name]
    space = SearchSpace((operation,), count_probabilities=(1.0,))
    policy = Schedule(space, np.array([[0.7, largest]])).policy(0, mask_fill=255)
    masks = torch.randint(0, 20, (30, *SIZE), dtype=torch.uint8, generator=seeded(1))
    sample = policy.draw(30, seeded(0))
    moved = policy.replay_masks(masks, sample)
    is_drawn = (sample.slots >= 0).any(dim=1)
    assert 0 < is_drawn.sum() < 30
    assert torch.equal(moved[~is_drawn], masks[~is_drawn])
    for number in is_drawn.nonzero()[:, 0].tolist():
        (place,) = (sample.slots[number] >= 0).nonzero()[:, 0].tolist()
        uniforms = tuple(sample.positions[number, place].tolist())
        step = OpSample(operation, float(sample.magnitudes[number, place]), uniforms)
        expected = move_annotation(tv_tensors.Mask(masks[number]), [step], 255)
        differs = moved[number] != expected.as_subclass(Tensor)
        assert differs.float().mean() < 0.01


def geometric_schedule(interpolation: str = "nearest") -> Schedule:
    """Two geometric operations for each image, and colours between them."""
    space = search_space(operations=[*GEOMETRIC, "Invert"], interpolation=interpolation)
    space = SearchSpace(space.operations, 2, (0.0, 0.0, 0.0, 1.0))
    values = [
        [0.7 if low == 0 and high == 1 else 0.6 * high for low, high in space.ranges]
    ]
    return Schedule(space, np.array(values), (0.0, 0.0, 0.0))


def spot(x: int, y: int) -> Tensor:
    """A white square of 5 by 5 pixels about a pixel, on black."""
    picture = torch.zeros(3, *SIZE, dtype=torch.uint8)
    picture[:, y - 2 : y + 3, x - 2 : x + 3] = 255
    return picture


@pytest.mark.parametrize(
    "as_image",
    [TF.to_pil_image, tv_tensors.Image, lambda pixels: pixels.permute(1, 2, 0).numpy()],
)
def test_a_whole_policy_keeps_all_on_the_image(
    as_image: Callable[[Tensor], Any],
) -> None:
    """Where a black and white picture is its own mask: also a box and a keypoint stay
    on what they mark.
    """
    space = search_space(operations=GEOMETRIC)
    space = SearchSpace(space.operations, 2, (0.0, 0.0, 0.0, 1.0))
    values = [[0.7 if high == 1 else 0.4 * high for _, high in space.ranges]]
    transform = Schedule(space, np.array(values), (0.0, 0.0, 0.0)).transform()
    picture = spot(30, 18)
    n_seen = 0
    for seed in range(30):
        torch.manual_seed(seed)
        image, mask, box, *points = transform(
            as_image(picture),
            tv_tensors.Mask(picture[0]),
            boxes(numbers=[[28.0, 16.0, 33.0, 21.0]]),
            *keypoints([[30.5, 18.5]]),
        )
        levels = (
            TF.pil_to_tensor(image)[0]
            if isinstance(image, Image.Image)
            else torch.as_tensor(np.asarray(image))
        )
        levels = (
            levels[..., 0]
            if levels.ndim == 3 and levels.shape[-1] == 3
            else levels.reshape(-1, *SIZE)[0]
        )
        assert torch.equal(levels, mask.as_subclass(Tensor))
        rows, columns = torch.nonzero(mask.as_subclass(Tensor), as_tuple=True)
        if len(rows) < 15:
            continue
        n_seen += 1
        left, top, right, bottom = box[0].tolist()
        assert left - 1 <= columns.min()
        assert columns.max() + 1 <= right + 1
        assert top - 1 <= rows.min()
        assert rows.max() + 1 <= bottom + 1
        for x, y in (point[0].tolist() for point in points):
            assert abs(columns.float().mean() + 0.5 - x) < 1.5
            assert abs(rows.float().mean() + 0.5 - y) < 1.5
    assert n_seen > 15


def test_all_frames_of_a_video_get_one_draw() -> None:
    transform = geometric_schedule().transform()
    frame = torch.randint(
        0,
        256,
        (3, *SIZE),
        dtype=torch.uint8,
        generator=seeded(1),
    )
    torch.manual_seed(0)
    video, mask = transform(
        tv_tensors.Video(frame.expand(4, 3, *SIZE)),
        tv_tensors.Mask(frame[0].expand(4, *SIZE)),
    )
    assert (type(video), video.shape) == (tv_tensors.Video, (4, 3, *SIZE))
    assert all(torch.equal(frame, video[0]) for frame in video)
    assert all(torch.equal(frame, mask[0]) for frame in mask)
    assert not torch.equal(video[0].as_subclass(Tensor), frame)


def test_annotations_pass_a_schedule_that_also_mixes_batches() -> None:
    space = SearchSpace(
        (STAGED["HorizontalFlip"], STAGED["Mixup"]), count_probabilities=(1.0,)
    )
    schedule = Schedule(space, np.array([[1.0, 1.0, 0.2]]))
    picture = spot(30, 18)
    _, mask = schedule.transform()(picture, tv_tensors.Mask(picture[0]))
    assert torch.equal(mask.as_subclass(Tensor), picture[0].flip(1))
    _, masks = schedule.policy(0)(picture[None] / 255, masks=picture[None, 0])
    assert torch.equal(masks[0], picture[0].flip(1))


def test_boxes_of_whole_numbers_are_rounded_at_the_end() -> None:
    """Not before they are converted, nor before what is outside of the image is cut
    off.
    """
    marked = tv_tensors.BoundingBoxes(
        torch.tensor([[10, 10, 5, 5]]), format="CXCYWH", canvas_size=SIZE
    )
    assert move_annotation(marked, [drawn("TranslateY", 2 / SIZE[0])]).tolist() == [
        [10, 8, 5, 5]
    ]
    small = tv_tensors.BoundingBoxes(
        torch.tensor([[3, 5, 20, 17]], dtype=torch.uint8),
        format="XYXY",
        canvas_size=SIZE,
    )
    assert move_annotation(small, [drawn("TranslateX", 14 / SIZE[1])]).tolist() == [
        [0, 5, 6, 17]
    ]


def test_what_does_not_belong_to_the_image_is_refused() -> None:
    transform = geometric_schedule().transform()
    with pytest.raises(TypeError, match=r"a single draw, got \(2, 3, 40, 56\)"):
        transform(tv_tensors.Image(torch.zeros(2, 3, *SIZE)), boxes())
    with pytest.raises(TypeError, match="a single draw"):
        transform(tv_tensors.Video(torch.zeros(2, 4, 3, *SIZE)))


def brighter(images: Tensor) -> Tensor:
    return (images * 2).clamp(max=1)


@pytest.mark.usefixtures("registered")
def test_an_own_operation_has_to_say_that_it_moves_nothing() -> None:
    picture = TF.to_pil_image(spot(30, 18))
    for says in (None, True, False):
        hba.register_operation(Operation("Brighter", brighter, moves_pixels=says))
        transform = Schedule(
            search_space(operations=["Rotate", "Brighter"]), np.full((1, 6), 0.5)
        ).transform()
        transform(picture)
        if says is False:
            transform(picture, boxes())
            continue
        with pytest.raises(TypeError, match="Brighter"):
            transform(picture, boxes())
