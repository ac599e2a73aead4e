"""Loss and error of both kinds of labels, beside PyTorch, scikit-learn and closed forms."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from each import each
from sklearn.metrics import average_precision_score
from small_trainings import Answers
from torch import Tensor

from hba.data import LabelledImages
from hba.training.criterion import error_share, loss_of, loss_sum_of, losses_of, mean_average_precision
from hba.training.metrics import MEASURE_BATCH_SIZE, measure


def answers(n: int, n_classes: int, seed: int) -> tuple[Tensor, Tensor]:
    """Scores, and labels that three in ten have."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, n_classes, generator=generator), torch.rand(n, n_classes, generator=generator) < 0.3


def by_scikit_learn(scores: Tensor, labels: Tensor) -> float:
    return float(
        np.mean(
            [
                average_precision_score(labels[:, column].numpy(), scores[:, column].numpy())
                for column in range(labels.shape[1])
                if labels[:, column].any()
            ]
        )
    )


@each("n", [2, 3, 10, 200])
@each("has_ties", [False, True])
def test_mean_average_precision_is_scikit_learn_s(n: int, has_ties: bool) -> None:
    for seed in range(20):
        scores, labels = answers(n, 4, seed)
        labels[0, 1], labels[:, 3] = True, False
        scores = scores.round() if has_ties else scores
        found = mean_average_precision(scores, labels)
        assert found.item() == pytest.approx(by_scikit_learn(scores, labels), abs=1e-12)
        assert error_share(scores, labels).item() == pytest.approx(1 - found.item(), abs=1e-6)


def test_average_precision_by_hand() -> None:
    """Ranks 1, 3 and 4 of four: precisions 1, 2/3 and 3/4. All scores equal: the share of positives."""
    labels = torch.tensor([[True, True], [False, False], [True, True], [True, True]])
    scores = torch.tensor([[4.0, 0.0], [3.0, 0.0], [2.0, 0.0], [1.0, 0.0]])
    assert mean_average_precision(scores, labels).item() == pytest.approx(((1 + 2 / 3 + 3 / 4) / 3 + 3 / 4) / 2)


def test_the_loss_of_several_labels_is_the_mean_of_logistic_losses() -> None:
    """-ln sigma(z) for a class that an image has, -ln(1 - sigma(z)) for another."""
    losses = losses_of(torch.tensor([[0.0, math.log(3)], [math.log(3), 0.0]]), torch.tensor([[1, 1], [0, 0]]).bool())
    expected = [(math.log(2) - math.log(3 / 4)) / 2, (math.log(2) - math.log(1 / 4)) / 2]
    assert losses.tolist() == pytest.approx(expected)


def test_single_labels_have_pytorch_s_cross_entropy_to_the_last_bit() -> None:
    logits, labels = torch.randn(33, 5), torch.arange(33) % 5
    assert torch.equal(loss_of(logits, labels), F.cross_entropy(logits, labels))
    assert torch.equal(losses_of(logits, labels), F.cross_entropy(logits, labels, reduction="none"))
    assert torch.equal(loss_sum_of(logits, labels), F.cross_entropy(logits, labels, reduction="sum"))
    assert error_share(logits, labels).item() == pytest.approx((logits.argmax(1) != labels).double().mean().item())


def test_a_split_is_ranked_as_a_whole_and_not_by_batches() -> None:
    n = MEASURE_BATCH_SIZE + 40
    scores, labels = answers(n, 3, seed=1)
    parts = iter(scores.split(MEASURE_BATCH_SIZE))
    data = LabelledImages(torch.zeros(n, 3, 2, 2, dtype=torch.uint8), labels)
    measured = measure(Answers(lambda _: next(parts)), data, lambda images: images)
    assert measured.error_percent == pytest.approx(100 * (1 - by_scikit_learn(scores, labels)), abs=1e-4)
    expected = F.binary_cross_entropy_with_logits(scores.double(), labels.double()).item()
    assert measured.loss == pytest.approx(expected, rel=1e-5)
