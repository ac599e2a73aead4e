"""Symmetries by class: which images are moved, and which labels they have then."""

import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

import hba
from hba.errors import SettingsError
from hba.operations import find_operation
from hba.policy.class_moves import NO_CLASS, ClassMoves
from hba.policy.draw import draw_with_trace
from hba.policy.module import Policy
from hba.policy.space import SearchSpace
from hba.schedule.schedule import Schedule

CLASSES = ("left", "right", "yield", "two")
FLIP = (1, 0, 2, NO_CLASS)
TURNS = (
    (NO_CLASS, NO_CLASS, 2, NO_CLASS),
    (1, 0, 2, 3),
    (NO_CLASS, NO_CLASS, 2, NO_CLASS),
)
MOVES = ClassMoves(CLASSES, (("HorizontalFlip", (FLIP,)), ("QuarterTurn", TURNS)))
N_IMAGES = 400
GREY_LEVELS = 256


def space_of(*names: str, moves: ClassMoves | None = MOVES) -> SearchSpace:
    operations = tuple(find_operation(name) for name in names)
    return SearchSpace(operations, count_probabilities=(1.0,), class_moves=moves)


def schedule_of(*names: str, moves: ClassMoves = MOVES) -> Schedule:
    """A schedule that always applies all operations."""
    kept = moves.without(*({*moves.operations} - {*names}))
    space = space_of(*names, moves=kept)
    values = [1.0 if name.endswith("probability") else 0.25 for name in space.names]
    return Schedule(space, np.array([values]))


def random_images(n_images: int, side: int = 6) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    shape = (n_images, 3, side, side)
    return torch.randint(0, GREY_LEVELS, shape, generator=generator).byte()


def turned(image: torch.Tensor, is_flipped: bool, quarters: int) -> torch.Tensor:
    """An image (C, H, W) after a flip and turns, by PyTorch alone."""
    flipped = image.flip(-1) if is_flipped else image
    return torch.rot90(flipped, quarters, (-2, -1))


def test_a_batch_is_moved_by_the_class_of_each_image() -> None:
    images = random_images(N_IMAGES)
    labels = torch.arange(N_IMAGES) % len(CLASSES)
    policy = schedule_of("HorizontalFlip", "QuarterTurn").policy(0)
    torch.manual_seed(0)
    augmented, moved = policy(images, labels=labels)
    seen = set()
    for before, after, label, result in zip(
        images, augmented, labels.tolist(), moved.tolist(), strict=True
    ):
        expected = {
            (flip, quarters): TURNS[quarters - 1][FLIP[label] if flip else label]
            for flip in (False, True)
            for quarters in (1, 2, 3)
        }
        is_flipped = FLIP[label] != NO_CLASS
        after_flip = FLIP[label] if is_flipped else label
        matches = [
            quarters
            for quarters in range(4)
            if torch.equal(after, turned(before, is_flipped, quarters))
        ]
        assert len(matches) == 1
        (quarters,) = matches
        if quarters:
            assert result == expected[is_flipped, quarters] != NO_CLASS
        else:
            # A turn was drawn that images of the class must not get.
            assert result == after_flip
            assert NO_CLASS in [of_turn[after_flip] for of_turn in TURNS]
        seen.add((label, quarters))
    everywhere = {(CLASSES.index("yield"), quarters) for quarters in (1, 2, 3)}
    for label in range(len(CLASSES)):
        everywhere.add((label, 2))
    assert everywhere <= seen


def test_without_labels_only_moves_that_keep_every_class_are_applied() -> None:
    images = random_images(N_IMAGES)
    keeps_at_half_turn = ClassMoves(
        CLASSES, (("QuarterTurn", (TURNS[0], (0, 1, 2, 3), TURNS[2])),)
    )
    space = space_of("HorizontalFlip", "QuarterTurn", moves=keeps_at_half_turn)
    policy = Schedule(space, np.ones((1, space.n))).policy(0)
    torch.manual_seed(1)
    augmented = policy(images)
    quarters_of = []
    for before, after in zip(images, augmented, strict=True):
        quarters_of += [
            quarters
            for quarters in range(4)
            if torch.equal(after, turned(before, True, quarters))
        ]
    assert len(quarters_of) == N_IMAGES
    assert {*quarters_of} == {0, 2}


