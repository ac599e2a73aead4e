"""Whether the network of a search overfits: where it does not, there is nothing that augmentation could mend."""

from collections.abc import Mapping
from typing import Any

from hba.utils.provenance import count_of, number_of

UNLEARNT = 0.5
"""Of the error of guessing: a network that is so often wrong on the images that it trains on has not fitted them."""
LARGEST_LOSS = 1e6


def overfitting_note(
    train_loss: float, train_error_percent: float, val_loss: float, n_classes: int, epochs: int
) -> str | None:
    """One sentence where the network of a search shows no sign of overfitting after its last epoch; None where it may.

    A search learns from what makes validation images harder than training images. Both signs are asked for, because
    each alone is common in searches that help. A validation loss not above the training loss, as that is of augmented
    images: on digits, where 5 % of them are wrong. An error that is high on augmented images, as a strong policy makes
    it: the validation loss is then far above the training loss, unless there was too little training.
    Losses in nats; the training loss and error are of augmented images.
    """
    guessing_percent = 100 * (1 - 1 / n_classes)
    if val_loss > train_loss or train_error_percent < UNLEARNT * guessing_percent:
        return None
    return (
        f"The search's network does not overfit: in epoch {epochs} {train_error_percent:.0f} % of its augmented "
        f"training images are wrong, and its loss on validation images, {val_loss:.2f}, is not above that on them, "
        f"{train_loss:.2f}. A search learns from overfitting: use more epochs or a larger network, or train without a "
        "schedule."
    )


def overfitting_note_in(provenance: Mapping[str, Any]) -> str | None:
    """The same for the search that made a schedule; None for an unfinished one, for one of several labels, and
    where nobody knows.
    """
    settings, names = provenance.get("settings"), provenance.get("class_names")
    epochs = count_of(provenance.get("epochs_finished"), least=1)
    train_loss, val_loss = (number_of(provenance.get(name), 0, LARGEST_LOSS) for name in ("train_loss", "val_loss"))
    error = number_of(provenance.get("train_error_percent"), 0, 100)
    if not isinstance(settings, Mapping) or not isinstance(names, list) or len(names) < 2:
        return None
    if provenance.get("error") is not None:
        # Nobody knows what guessing several labels comes to.
        return None
    if epochs is None or settings.get("epochs") != epochs or train_loss is None or val_loss is None or error is None:
        return None
    return overfitting_note(train_loss, error, val_loss, len(names), epochs)
