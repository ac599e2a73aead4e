"""What is said of a search whose network does not overfit, by what searches on digits and CIFAR-10 came to."""

from typing import Any

import pytest

import hba
from hba.algorithms.overfitting import overfitting_note, overfitting_note_in


@pytest.mark.parametrize(
    ("train_loss", "train_error_percent", "val_loss", "n_classes", "is_told"),
    [
        # 5,000 images of CIFAR-10, 10 epochs: the schedule cost 2.5 points (-0.1 to 5.2).
        (1.519, 54.97, 1.444, 10, True),
        # 720 images of three classes, 20 epochs.
        (0.976, 49.22, 0.970, 3, True),
        # The same, 200 epochs: the schedule won 6.7 points.
        (0.465, 19.92, 1.063, 3, False),
        # 200 digits, 300 epochs: the schedule won 3.2 points. Validation images are easier than augmented ones.
        (0.109, 4.5, 0.0896, 10, False),
        # 1,000 images of CIFAR-10, 120 epochs: the schedule won 4 points.
        (0.955, 31.25, 1.720, 10, False),
        # 2,000 images, 30 epochs.
        (1.170, 37.60, 1.482, 10, False),
        # A strong policy: much is wrong in training, and validation is harder still.
        (1.9, 70.0, 2.1, 10, False),
    ],
)
def test_it_takes_both_signs(
    train_loss: float, train_error_percent: float, val_loss: float, n_classes: int, is_told: bool
) -> None:
    found = overfitting_note(train_loss, train_error_percent, val_loss, n_classes, epochs=10)
    assert (found is not None) == is_told
    if found is not None:
        assert found.startswith(f"The search's network does not overfit: in epoch 10 {train_error_percent:.0f} % of")
        assert len(found.splitlines()) == 1


@pytest.mark.parametrize(("n_classes", "limit"), [(2, 25.0), (4, 37.5), (100, 49.5)])
def test_an_error_is_high_from_half_of_guessing_on(n_classes: int, limit: float) -> None:
    assert overfitting_note(1.0, limit, 1.0, n_classes, 3) is not None
    assert overfitting_note(1.0, limit - 0.01, 1.0, n_classes, 3) is None


def made(**changed: Any) -> dict[str, Any]:
    found = {"train_loss": 1.5, "train_error_percent": 55.0, "val_loss": 1.4, "class_names": ["a", "b"]}
    return {**found, "settings": {"epochs": 4}, "epochs_finished": 4, **changed}


def test_it_is_told_of_a_finished_search_only() -> None:
    assert overfitting_note_in(made()) == overfitting_note(1.5, 55.0, 1.4, 2, 4)
    assert overfitting_note_in(made(epochs_finished=3)) is None
    assert overfitting_note_in(hba.load_policy("digits").provenance) is None


@pytest.mark.parametrize("name", list(made()))
@pytest.mark.parametrize("damaged", [None, "2", True, -1, float("nan"), [2], {}])
def test_a_damaged_provenance_says_nothing(name: str, damaged: Any) -> None:
    assert overfitting_note_in(made(**{name: damaged})) is None
    assert overfitting_note_in({}) is None
