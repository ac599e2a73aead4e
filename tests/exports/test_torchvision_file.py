"""A file for torchvision augments as the schedule does, pixel by pixel, and without hba."""

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from exported import SPACES, SPREADS, augmented, imported_from, module_of, pictures, schedule_of
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as TF

import hba
from hba.errors import SettingsError
from hba.operations import Operation
from hba.policy.space import SearchSpace
from hba.schedule.schedule import Schedule

N_SEEDS = 40


def number_that_differ(schedule: Schedule, progress: float) -> int:
    """Of images that both augment by the same random numbers."""
    own, exported = schedule.transform(), module_of(hba.export(schedule, "torchvision")).transform()
    own.set_progress(progress)
    exported.set_progress(progress)
    return sum(
        augmented(own, image, seed).tobytes() != augmented(exported, image, seed).tobytes()
        for image in pictures()
        for seed in range(N_SEEDS)
    )


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("space", SPACES)
def test_it_gives_the_pixels_of_the_schedule(space: str, spread: str) -> None:
    schedule = schedule_of(space, spread)
    assert [number_that_differ(schedule, progress) for progress in (0.0, 1 / 3, 1.0)] == [0, 0, 0]


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("space", SPACES)
def test_between_two_rows_it_is_as_near_as_single_precision_allows(space: str, spread: str) -> None:
    """A pixel may come from its neighbour where a magnitude differs in the last bit; most images are the same."""
    assert number_that_differ(schedule_of(space, spread), 0.41) <= 1


def only_at(columns: str, row: int) -> Schedule:
    """A spread of the probabilities or of the magnitudes, from one row on."""
    schedule = schedule_of("hba")
    is_probability = np.array([name.endswith("probability") for name in schedule.space.names])
    spread = np.where(is_probability == (columns == "probabilities"), 1.0, 0.0)[None] * np.ones((4, 1))
    spread[:row] = 0.0
    return Schedule(schedule.space, schedule.values, spread=spread)


@pytest.mark.parametrize("row", [0, 2])
@pytest.mark.parametrize("columns", ["probabilities", "magnitudes"])
def test_image_after_image_takes_the_same_random_numbers(columns: str, row: int) -> None:
    schedule = only_at(columns, row)
    (image, _) = pictures()
    streams = []
    for transform in (schedule.transform(), module_of(hba.export(schedule, "torchvision")).transform()):
        transform.set_epoch(0, 4)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            streams.append([transform(image).tobytes() for _ in range(20)])
    assert streams[0] == streams[1]


@pytest.mark.parametrize("schedule", [schedule_of("hba", "all").only(2), schedule_of("hba", "by row").averaged()])
def test_a_fixed_policy_is_a_schedule_of_one_row(schedule: Schedule) -> None:
    exported = module_of(hba.export(schedule, "torchvision"))
    assert exported.TABLES.epochs == 1
    assert number_that_differ(schedule, 0.5) == 0
    assert len(hba.export(schedule, "torchvision")) < 30_000


def test_before_it_is_told_the_epoch_it_is_the_last() -> None:
    schedule = schedule_of("hba")
    own, exported = schedule.transform(), module_of(hba.export(schedule, "torchvision")).transform()
    (image, _) = pictures()
    for seed in range(10):
        assert augmented(own, image, seed).tobytes() == augmented(exported, image, seed).tobytes()


def test_set_epoch_means_what_it_does_in_hba() -> None:
    schedule = schedule_of("hba", "magnitudes")
    own, exported = schedule.transform(), module_of(hba.export(schedule, "torchvision")).transform()
    (image, _) = pictures()
    for epochs, epoch in ((4, 0), (4, 3), (7, 2), (1, 0)):
        own.set_epoch(epoch, epochs)
        exported.set_epoch(epoch, epochs)
        assert all(
            augmented(own, image, seed).tobytes() == augmented(exported, image, seed).tobytes() for seed in range(10)
        )
    with pytest.raises(ValueError, match=r"epoch must lie in \[0, 3\], got 4"):
        exported.set_epoch(4, 4)
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\], got 1.5"):
        exported.set_progress(1.5)


def test_tensors_are_augmented_as_the_same_pil_image() -> None:
    exported = module_of(hba.export(schedule_of("hba"), "torchvision")).transform()
    for image in pictures():
        for kind in (torch.Tensor, tv_tensors.Image):
            given = TF.pil_to_tensor(image).as_subclass(kind) if kind is Tensor else tv_tensors.Image(image)
            found = augmented(exported, given, 3)
            assert type(found) is kind
            assert torch.equal(found.as_subclass(Tensor), TF.pil_to_tensor(augmented(exported, image, 3)))


