"""Every task: its losses and errors against references, and what it says of labels."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from random_inputs import seeded
from sklearn.metrics import accuracy_score, average_precision_score
from torch import Tensor

from hba.tasks import (
    IMAGE_TASKS,
    Classification,
    ImageTask,
    MixedLabels,
    MultiLabel,
    task_of,
)

N_CLASSES = 4
N_IMAGES = 40


class Example(NamedTuple):
    """A task with labels, and what PyTorch and scikit-learn compute for it."""

    labels: Tensor
    losses: Callable[[Tensor, Tensor], Tensor]
    error: Callable[[Tensor, Tensor], float]
    smoothed_loss: Callable[[Tensor, Tensor, float], Tensor]


def cross_entropies(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits, labels, reduction="none")


def binary_cross_entropies(logits: Tensor, labels: Tensor) -> Tensor:
    targets = labels.double()
    losses = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    return losses.mean(1)


def smoothed_binary(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    targets = (1 - smoothing) * labels.double() + smoothing / 2
    return F.binary_cross_entropy_with_logits(logits, targets)


EXAMPLES = {
    "classification": Example(
        torch.arange(N_IMAGES) % N_CLASSES,
        cross_entropies,
        lambda logits, labels: 1 - accuracy_score(labels, logits.argmax(1)),
        lambda logits, labels, smoothing: F.cross_entropy(
            logits, labels, label_smoothing=smoothing
        ),
    ),
    "multi-label": Example(
        torch.rand(N_IMAGES, N_CLASSES, generator=seeded(0)) < 0.4,
        binary_cross_entropies,
        lambda logits, labels: 1 - average_precision_score(labels, logits),
        smoothed_binary,
    ),
}


@pytest.fixture(params=IMAGE_TASKS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def task(name: str) -> ImageTask:
    return IMAGE_TASKS[name]


@pytest.fixture
def example(name: str) -> Example:
    return EXAMPLES[name]


@pytest.fixture
def logits() -> Tensor:
    size = (N_IMAGES, N_CLASSES)
    return torch.randn(size, generator=seeded(1), dtype=torch.float64)


def test_the_form_of_labels_chooses_the_task(task: ImageTask, example: Example) -> None:
    assert task_of(example.labels) is task
    assert task_of(example.labels.numpy()) is task
    dtype, shape = task.stored(N_IMAGES, N_CLASSES)
    assert str(example.labels.dtype).removeprefix("torch.") == dtype
    assert example.labels.shape == shape
    mixed = MixedLabels(example.labels, example.labels, torch.tensor(0.5))
    assert task_of(mixed) is task
    with pytest.raises(ValueError, match="shape"):
        task_of(torch.zeros(2, 3, 4, 5))


def test_losses_and_errors_are_those_of_libraries(
    task: ImageTask, example: Example, logits: Tensor
) -> None:
    labels = example.labels
    losses = example.losses(logits, labels)
    torch.testing.assert_close(task.losses(logits, labels), losses)
    torch.testing.assert_close(task.loss(logits, labels), losses.mean())
    torch.testing.assert_close(task.loss_sum(logits, labels), losses.sum())
    error = example.error(logits, labels)
    assert float(task.error_share(logits, labels)) == pytest.approx(error, abs=1e-6)
    parts = task.image_errors(task.statistics(logits, labels))
    if parts is not None:
        assert parts.shape == (N_IMAGES,)
        assert float(parts.double().mean()) == pytest.approx(error)


def test_the_error_of_a_data_set_is_that_of_the_statistics_of_its_parts(
    task: ImageTask, example: Example, logits: Tensor
) -> None:
    labels = example.labels
    statistics = [
        task.statistics(logits[part], labels[part])
        for part in torch.arange(N_IMAGES).split(7)
    ]
    error = example.error(logits, labels)
    assert float(task.error_of(torch.cat(statistics))) == pytest.approx(error, abs=1e-6)


def test_the_loss_of_mixed_labels_weights_both(
    task: ImageTask, example: Example, logits: Tensor
) -> None:
    labels = example.labels
    partners = labels.roll(1, 0)
    share = torch.rand(N_IMAGES, generator=seeded(2), dtype=torch.float64)
    mixed = MixedLabels(labels, partners, share)
    losses = example.losses(logits, labels)
    losses_of_partners = example.losses(logits, partners)
    weighted = share * losses + (1 - share) * losses_of_partners
    torch.testing.assert_close(task.losses(logits, mixed), weighted)
    torch.testing.assert_close(task.loss(logits, mixed), weighted.mean())
    error = task.error_share(logits, mixed)
    assert error == task.error_share(logits, labels)


def test_smoothing_is_that_of_pytorch(
    task: ImageTask, example: Example, logits: Tensor
) -> None:
    smoothing = 0.3
    labels = example.labels
    loss = task.loss(logits, labels) + smoothing * task.smoothing(logits, labels).mean()
    expected = example.smoothed_loss(logits, labels, smoothing)
    torch.testing.assert_close(loss, expected)


def test_doubts_are_those_of_who_guesses_and_of_who_knows(
    task: ImageTask, example: Example
) -> None:
    labels = example.labels
    members = task.members(labels).bool()
    shares = members.double().mean(1)
    certain = 50.0 * (2 * members.T.double() - 1)
    assert float(task.doubts(certain, labels).max()) < 1e-6
    logits = shares.log() if task.has_one_answer else shares.logit()
    guesses = logits.expand(N_IMAGES, N_CLASSES)
    doubt = task.doubts(guesses, labels).mean()
    assert float(doubt) == pytest.approx(float(task.guessing_doubt(labels)), abs=1e-6)


def test_the_error_of_guessing_is_that_of_one_answer_for_all(
    task: ImageTask, example: Example
) -> None:
    labels = example.labels
    shares = task.members(labels).double().mean(1)
    expected = 1 - (shares.max() if task.has_one_answer else shares.mean())
    assert float(task.guessing_error(labels)) == pytest.approx(float(expected))


def test_classes_are_counted_kept_and_found(task: ImageTask, example: Example) -> None:
    labels = example.labels
    members = task.members(labels).bool().numpy()
    counts = task.counts(labels.numpy(), N_CLASSES)
    assert np.array_equal(counts, members.sum(1))
    assert task.present(labels) == [0, 1, 2, 3]
    assert task.fits(labels, N_CLASSES)
    assert not task.fits(labels, N_CLASSES - 1)
    places, kept = task.keep(labels.numpy(), [1, 3])
    members_kept = task.members(torch.from_numpy(kept)).bool().numpy()
    assert np.array_equal(members_kept, members[[1, 3]][:, places])
    strata = task.strata(labels.numpy())
    assert len(np.unique(strata)) == task.n_strata(N_CLASSES)


def test_answers_are_the_likeliest_class_or_all_likely_labels() -> None:
    logits = torch.tensor([[3.0, -1.0, 0.5, -4.0]])
    single = Classification()
    several = MultiLabel()
    assert single.n_answers(single.probabilities(logits)[0]) == 1
    assert several.n_answers(several.probabilities(logits)[0]) == 2


def test_a_linear_layer_separates_what_is_linear(
    task: ImageTask, example: Example
) -> None:
    random = np.random.default_rng(0)
    members = task.members(example.labels).numpy()
    features = 4.0 * members.T + random.normal(size=(N_IMAGES, N_CLASSES))
    layer = task.fit_linear(features, example.labels, N_CLASSES)
    assert float(task.error_share(layer(features), example.labels)) < 0.05
