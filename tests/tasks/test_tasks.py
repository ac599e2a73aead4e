"""Every task: its losses and errors against references, and what it says of labels."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from random_inputs import seeded
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    jaccard_score,
    mean_absolute_error,
)
from torch import Tensor

from hba.tasks import (
    IMAGE_TASKS,
    Classification,
    ImageTask,
    MixedLabels,
    MultiLabel,
    Regression,
    Segmentation,
    task_of,
)
from hba.tasks.regression import PENALTIES
from hba.tasks.segmentation import IGNORED

N_CLASSES = 4
N_IMAGES = 40
SIDE = 6


class Example(NamedTuple):
    """A task with labels, and what PyTorch and scikit-learn compute for it.

    targets: the right probability of each class, with the shape of outputs; of numbers,
    the labels. counts: for each class, whether it counts, at each place.
    """

    labels: Tensor
    targets: Tensor
    counts: Tensor
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


def ones(targets: Tensor) -> Tensor:
    return torch.ones_like(targets)


def dice_by_hand(logits: Tensor, mask: Tensor) -> float:
    """1 minus the mean, over the classes of a mask, of 2 |A B| / (|A| + |B|)."""
    is_valid = mask.numpy() != IGNORED
    coefficients = []
    for number in np.unique(mask.numpy()[is_valid]):
        answer = logits.softmax(0)[number].numpy()[is_valid]
        label = (mask.numpy() == number)[is_valid]
        both = 2 * (answer * label).sum()
        coefficients.append(both / (answer.sum() + label.sum()))
    return float(1 - np.mean(coefficients))


def losses_of_masks(logits: Tensor, masks: Tensor, smoothing: float = 0.0) -> Tensor:
    """The loss of each image, one at a time."""
    return torch.stack(
        [
            F.cross_entropy(
                of_image[None],
                mask[None].long(),
                ignore_index=IGNORED,
                label_smoothing=smoothing,
            )
            + dice_by_hand(of_image, mask)
            for of_image, mask in zip(logits, masks, strict=True)
        ]
    )


def error_of_masks(logits: Tensor, masks: Tensor) -> float:
    is_valid = masks != IGNORED
    answers = logits.argmax(1)[is_valid]
    return 1 - float(jaccard_score(masks[is_valid], answers, average="macro"))


def squared_errors(outputs: Tensor, labels: Tensor) -> Tensor:
    return F.mse_loss(outputs[:, 0], labels.double(), reduction="none")


def smoothed_squares(outputs: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    to_labels = squared_errors(outputs, labels).mean()
    to_mean = squared_errors(outputs, torch.zeros_like(labels)).mean()
    return (1 - smoothing) * to_labels + smoothing * to_mean


CLASSES = torch.arange(N_IMAGES) % N_CLASSES
SEVERAL = torch.rand(N_IMAGES, N_CLASSES, generator=seeded(0)) < 0.4
MASKS = torch.randint(
    N_CLASSES, (N_IMAGES, SIDE, SIDE), generator=seeded(0), dtype=torch.uint8
)
MASKS[:, 0, :3] = IGNORED
MASKS[:30] = MASKS[:30].where(MASKS[:30] != 3, 2)
NUMBERS = torch.randn(N_IMAGES, generator=seeded(4))
IS_CLASS = (MASKS[:, None] == torch.arange(N_CLASSES)[:, None, None]).double()
EXAMPLES = {
    "classification": Example(
        CLASSES,
        F.one_hot(CLASSES).double(),
        ones(F.one_hot(CLASSES).double()),
        cross_entropies,
        lambda logits, labels: 1 - accuracy_score(labels, logits.argmax(1)),
        lambda logits, labels, smoothing: F.cross_entropy(
            logits, labels, label_smoothing=smoothing
        ),
    ),
    "multi-label": Example(
        SEVERAL,
        SEVERAL.double(),
        ones(SEVERAL.double()),
        binary_cross_entropies,
        lambda logits, labels: 1 - average_precision_score(labels, logits),
        smoothed_binary,
    ),
    "regression": Example(
        NUMBERS,
        NUMBERS.double()[:, None],
        ones(NUMBERS.double()[:, None]),
        squared_errors,
        lambda outputs, labels: float(mean_absolute_error(labels, outputs[:, 0])),
        smoothed_squares,
    ),
    "segmentation": Example(
        MASKS,
        IS_CLASS,
        (MASKS != IGNORED).double()[:, None].expand_as(IS_CLASS),
        losses_of_masks,
        error_of_masks,
        lambda logits, masks, smoothing: losses_of_masks(
            logits, masks, smoothing
        ).mean(),
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
def logits(task: ImageTask) -> Tensor:
    size = task.output_shape(N_IMAGES, 1 if task.has_numbers else N_CLASSES, SIDE)
    return torch.randn(size, generator=seeded(1), dtype=torch.float64)


def test_the_form_of_labels_chooses_the_task(task: ImageTask, example: Example) -> None:
    assert task_of(example.labels) is task
    assert task_of(example.labels.numpy()) is task
    dtype, shape = task.stored(N_IMAGES, N_CLASSES, SIDE)
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
    if task.has_numbers:
        assert float(task.doubts(example.targets, labels).max()) < 1e-6
        return
    certain = 50.0 * (2 * example.targets - 1)
    assert float(task.doubts(certain, labels).max()) < 1e-6
    places = [0, *range(2, example.targets.ndim)]
    shares = example.targets.sum(places) / example.counts.sum(places)
    logits = shares.logit() if shares.sum() > 1.001 else shares.log()
    guesses = logits.view(-1, *[1] * (len(places) - 1)).expand_as(certain)
    doubts = task.doubts(guesses, labels)
    torch.testing.assert_close(
        doubts, task.guessing_doubts(labels), rtol=0, atol=1e-3, check_dtype=False
    )


def test_the_error_of_guessing_is_that_of_one_answer_for_all(
    task: ImageTask, example: Example
) -> None:
    labels = example.labels
    if task.has_numbers:
        answers = labels.double()[:, None]
        errors = [
            example.error(answer.expand_as(answers), labels) for answer in answers
        ]
        assert float(task.guessing_error(labels)) == pytest.approx(min(errors))
        return
    errors = []
    for number in range(N_CLASSES):
        answer = torch.zeros_like(example.targets)
        answer[:, number] = 1.0
        errors.append(example.error(answer, labels))
    least = min(errors)
    if isinstance(task, MultiLabel):
        # The average precision of equal scores is the share of positives.
        least = 1 - float(example.targets.mean())
    assert float(task.guessing_error(labels)) == pytest.approx(least)


def test_classes_are_counted_kept_and_found(task: ImageTask, example: Example) -> None:
    if task.has_numbers:
        pytest.skip("numbers have no classes")
    labels = example.labels
    members = task.members(labels).bool().numpy()
    is_shown = example.targets.flatten(2) if task.has_masks else example.targets
    if task.has_masks:
        is_shown = is_shown.any(dim=2)
    assert np.array_equal(members, is_shown.bool().numpy().T)
    counts = task.counts(labels.numpy(), N_CLASSES)
    assert np.array_equal(counts, members.sum(1))
    assert task.present(labels) == [0, 1, 2, 3]
    assert task.fits(labels, N_CLASSES)
    assert not task.fits(labels, N_CLASSES - 1)
    places, kept = task.keep(labels.numpy(), [1, 3])
    members_kept = task.members(torch.from_numpy(kept)).bool().numpy()
    assert np.array_equal(members_kept, members[[1, 3]][:, places])
    strata = task.strata(labels.numpy())
    assert len(np.unique(strata)) >= task.n_strata(N_CLASSES)


def test_images_are_divided_by_the_rarest_class_that_they_show() -> None:
    masks = np.zeros((40, 2, 2), dtype=np.uint8)
    masks[:, 0, 0] = 1
    masks[10:25, 1, 1] = 2
    masks[23:27, 0, 1] = 3
    # Four images show class 3, too few for a stratum; 13 others show class 2.
    strata = Segmentation().strata(masks)
    assert len(np.unique(strata)) == 2
    of_two = strata[10]
    assert (strata[10:23] == of_two).all()
    assert (np.delete(strata, range(10, 23)) != of_two).all()


def test_errors_of_classes_of_masks_are_those_of_scikit_learn() -> None:
    logits = torch.randn(N_IMAGES, N_CLASSES + 1, SIDE, SIDE, generator=seeded(3))
    logits[:, N_CLASSES] = -99.0
    errors = Segmentation().class_errors(Segmentation().statistics(logits, MASKS))
    is_valid = MASKS != IGNORED
    answers = logits.argmax(1)[is_valid]
    expected = 1 - jaccard_score(MASKS[is_valid], answers, average=None)
    assert errors[:N_CLASSES].numpy() == pytest.approx(expected)
    assert errors[N_CLASSES].isnan()


def test_parts_of_images_in_the_error_of_masks_are_jackknife_values() -> None:
    task = Segmentation()
    logits = torch.randn(N_IMAGES, N_CLASSES, SIDE, SIDE, generator=seeded(3))
    statistics = task.statistics(logits, MASKS)
    error = error_of_masks(logits, MASKS)
    values = []
    for left_out in range(N_IMAGES):
        others = [number for number in range(N_IMAGES) if number != left_out]
        error_of_others = error_of_masks(logits[others], MASKS[others])
        values.append(N_IMAGES * error - (N_IMAGES - 1) * error_of_others)
    expected = np.array(values) - np.mean(values) + error
    assert task.image_errors(statistics).numpy() == pytest.approx(expected, abs=1e-4)


def test_answers_are_the_likeliest_class_or_all_likely_labels() -> None:
    logits = torch.tensor([[3.0, -1.0, 0.5, -4.0]])
    single = Classification()
    several = MultiLabel()
    assert single.n_answers(single.probabilities(logits)[0]) == 1
    assert several.n_answers(several.probabilities(logits)[0]) == 2


def test_a_linear_layer_separates_what_is_linear(
    task: ImageTask, example: Example
) -> None:
    if not task.has_linear_layer or task.has_numbers:
        pytest.skip("there are no classes of images")
    random = np.random.default_rng(0)
    members = task.members(example.labels).numpy()
    features = 4.0 * members.T + random.normal(size=(N_IMAGES, N_CLASSES))
    layer = task.fit_linear(features, example.labels, N_CLASSES)
    assert float(task.error_share(layer(features), example.labels)) < 0.05


def test_numbers_are_divided_into_bins_of_equally_many_images() -> None:
    numbers = NUMBERS.numpy()
    strata = Regression().strata(numbers)
    assert np.bincount(strata).tolist() == [10, 10, 10, 10]
    in_order = strata[numbers.argsort()]
    assert (np.diff(in_order) >= 0).all()
    assert len(np.unique(Regression().strata(numbers[:8]))) == 1
    # Of counts, many are equal, and a bin is not small.
    for counts, sizes in (
        ([35, 5], [40]),
        ([39, 1, 60], [39, 61]),
        ([5, 30, 5, 60], [35, 65]),
    ):
        numbers = np.repeat(np.arange(len(counts), dtype=float), counts)
        assert np.bincount(Regression().strata(numbers)).tolist() == sizes


def test_the_linear_layer_of_numbers_is_ridge_regression_by_leave_one_out() -> None:
    random = np.random.default_rng(0)
    features = random.normal(size=(30, 8))
    numbers = features @ random.normal(size=8) + random.normal(size=30)
    scaled = (features - features.mean(0)) / features.std(0)

    def prediction(penalty: float, is_fitted: np.ndarray, x: np.ndarray) -> np.ndarray:
        fitted = scaled[is_fitted]
        mean = fitted.mean(0)
        mean_number = numbers[is_fitted].mean()
        inner = (fitted - mean).T @ (fitted - mean) + penalty * np.eye(8)
        weights = np.linalg.solve(
            inner, (fitted - mean).T @ (numbers[is_fitted] - mean_number)
        )
        answer: np.ndarray = (x - mean) @ weights + mean_number
        return answer

    def leave_one_out(penalty: float) -> float:
        errors = [
            prediction(penalty, np.arange(30) != place, scaled[place]) - numbers[place]
            for place in range(30)
        ]
        return float(np.mean(np.square(errors)))

    best = min(PENALTIES, key=leave_one_out)
    expected = prediction(best, np.ones(30, dtype=bool), scaled)
    labels = torch.from_numpy(numbers).float()
    outputs = Regression().fit_linear(features, labels, 1)(features)
    assert outputs.shape == (30, 1)
    assert outputs[:, 0].numpy() == pytest.approx(expected, abs=1e-4)
