"""The test split is not opened before a training has done its last step."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torchvision.datasets
from PIL import Image
from test_builtin import N_TEST, N_TRAIN, labels_of, pixels_of, write_svhn
from torch import Tensor

import hba
import hba.data.reading
from hba.data.reading import Levels
from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.policy_evaluation.callbacks import EvaluationPlan
from hba.schedule.schedule import Schedule

INVERT = Schedule(
    SearchSpace((OPERATIONS["Invert"],), copies=1, count_probabilities=(0.0, 1.0)),
    np.array([[0.5]]),
)
N_STEPS = 2 * 5
SETTINGS: dict[str, Any] = {
    "model": "wrn-10-1", "epochs": 2, "batch_size": 6, "device": "cpu", "image_size": 8,
    "seeds": 2, "against": "none",
}  # fmt: skip


def write_folder(folder: Path) -> Path:
    """30 images for training and 8 for testing."""
    for split, n_images in (("train", 15), ("test", 4)):
        for label, name in enumerate(("cat", "dog")):
            (folder / split / name).mkdir(parents=True)
            for index in range(n_images):
                Image.new("RGB", (8, 8), (100 * label, index, 0)).save(
                    folder / split / name / f"{index:02}.png"
                )
    return folder


class Events(hba.EvaluationCallback):
    """What happens, in its order: steps, the ends of trainings, and the parts of which
    files are opened.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[str] = []
        self.n_test: int | None = -1
        read_image = hba.data.reading.read_image

        def record(path: Path, image_size: int, levels: Levels | None) -> Tensor:
            self.seen.append("test" if "test" in path.parts else "train")
            return read_image(path, image_size, levels)

        monkeypatch.setattr("hba.data.pool.read_image", record)

    def planned(self, plan: EvaluationPlan) -> None:
        self.n_test = plan.data.n_test

    def step_done(self) -> None:
        self.seen.append("step")

    def training_done(self, name: str, seed: int, *_: object) -> None:
        self.seen.append("done")

    def before_first(self, event: str) -> list[str]:
        return self.seen[: self.seen.index(event)]


@pytest.mark.parametrize("stream", [False, True], ids=["memory", "streamed"])
def test_no_test_image_is_opened_before_the_last_step_of_the_first_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    events = Events(monkeypatch)
    result = hba.evaluate(
        INVERT,
        write_folder(tmp_path / "images"),
        callback=events,
        stream=stream,
        workers=0,
        # Else, streamed images are read once more to find broken ones.
        skip_broken=False,
        **SETTINGS,
    )
    assert events.before_first("test").count("step") == N_STEPS
    assert events.before_first("done").count("test") == 8
    assert events.seen.count("done") == 4
    if stream:
        # Between any two trainings: measured, and not looked at in between.
        trainings = " ".join(event for event in events.seen if event != "train").split(
            " done"
        )
        assert trainings[:4] == [
            " ".join(["step"] * N_STEPS + ["test"] * 8),
            *trainings[1:4],
        ]
        assert len({training.strip() for training in trainings[:4]}) == 1
    else:
        assert events.seen.count("test") == 8, "read once and kept"
    assert (events.n_test, result.test_images) == (8, 8)


@pytest.fixture
def svhn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Training and test file; torchvision does not ask for the checksums of the real
    ones.
    """
    monkeypatch.setattr(
        torchvision.datasets.svhn,
        "check_integrity",
        lambda path, md5=None: Path(path).is_file(),
    )
    write_svhn(tmp_path, "train", pixels_of(N_TRAIN, 32, 32, 3), labels_of(N_TRAIN))
    write_svhn(tmp_path, "test", pixels_of(N_TEST, 32, 32, 3), labels_of(N_TEST))
    return tmp_path


def test_the_test_file_of_a_dataset_is_not_opened_before_the_last_step(
    svhn: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = Events(monkeypatch)
    init = torchvision.datasets.SVHN.__init__

    def record(self: Any, root: str, split: str, **options: Any) -> None:
        events.seen.append(split)
        init(self, root, split=split, **options)

    monkeypatch.setattr(torchvision.datasets.SVHN, "__init__", record)
    result = hba.evaluate(
        INVERT,
        "svhn",
        data_root=str(svhn),
        callback=events,
        **{**SETTINGS, "batch_size": 12},
    )
    assert events.n_test is None
    assert events.seen.count("test") == 1
    assert events.before_first("test") == ["train", *["step"] * N_STEPS]
    assert result.test_images == N_TEST