def test_a_sample_keeps_its_labels() -> None:
    exported = module_of(hba.export(schedule_of("hba"), "torchvision")).transform()
    image, label = exported({"image": pictures()[0], "label": torch.tensor(3)}).values()
    assert isinstance(image, Image.Image)
    assert label == torch.tensor(3)
    label, image = exported((torch.tensor(3), TF.pil_to_tensor(pictures()[0])))
    assert (label, image.shape) == (torch.tensor(3), (3, 21, 34))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (torch.zeros(3, 8, 8), r"must be uint8 \(C, H, W\) with C 1 or 3, got torch.float32 \(3, 8, 8\)"),
        (torch.zeros(4, 3, 8, 8, dtype=torch.uint8), r"got torch.uint8 \(4, 3, 8, 8\)"),
        (Image.new("RGBA", (8, 8)), r"mode L or RGB, got RGBA; use .convert\('RGB'\)"),
        (np.zeros((8, 8, 3), np.uint8), "no PIL image and no tensor"),
        ((torch.tensor(3), "cat"), "no PIL image and no tensor"),
        ((Image.new("RGB", (8, 8)), Image.new("L", (8, 8))), "more than one image"),
        (
            (
                Image.new("RGB", (8, 8)),
                tv_tensors.BoundingBoxes(torch.zeros(1, 4), format="XYXY", canvas_size=(8, 8)),
            ),
            "got BoundingBoxes",
        ),
        ((Image.new("RGB", (8, 8)), tv_tensors.Mask(torch.zeros(8, 8))), "for classification, got Mask"),
    ],
)
def test_what_it_cannot_augment_is_refused(given: object, message: str) -> None:
    exported = module_of(hba.export(schedule_of("hba"), "torchvision")).transform()
    with pytest.raises(TypeError, match=message):
        exported(given)


def test_it_needs_nothing_of_hba(tmp_path: Path) -> None:
    hba.export("digits", "torchvision", tmp_path / "digits_policy.py")
    program = (
        "import sys; sys.modules['hba'] = None\n"
        "import torch; from PIL import Image; from digits_policy import transform\n"
        "policy = transform(); policy.set_epoch(3, 10); torch.manual_seed(0)\n"
        "print(policy(Image.new('L', (16, 16), 200)).size)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("(16, 16)\n", "")


def test_it_copies_and_pickles_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = imported_from(tmp_path, schedule_of("hba"), "torchvision", "policy_to_pickle", monkeypatch)
    policy = module.transform()
    policy.set_progress(0.25)
    (image, _) = pictures()
    for other in (copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))):
        assert other._position.is_shared()
        assert augmented(other, image, 1).tobytes() == augmented(policy, image, 1).tobytes()


class _Images(Dataset[Tensor]):
    def __init__(self, policy: v2.Transform) -> None:
        self.policy = policy

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Tensor:
        (image, _) = pictures()
        return TF.pil_to_tensor(self.policy(image))


def test_persistent_workers_see_the_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first row does nothing, the second inverts every image."""
    values = [[0.0], [1.0]]
    schedule = Schedule(SearchSpace((hba.OPERATIONS["Invert"],), 1, (0.0, 1.0)), np.array(values))
    policy = imported_from(tmp_path, schedule, "torchvision", "policy_of_workers", monkeypatch).transform()
    loader = DataLoader(_Images(policy), batch_size=4, num_workers=2, persistent_workers=True)
    plain = TF.pil_to_tensor(pictures()[0])
    for epoch, expected in ((0, plain), (1, 255 - plain), (0, plain)):
        policy.set_epoch(epoch, 2)
        assert all(torch.equal(image, expected) for batch in loader for image in batch)


def test_an_operation_of_one_s_own_is_refused_by_name(registered: dict[str, Operation]) -> None:
    from own_operations import GAMMA

    hba.register_operation(GAMMA)
    space = SearchSpace((hba.OPERATIONS["Invert"], GAMMA), 1)
    schedule = Schedule(space, np.array([[0.5, 0.5, 1.0]]))
    with pytest.raises(SettingsError, match="Gamma cannot be written into a file of its own"):
        hba.export(schedule, "torchvision")


@pytest.mark.parametrize("name", ["my-policy.py", "2024.py", "class.py", "policy.json"])
def test_a_file_that_nobody_could_import_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="a name that Python can import"):
        hba.export("digits", "torchvision", tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_it_imports_what_it_uses_and_no_more() -> None:
    whole, small = hba.export("digits", "torchvision"), hba.export(schedule_of("one slot"), "torchvision")
    assert "from PIL.Image import Resampling, Transform" in whole
    assert "from PIL.Image import Resampling\n" in small
    assert "ImageEnhance" not in small


def test_what_a_schedule_says_of_itself_stays_words() -> None:
    provenance = {"algorithm": 'lookahead"""\nimport os', "dataset": "C:\\Users\\ümlaut"}
    schedule = schedule_of("one slot")
    text = hba.export(Schedule(schedule.space, schedule.values, provenance=provenance), "torchvision")
    assert 'import os"' not in text
    assert "import os\n" not in text
    module_of(text)
