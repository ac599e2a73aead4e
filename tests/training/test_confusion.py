"""Confusion matrices and balanced accuracy against scikit-learn."""

import json
import warnings

import pytest
import torch
from each import each
from sklearn.metrics import balanced_accuracy_score, confusion_matrix

from hba.training.metrics import UNBALANCED, Confusion


def answered(n_images: int, n_classes: int, seed: int, n_present: int | None = None) -> tuple[list[int], list[int]]:
    """Labels, of the first n_present classes, and answers, of which about half are right."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, n_present or n_classes, (n_images,), generator=generator)
    answers = torch.randint(0, n_classes, (n_images,), generator=generator)
    is_right = torch.rand(n_images, generator=generator) < 0.5
    return labels.tolist(), torch.where(is_right, labels, answers).tolist()


def confusion_of(labels: list[int], answers: list[int], n_classes: int) -> Confusion:
    counts = torch.zeros(n_classes, n_classes, dtype=torch.int64)
    for label, answer in zip(labels, answers, strict=True):
        counts[label, answer] += 1
    return Confusion.of(counts)


@each("n_classes", [1, 2, 10, 200])
@each("n_present", [None, 1])
def test_matrix_and_balanced_accuracy_are_scikit_learn_s(n_classes: int, n_present: int | None) -> None:
    labels, answers = answered(500, n_classes, seed=n_classes, n_present=n_present)
    found = confusion_of(labels, answers, n_classes)
    with warnings.catch_warnings():
        # Of answers that are no label's, and of a single class.
        warnings.simplefilter("ignore")
        assert found.matrix().tolist() == confusion_matrix(labels, answers, labels=range(n_classes)).tolist()
        expected = 100 * balanced_accuracy_score(labels, answers)
    assert found.balanced_accuracy_percent == pytest.approx(expected, abs=1e-10)
    assert len(found.cells) <= 500


def test_a_file_gives_it_back() -> None:
    found = confusion_of(*answered(300, 12, seed=1), 12)
    read = {int(label): {int(answer): n for answer, n in row.items()} for label, row in
            json.loads(json.dumps(found.counts())).items()}  # fmt: skip
    assert Confusion.from_counts(12, read) == found
    with pytest.raises(ValueError, match="labels of 0 to 3"):
        Confusion.from_counts(4, read)


@each(("images", "is_unbalanced"), [((30, 30), False), ((30, 59), False), ((30, 60), True)])
def test_classes_are_unbalanced_from_a_ratio_on(images: tuple[int, int], is_unbalanced: bool) -> None:
    assert UNBALANCED == 2
    counts = torch.tensor([[images[0], 0, 0], [0, 0, images[1]], [0, 0, 0]])
    assert Confusion.of(counts).is_unbalanced is is_unbalanced, "a class without images does not count"
