"""Files for torchvision augment as the schedule does, pixel by pixel, without hba."""

import ast
import copy
import itertools
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from exported import (
    CASES,
    augmented,
    imported_from,
    module_of,
    pictures,
    schedule_of,
)
from kornia.augmentation import AugmentationSequential
from own_operations import DARKEN, GAMMA, GAMMA_FILE
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as TF

import hba
from hba.errors import SettingsError
from hba.operations import Operation
from hba.operations.registration import find_operation, load_operations_file
from hba.policy.annotations import KEYPOINTS
from hba.policy.space import SearchSpace
from hba.schedule.schedule import Schedule

N_SEEDS = 4


def numbers_that_differ(schedule: Schedule, *places: float) -> list[int]:
    """Of images that both augment by the same random numbers, at each place."""
    transform = schedule.transform()
    exported = module_of(hba.export(schedule, "torchvision")).transform()
    numbers = []
    for progress in places:
        transform.set_progress(progress)
        exported.set_progress(progress)
        differs = [
            augmented(transform, image, seed).tobytes()
            != augmented(exported, image, seed).tobytes()
            for image in pictures()
            for seed in range(N_SEEDS)
        ]
        numbers.append(sum(differs))
    return numbers


@pytest.mark.parametrize(("space", "spread"), CASES)
def test_it_gives_the_pixels_of_the_schedule(space: str, spread: str) -> None:
    """Between two rows too."""
    assert numbers_that_differ(schedule_of(space, spread), 1 / 3, 0.41) == [0, 0]


def test_set_epoch_means_what_it_does_in_hba_and_the_last_epoch_is_the_default() -> (
    None
):
    schedule = schedule_of("hba", "magnitudes")
    image = pictures()[0]
    transform = schedule.transform()
    exported = module_of(hba.export(schedule, "torchvision")).transform()
    for place in (None, (0, 4), (3, 4), (2, 7), (0, 1)):
        if place is not None:
            transform.set_epoch(*place)
            exported.set_epoch(*place)
        for seed in range(8):
            assert (
                augmented(transform, image, seed).tobytes()
                == augmented(exported, image, seed).tobytes()
            ), place
    with pytest.raises(ValueError, match=r"\[0, 3\]"):
        exported.set_epoch(4, 4)
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        exported.set_progress(1.5)
    for fixed in (schedule.only(2), schedule_of("hba", "by row").averaged()):
        assert module_of(hba.export(fixed, "torchvision")).TABLES.epochs == 1
        assert numbers_that_differ(fixed, 0.5) == [0]


def test_tensors_are_augmented_as_the_same_pil_image_and_labels_pass() -> None:
    exported = module_of(hba.export(schedule_of("hba"), "torchvision")).transform()
    for image in pictures():
        expected = TF.pil_to_tensor(augmented(exported, image, 3))
        for form in (TF.pil_to_tensor(image), tv_tensors.Image(image)):
            result = augmented(exported, form, 3)
            assert type(result) is type(form)
            assert torch.equal(result.as_subclass(Tensor), expected)
        array = augmented(exported, np.array(image), 3)
        assert np.array_equal(array, np.array(augmented(exported, image, 3)))
        frames = tv_tensors.Video(TF.pil_to_tensor(image).expand(2, -1, -1, -1))
        for frame in augmented(exported, frames, 3):
            assert torch.equal(frame.as_subclass(Tensor), expected)
    label, image = exported((torch.tensor(3), TF.pil_to_tensor(pictures()[0])))
    assert (label, image.shape) == (torch.tensor(3), (3, 21, 34))


def test_boxes_masks_and_keypoints_move_as_in_hba() -> None:
    """With a space for each way in which an operation moves pixels."""
    size = (21, 34)
    corners = torch.tensor([[3.0, 5.0, 20.0, 17.0], [10.0, 2.0, 30.0, 21.0]])
    annotations = [
        tv_tensors.BoundingBoxes(corners, format="XYXY", canvas_size=size),
        tv_tensors.Mask(torch.arange(21 * 34).view(size) % 251),
        *(
            points(torch.tensor([[3.5, 5.5], [28.0, 10.0]]), canvas_size=size)
            for points in KEYPOINTS
        ),
    ]
    sample = (pictures()[0], *annotations)
    for space in ("hba", "bilinear", "stages"):
        schedule = schedule_of(space)
        own = schedule.transform(mask_fill=255)
        module = module_of(hba.export(schedule, "torchvision", mask_fill=255))
        n_moved = 0
        for seed in range(N_SEEDS):
            expected = augmented(own, sample, seed)
            found = augmented(module.transform(), sample, seed)
            assert found[0].tobytes() == expected[0].tobytes()
            for before, after, other in zip(
                annotations, found[1:], expected[1:], strict=True
            ):
                assert type(after) is type(before)
                assert torch.equal(after, other), (space, type(after))
                n_moved += not torch.equal(after, before)
        assert n_moved > 0, space
    too_large = module.transform(mask_fill=256)
    with pytest.raises(ValueError, match="mask_fill"):
        too_large(pictures()[0], tv_tensors.Mask(torch.zeros(size).byte()))


