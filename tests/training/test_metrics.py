"""Loss and error against a computation by hand."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from each import each
from opened_images import record_images
from sklearn.metrics import confusion_matrix
from small_trainings import Answers
from streamed_folders import SIZE, write_folder
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from hba.data import load_search_data, prepare
from hba.data.config import DataConfig
from hba.data.images import LabelledImages
from hba.distributed.process_info import ProcessInfo, override_rank
from hba.preprocessing.preprocessing import Standardize
from hba.training.metrics import MEASURE_BATCH_SIZE, Confusion, measure, totals

PLAIN = Standardize(torch.zeros(1, 3, 1, 1), torch.ones(1, 3, 1, 1))


def data_with_labels(labels: list[int]) -> LabelledImages:
    images = torch.zeros(len(labels), 3, 2, 2, dtype=torch.uint8)
    images[:, 0] = (torch.arange(len(labels)) % 251).to(torch.uint8)[:, None, None]
    return LabelledImages(images, torch.tensor(labels))


def test_loss_and_error_of_three_images_by_hand() -> None:
    # Logits (ln 3, 0) give probabilities 3/4 and 1/4; the images' labels are 0, 1 and 0.
    measured = measure(
        Answers(lambda x: torch.tensor([math.log(3), 0.0]).expand(len(x), 2)),
        data_with_labels([0, 1, 0]),
        PLAIN,
    )
    assert measured.loss == pytest.approx((-math.log(0.75) - math.log(0.25) - math.log(0.75)) / 3)
    assert measured.error_percent == pytest.approx(100 / 3)


@each("n", [1, MEASURE_BATCH_SIZE, MEASURE_BATCH_SIZE + 1, 1203])
def test_every_image_counts_once_whatever_the_number_of_batches(n: int) -> None:
    labels = [index % 4 for index in range(n)]
    # Always class 2: the logits (0, 0, 1, 0) give -ln p = ln(e + 3) - [label is 2].
    measured = measure(
        Answers(lambda x: torch.tensor([0.0, 0.0, 1.0, 0.0]).expand(len(x), 4)),
        data_with_labels(labels),
        PLAIN,
    )
    assert measured.error_percent == pytest.approx(100 * sum(label != 2 for label in labels) / n)
    assert measured.loss == pytest.approx(math.log(math.e + 3) - labels.count(2) / n, rel=1e-5)


@each("training", [True, False])
def test_the_network_runs_in_eval_mode_and_gets_its_mode_back(training: bool) -> None:
    network = nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(12, 2)).train(training)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    modes: list[bool] = []

    def predict(x: Tensor) -> Tensor:
        modes.extend(layer.training for layer in network.modules())
        return network(x)

    measure(Answers(predict, network).train(training), data_with_labels([0, 1, 1]), PLAIN)
    assert not any(modes)
    assert all(layer.training == training for layer in network.modules())
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())


class WithoutWaiting(TorchDispatchMode):
    """Refuses what makes the host wait for a device: reading a number, and shapes that depend on numbers."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert function.overloadpacket._qualified_op_name not in (
            "aten::_local_scalar_dense", "aten::nonzero", "aten::bincount", "aten::index.Tensor"
        )  # fmt: skip
        return function(*args, **(kwargs or {}))


def test_answers_are_counted_by_class_without_waiting_for_the_device() -> None:
    labels = torch.randint(0, 5, (1203,), generator=torch.Generator().manual_seed(0)).tolist()
    data = data_with_labels(labels)

    def predict(x: Tensor) -> Tensor:
        # Sums of pixels differ from image to image.
        return ((255 * x[:, 0, 0, 0]).round() % 5 == torch.arange(5)[:, None]).T.float()

    counts = torch.zeros(5, 5, dtype=torch.int64)
    with WithoutWaiting():
        found = totals(predict, data, PLAIN, counts)
    assert torch.equal(found, totals(predict, data, PLAIN)), "loss and error are what they were"
    answers = [index % 251 % 5 for index in range(1203)]
    assert counts.tolist() == confusion_matrix(labels, answers, labels=range(5)).tolist()
    measured = measure(Answers(predict), data, PLAIN, n_classes=5)
    assert measured.confusion == Confusion.of(counts)
    assert measured.error_percent == measure(Answers(predict), data, PLAIN).error_percent
    assert measure(Answers(predict), data, PLAIN).confusion is None


@pytest.mark.parametrize("kind", ["memory", "streamed", "mapped"])
def test_each_of_several_processes_reads_the_batches_that_it_measures_and_no_others(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_folder(tmp_path / "images", 10)
    prepare(folder, tmp_path / "prepared", image_size=SIZE)
    place = tmp_path / "prepared" if kind == "mapped" else folder
    settings: dict[str, Any] = {"image_size": SIZE, "stream": kind != "memory", "workers": 0, "val_size": 7}
    monkeypatch.setattr("hba.training.metrics._batch_size", lambda _: 2)
    read: list[int] = []

    def predict(images: Tensor) -> Tensor:
        read.append(len(images))
        return images.flatten(1)[:, :2]

    data = load_search_data(DataConfig(data=str(place), **settings)).val
    whole = totals(predict, data, lambda images: images)
    assert read == [2, 2, 2, 1]
    parts = []
    monkeypatch.setattr("hba.training.metrics.total", lambda tensor: tensor)
    opened = record_images(monkeypatch)
    for number, expected in enumerate(([2, 2], [2, 1], [])):
        # Of the third, which has nothing, there are five.
        with override_rank(ProcessInfo(number if expected else 4, 2 if expected else 5)):
            read.clear()
            opened.clear()
            parts.append(totals(predict, data, lambda images: images))
        assert read == expected
        assert len(opened) == (sum(expected) if kind == "streamed" else 0)
    assert torch.allclose(parts[0] + parts[1], whole)
    assert parts[2].tolist() == [0, 0, 0]