@pytest.mark.parametrize("form", ["PIL", "array", "tensor", "batch"])
def test_a_transform_takes_and_returns_the_label(form: str) -> None:
    (image,) = random_images(1)
    transform = schedule_of("HorizontalFlip").transform()
    picture = Image.fromarray(image.permute(1, 2, 0).numpy())
    mirrored = np.array(ImageOps.mirror(picture))
    given = {
        "PIL": picture,
        "array": np.array(picture),
        "tensor": image,
        "batch": image[None].float() / 255,
    }[form]
    for label, expected in enumerate(FLIP):
        result, moved = transform(
            given, torch.tensor([label]) if form == "batch" else label
        )
        if form == "batch":
            result = (result[0] * 255).round().byte()
        if isinstance(result, torch.Tensor):
            result = result.permute(1, 2, 0).numpy()
        pixels = np.array(result)
        if expected == NO_CLASS:
            assert int(moved) == label
            assert np.array_equal(pixels, np.array(picture))
        else:
            assert int(moved) == expected
            assert np.array_equal(pixels, mirrored)
    alone = transform(given)
    assert type(alone) is type(given)
    assert alone == given if form == "PIL" else (alone == given).all()


def test_a_label_that_is_no_class_is_refused() -> None:
    (image,) = random_images(1)
    transform = schedule_of("HorizontalFlip").transform()
    for label in (-1, len(CLASSES)):
        with pytest.raises(ValueError, match="label"):
            transform(image, label)


def test_single_images_are_moved_as_batches_are() -> None:
    schedule = schedule_of("HorizontalFlip", "QuarterTurn")
    transform = schedule.transform()
    (image,) = random_images(1)
    for seed in range(40):
        label = seed % len(CLASSES)
        torch.manual_seed(seed)
        sample, _ = draw_with_trace(
            schedule.space,
            torch.ones(schedule.space.n),
            1,
            labels=torch.tensor([label]),
        )
        expected = Policy(schedule.space, torch.ones(schedule.space.n)).replay(
            image[None], sample
        )
        torch.manual_seed(seed)
        result, moved = transform(image, label)
        assert sample.labels is not None
        assert moved == int(sample.labels)
        assert torch.equal(result, expected[0])


def test_a_file_keeps_the_moves(tmp_path: Path) -> None:
    schedule = schedule_of("HorizontalFlip", "QuarterTurn")
    path = tmp_path / "policy.json"
    schedule.save(path)
    assert hba.load_policy(path).space.class_moves == MOVES


def test_the_moves_are_known_by_the_names_of_classes() -> None:
    others = ("two", "right", "new", "left")
    moved = MOVES.for_classes(others)
    assert dict(moved.labels)["HorizontalFlip"] == ((NO_CLASS, 3, NO_CLASS, 1),)
    alone = MOVES.for_classes(("left", "yield"))
    assert dict(alone.labels)["HorizontalFlip"] == ((NO_CLASS, 1),)
    with pytest.raises(SettingsError):
        MOVES.for_classes(("cat", "dog"))


def test_a_file_for_torchvision_moves_as_the_transform(tmp_path: Path) -> None:
    schedule = schedule_of("HorizontalFlip", "QuarterTurn")
    path = tmp_path / "class_policy.py"
    hba.export(schedule, "torchvision", path)
    module = runpy.run_path(str(path))
    exported = module["transform"]()
    transform = schedule.transform()
    (image,) = random_images(1)
    for seed in range(40):
        label = seed % len(CLASSES)
        results = []
        for augment in (transform, exported):
            torch.manual_seed(seed)
            results.append(augment(image, label))
        (expected, expected_label), (result, moved) = results
        assert moved == expected_label
        assert torch.equal(result, expected)


@pytest.mark.parametrize("target", ["kornia", "albumentations"])
def test_files_without_labels_are_refused(target: str) -> None:
    with pytest.raises(SettingsError):
        hba.export(schedule_of("HorizontalFlip"), target)


def test_a_schedule_without_an_operation_has_none_of_its_moves() -> None:
    schedule = schedule_of("HorizontalFlip", "QuarterTurn", "Erase")
    without = schedule.without("QuarterTurn")
    assert without.space.class_moves is not None
    assert without.space.class_moves.operations == ("HorizontalFlip",)
    neither = schedule.without("QuarterTurn", "HorizontalFlip")
    assert neither.space.class_moves is None


def test_a_space_refuses_labels_that_are_no_classes_or_moves() -> None:
    with pytest.raises(SettingsError):
        ClassMoves(CLASSES, (("HorizontalFlip", ((0, 1, 2, 4),)),))
    with pytest.raises(SettingsError):
        space_of(
            "HorizontalFlip",
            "QuarterTurn",
            moves=ClassMoves(CLASSES, (("QuarterTurn", (FLIP,)),)),
        )
    with pytest.raises(SettingsError):
        space_of("Erase", moves=ClassMoves(CLASSES, (("Erase", (FLIP,)),)))