def test_what_it_cannot_augment_is_refused() -> None:
    exported = module_of(hba.export(schedule_of("hba"), "torchvision")).transform()
    image = Image.new("RGB", (8, 8))
    for mistake, named in (
        (torch.zeros(3, 8, 8), "float32"),
        *(
            (torch.zeros(shape, dtype=torch.uint8), r"uint8 \(\d")
            for shape in ((2, 3, 8, 8), (4, 8, 8), (8, 8, 3))
        ),
        (torch.zeros(3, 8, 8, dtype=torch.uint16), "uint16"),
        *(
            (Image.new(mode, (8, 8)), f"{mode}; scale it to 8 bits")
            for mode in ("I;16", "I", "F")
        ),
        *(
            (Image.new(mode, (8, 8)), rf"{mode}; use .convert")
            for mode in ("RGBA", "P", "1", "HSV")
        ),
        *(
            (np.zeros((8, 8, 3), dtype), "must hold one image, got 0")
            for dtype in ("uint16", "float32")
        ),
        ((image, Image.new("L", (8, 8))), "must hold one image, got 2"),
    ):
        for composed in (
            exported,
            torch.nn.Sequential(exported),
            v2.Compose([exported]),
        ):
            with pytest.raises(TypeError, match=named) as refused:
                composed(mistake)
            assert "\n" not in str(refused.value)
    with pytest.raises(TypeError, match="float32"):
        AugmentationSequential(exported, data_keys=["input"])(torch.zeros(2, 3, 8, 8))


def test_no_name_of_a_file_hides_another() -> None:
    for to, space in itertools.product(("torchvision", "kornia"), ("hba", "stages")):
        module = ast.parse(hba.export(schedule_of(space), to))
        names = [
            node.name
            for node in module.body
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
        ]
        assert len({*names}) == len(names), to


def test_files_need_nothing_of_hba() -> None:
    for to in ("torchvision", "kornia"):
        module = ast.parse(hba.export("digits", to))
        imported = {
            node.module for node in ast.walk(module) if isinstance(node, ast.ImportFrom)
        }
        imported |= {
            alias.name
            for node in ast.walk(module)
            if isinstance(node, ast.Import)
            for alias in node.names
        }
        packages = {str(name).partition(".")[0] for name in imported} - {
            *sys.stdlib_module_names
        }
        assert packages <= {"torch", "torchvision", "PIL", "numpy", "kornia"}, to


class _Images(Dataset[Tensor]):
    def __init__(self, policy: v2.Transform) -> None:
        self.policy = policy

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Tensor:
        return TF.pil_to_tensor(self.policy(pictures()[0]))


def test_copies_keep_their_place_and_persistent_workers_see_the_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first row does nothing, the second inverts every image."""
    schedule = Schedule(
        SearchSpace((hba.OPERATIONS["Invert"],), 1, (0.0, 1.0)),
        np.array([[0.0], [1.0]]),
    )
    policy = imported_from(
        tmp_path, schedule, "torchvision", "policy_of_workers", monkeypatch
    ).transform()
    policy.set_progress(0.25)
    image = pictures()[0]
    for other in (copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))):
        assert (
            augmented(other, image, 1).tobytes()
            == augmented(policy, image, 1).tobytes()
        )
    loader = DataLoader(
        _Images(policy), batch_size=4, num_workers=2, persistent_workers=True
    )
    plain = TF.pil_to_tensor(image)
    for epoch, expected in ((0, plain), (1, 255 - plain), (0, plain)):
        policy.set_epoch(epoch, 2)
        assert all(torch.equal(image, expected) for batch in loader for image in batch)


def test_files_that_could_not_work_are_refused(
    tmp_path: Path, registered: dict[str, Operation]
) -> None:
    (tmp_path / "mine.py").write_text(GAMMA_FILE, encoding="utf-8")
    load_operations_file(tmp_path / "mine.py")
    power = find_operation("Power")
    schedule = Schedule(
        SearchSpace((hba.OPERATIONS["Invert"], power), 1), np.array([[0.5, 0.5, 1.0]])
    )
    for to in ("torchvision", "kornia", "albumentations"):
        with pytest.raises(SettingsError, match="Power"):
            hba.export(schedule, to)
    (tmp_path / "mine.py").unlink()
    for name in ("my-policy.py", "2024.py", "policy.json"):
        with pytest.raises(SettingsError, match=name):
            hba.export("digits", "torchvision", tmp_path / name)
    assert not [*tmp_path.glob("*.*")]


def test_operations_of_your_own_are_imported_from_their_module(
    registered: dict[str, Operation],
) -> None:
    for operation in (GAMMA, DARKEN):
        hba.register_operation(operation)
    schedule = Schedule(
        SearchSpace((GAMMA, DARKEN), 1, (0.0, 0.0, 1.0)), np.array([[1.0, 2.0, 1.0]])
    )
    image = pictures()[0]
    text = hba.export(schedule, "torchvision")
    assert "nothing else but own_operations." in text
    result = augmented(module_of(text).transform(), image, 0)
    assert np.array_equal(
        np.array(result), np.array(augmented(schedule.transform(), image, 0))
    )
    batch = TF.pil_to_tensor(image)[None] / 255
    result = augmented(module_of(hba.export(schedule, "kornia")).policy(), batch, 0)
    assert torch.allclose(result, (batch / 2) ** 2, atol=1e-6) or torch.allclose(
        result, batch**2 / 2, atol=1e-6
    )


def test_a_file_holds_modules_that_it_uses_and_provenance_stays_words() -> None:
    for to in ("torchvision", "kornia"):
        assert "def elastic(" in hba.export(schedule_of("stages"), to)
        assert "def elastic(" not in hba.export(schedule_of("one slot"), to)
    provenance = {
        "algorithm": 'lookahead"""\nimport os',
        "dataset": "C:\\Users\\ümlaut",
    }
    schedule = schedule_of("one slot")
    text = hba.export(
        Schedule(schedule.space, schedule.values, provenance=provenance), "torchvision"
    )
    assert "import os\n" not in text
    module_of(text)
