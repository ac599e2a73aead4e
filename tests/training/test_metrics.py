"""Loss and error against a computation by hand."""

import math
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    confusion_matrix,
)
from small_trainings import Answers
from torch import Tensor, nn

from hba.data import LabelledImages
from hba.preprocessing import Baseline, Preprocessing
from hba.tasks import MultiLabel
from hba.tasks.multi_label import mean_average_precision
from hba.training.metrics import MEASURE_BATCH_SIZE, Confusion, measure

PLAIN = Preprocessing(
    torch.zeros(1, 3, 1, 1), torch.ones(1, 3, 1, 1), Baseline(), 8
).measure


def data_with_labels(labels: list[int]) -> LabelledImages:
    images = torch.zeros(len(labels), 3, 2, 2, dtype=torch.uint8)
    images[:, 0] = (torch.arange(len(labels)) % 251).to(torch.uint8)[:, None, None]
    return LabelledImages(images, torch.tensor(labels))


@pytest.mark.parametrize("n_images", [1, MEASURE_BATCH_SIZE, 1203])
def test_every_image_counts_once_whatever_the_number_of_batches(n_images: int) -> None:
    labels = [index % 4 for index in range(n_images)]
    # Always class 2: the logits (0, 0, 1, 0) give -ln p = ln(e + 3) - [label is 2].
    answer = torch.tensor([0.0, 0.0, 1.0, 0.0])
    measured = measure(
        Answers(lambda x: answer.expand(len(x), 4)), data_with_labels(labels), PLAIN
    )
    assert measured.error_percent == pytest.approx(
        100 * sum(label != 2 for label in labels) / n_images
    )
    assert measured.loss == pytest.approx(
        math.log(math.e + 3) - labels.count(2) / n_images, rel=1e-5
    )


@pytest.mark.parametrize("training", [True, False])
def test_the_network_runs_in_eval_mode_and_gets_its_mode_back(training: bool) -> None:
    network = nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(12, 2)).train(
        training
    )
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    modes: list[bool] = []

    def predict(x: Tensor) -> Tensor:
        modes.extend(layer.training for layer in network.modules())
        return network(x)

    measure(
        Answers(predict, network).train(training), data_with_labels([0, 1, 1]), PLAIN
    )
    assert not any(modes)
    assert all(layer.training == training for layer in network.modules())
    assert all(
        torch.equal(tensor, before[name])
        for name, tensor in network.state_dict().items()
    )


def test_answers_are_counted_by_class() -> None:
    labels = torch.randint(
        0, 5, (1203,), generator=torch.Generator().manual_seed(0)
    ).tolist()
    data = data_with_labels(labels)

    def predict(x: Tensor) -> Tensor:
        # Sums of pixels differ from image to image.
        return ((255 * x[:, 0, 0, 0]).round() % 5 == torch.arange(5)[:, None]).T.float()

    answers = [index % 251 % 5 for index in range(1203)]
    measured = measure(Answers(predict), data, PLAIN, n_classes=5)
    assert measured.confusion is not None
    assert (
        measured.confusion.matrix().tolist()
        == confusion_matrix(labels, answers).tolist()
    )
    assert measured.image_errors is not None
    assert measured.image_errors.tolist() == [
        label != answer for label, answer in zip(labels, answers, strict=True)
    ]
    plain = measure(Answers(predict), data, PLAIN)
    assert (plain.loss, plain.error_percent, plain.confusion) == (
        measured.loss,
        measured.error_percent,
        None,
    )


@pytest.mark.parametrize("n_classes", [1, 2, 200])
@pytest.mark.parametrize("n_present", [None, 1])
def test_matrix_and_balanced_accuracy_are_scikit_learn_s(
    n_classes: int, n_present: int | None
) -> None:
    generator = torch.Generator().manual_seed(n_classes)
    labels = torch.randint(0, n_present or n_classes, (500,), generator=generator)
    answers = torch.randint(0, n_classes, (500,), generator=generator)
    answers = torch.where(torch.rand(500, generator=generator) < 0.5, labels, answers)
    counts = torch.zeros(n_classes, n_classes, dtype=torch.int64)
    confusion = Confusion.of(
        counts.index_put_((labels, answers), torch.tensor(1), accumulate=True)
    )
    with warnings.catch_warnings():
        # Of answers that are no label's, and of a single class.
        warnings.simplefilter("ignore")
        assert (
            confusion.matrix().tolist()
            == confusion_matrix(labels, answers, labels=range(n_classes)).tolist()
        )
        expected = 100 * balanced_accuracy_score(labels, answers)
    assert confusion.balanced_accuracy_percent == pytest.approx(expected, abs=1e-10)
    with pytest.raises(ValueError, match="labels of 0 to"):
        Confusion(int(labels.max()), confusion.counts)


def answers(n_images: int, n_classes: int, seed: int) -> tuple[Tensor, Tensor]:
    """Scores, and labels that three in ten have."""
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randn(n_images, n_classes, generator=generator),
        torch.rand(n_images, n_classes, generator=generator) < 0.3,
    )


def precision_by_scikit_learn(scores: Tensor, labels: Tensor) -> float:
    return float(
        np.mean(
            [
                average_precision_score(
                    labels[:, column].numpy(), scores[:, column].numpy()
                )
                for column in range(labels.shape[1])
                if labels[:, column].any()
            ]
        )
    )


@pytest.mark.parametrize("n_images", [2, 200])
@pytest.mark.parametrize("has_ties", [False, True])
def test_mean_average_precision_is_scikit_learn_s(
    n_images: int, has_ties: bool
) -> None:
    for seed in range(20):
        scores, labels = answers(n_images, 4, seed)
        labels[0, 1] = True
        labels[:, 3] = False
        scores = scores.round() if has_ties else scores
        precision = mean_average_precision(scores, labels)
        assert precision.item() == pytest.approx(
            precision_by_scikit_learn(scores, labels), abs=1e-12
        )
        assert MultiLabel().error_share(scores, labels).item() == pytest.approx(
            1 - precision.item(), abs=1e-6
        )


def test_a_split_is_ranked_as_a_whole_and_not_by_batches() -> None:
    n_images = MEASURE_BATCH_SIZE + 40
    scores, labels = answers(n_images, 3, seed=1)
    parts = iter(scores.split(MEASURE_BATCH_SIZE))
    data = LabelledImages(torch.zeros(n_images, 3, 2, 2, dtype=torch.uint8), labels)
    measured = measure(Answers(lambda _: next(parts)), data, lambda images: images)
    assert measured.error_percent == pytest.approx(
        100 * (1 - precision_by_scikit_learn(scores, labels)), abs=1e-4
    )
    expected = F.binary_cross_entropy_with_logits(
        scores.double(), labels.double()
    ).item()
    assert measured.loss == pytest.approx(expected, rel=1e-5)
