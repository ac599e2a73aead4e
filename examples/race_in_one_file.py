"""The default search of hba in one file, to be read from top to bottom.

    python examples/race_in_one_file.py

`hba search` chooses an augmentation with the algorithm race, in four parts:

1. Trunk. A network trains for a quarter of the epochs without augmentation.
2. Symmetries. A flip or turn is chosen if the network recognizes moved images as well
   as others.
3. Forks. From the end of the trunk, short trainings try no group of operations, each
   group, and the two and the three best groups together.
4. Winner. Among the forks that are better than the one without a group, and as good as
   the best, the one that is hardest to fit wins.

docs/method.md gives the reasons. This file uses the image operations of hba and nothing
else of it. Compared with `hba search`, it is simplified:

- `hba search` then tunes the chosen groups by look-ahead. Here, the winner is the end.
- RandAugment applies two operations, drawn with replacement. hba gives each operation a
  probability that it can tune, and fits these to RandAugment.
- The network has fewer layers. Splits are not stratified by class.
- hba also holds out training images from the trunk to test symmetries, and finds those
  that hold only for some classes.
- It reads one data set, has one class for each image, and does not work on a GPU.

By the same losses it makes the same choice as `hba search` (tests/test_examples.py).
Draws of operations and images of the trunk differ, so forks with nearly equal losses
may change places.
"""

import copy
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Generator, Tensor, nn
from torch.optim import SGD, Optimizer

from hba.operations import OPERATIONS, STAGED
from hba.operations.drawing import SIGN, draw_magnitude

EPOCHS = 300
"""Epochs of the training for which an augmentation is sought."""
TRUNK_SHARE = 0.25
"""Share of these epochs in the trunk."""
PRICE = 1.6
"""Pixels of the forks, the trunk and look-ahead together, in whole trainings."""
BATCH_SIZE = 100
LEARNING_RATE = 0.1
SIDE = 16
"""Side of the images in pixels."""
SEARCH_SIDE = 11
"""Side in the search, where smaller images allow longer forks at the same price."""

SYMMETRIES = {"HorizontalFlip": 0.5, "VerticalFlip": 0.5, "QuarterTurn": 0.75}
"""The probability of each."""
GROUPS: dict[str, dict[str, tuple[float, float]]] = {
    "zoom": {"ResizedCrop": (1.0, 0.5)},
    "shift": {"PaddedCrop": (1.0, 0.125)},
    "RandAugment": {},
    "color": {
        "BrightnessJitter": (0.8, 0.4),
        "ContrastJitter": (0.8, 0.4),
        "Hue": (0.8, 0.08),
        "Saturation": (0.8, 0.6),
    },
    "quality": {"Blur": (0.3, 0.04), "Noise": (0.3, 0.06)},
    "erasing": {"Erase": (0.5, 0.25)},
    "mixing": {},
}
"""Operations that are tried together, with their probabilities and magnitudes, in the
order of application. The functions `randaugment` and `mix` apply the others.
"""
TOGETHER = (2, 3)
"""How many of the best groups are tried together."""


@dataclass(frozen=True)
class Images:
    """Images (N, 3, SIDE, SIDE) in [0, 1], and their classes (N,)."""

    train: Tensor
    train_labels: Tensor
    val: Tensor
    val_labels: Tensor

    @property
    def mean(self) -> Tensor:
        """The mean colour (3,) of training images, which fills uncovered pixels."""
        return self.train.mean(dim=(0, 2, 3))

    def standardize(self, images: Tensor) -> Tensor:
        std = self.train.std(dim=(0, 2, 3), correction=0)
        return (images - self.mean[:, None, None]) / std[:, None, None]


class Network(nn.Sequential):
    """Maps standardized images (B, 3, SIDE, SIDE) to logits (B, 10)."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
            nn.Conv2d(64, 64, 3, stride=2, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
        )  # fmt: skip

    def forward(self, images: Tensor) -> Tensor:
        size = (SEARCH_SIDE, SEARCH_SIDE)
        smaller = F.interpolate(images, size, mode="bilinear", antialias=True)
        return super().forward(smaller)


@dataclass
class Training:
    """All that changes in a training, so that a deep copy is a fork."""

    network: nn.Module
    optimizer: Optimizer
    batches: Generator
    """Draws the order of the training images."""
    draws: Generator
    """Draws operations."""


def begin(network: nn.Module, seed: int) -> Training:
    """A training of the network that has not made a step."""
    optimizer = SGD(
        network.parameters(),
        LEARNING_RATE,
        momentum=0.9,
        nesterov=True,
        weight_decay=0.0005,
    )
    batches = Generator().manual_seed(seed)
    return Training(network, optimizer, batches, Generator().manual_seed(seed + 1))


# ------------------------------------------------------------------- Augmentation


def augment(
    images: Tensor, chosen: list[str], fill: Tensor, draws: Generator
) -> Tensor:
    """Augment images (B, 3, SIDE, SIDE) with the chosen symmetries and groups."""
    size = (len(images),)

    def sometimes(name: str, probability: float, magnitude: float | None) -> Tensor:
        operation = STAGED[name]
        magnitudes = None
        if magnitude is not None:
            magnitudes = draw_magnitude(
                operation.drawing,
                torch.tensor(operation.identity or 0.0),
                torch.full(size, magnitude),
                torch.rand(size, generator=draws),
            )
        position = torch.rand(*size, operation.n_uniforms, generator=draws)
        changed = operation(images, magnitudes, fill=fill, position=position)
        fires = torch.rand(size, generator=draws) < probability
        return torch.where(fires[:, None, None, None], changed, images)

    for name, probability in SYMMETRIES.items():
        if name in chosen:
            images = sometimes(name, probability, None)
    for group, operations in GROUPS.items():
        if group in chosen:
            if group == "RandAugment":
                images = randaugment(images, fill, draws)
            for name, (probability, magnitude) in operations.items():
                images = sometimes(name, probability, magnitude)
    return images


def randaugment(images: Tensor, fill: Tensor, draws: Generator) -> Tensor:
    """Apply two of RandAugment's operations to each image, of which one is nothing."""
    images = images.clone()
    operations = [each for each in OPERATIONS.values() if each.randaugment is not None]
    for _ in range(2):
        drawn = torch.randint(1 + len(operations), (len(images),), generator=draws)
        signs = torch.randint(2, (len(images),), generator=draws)
        for number, operation in enumerate(operations):
            places = drawn == number
            magnitudes = None
            if operation.randaugment:
                # An enhancement has two magnitudes, a move has one with two signs.
                first, last = operation.randaugment[0], operation.randaugment[-1]
                if operation.drawing == SIGN:
                    last = -last
                magnitudes = torch.tensor([first, last])[signs[places]]
            images[places] = operation(images[places], magnitudes, fill=fill)
    return images


def mix(images: Tensor, draws: Generator) -> tuple[Tensor, Tensor]:
    """Mix each image with the one before it in the batch, by Mixup or CutMix.

    Returns:
        The images, and the share () that an image has of its own label.
    """
    choice, uniform, x, y = torch.rand(4, generator=draws)
    others = images.roll(1, dims=0)
    if choice < 0.5:
        # The distribution is Beta(1/2, 1/2); hba has Beta(0.4, 0.4).
        share = (uniform * math.pi / 2).sin() ** 2
        return share * images + (1 - share) * others, share
    if choice < 0.75:
        pixels = torch.arange(SIDE) / SIDE
        reach = (1 - uniform).sqrt() / 2
        in_box = ((pixels - y).abs() < reach)[:, None] & ((pixels - x).abs() < reach)
        return torch.where(in_box, others, images), 1 - in_box.float().mean()
    return images, torch.tensor(1.0)


# ----------------------------------------------------------------------- Training


def train(
    training: Training,
    images: Images,
    chosen: list[str],
    epochs: int,
    start: float,
    stop: float,
) -> float:
    """Train with the chosen symmetries and groups.

    Args:
        training: The training, which is changed in place.
        images: The images.
        chosen: Names of symmetries and groups.
        epochs: Passes over the training images.
        start: Place of the first step in a whole training, in [0, 1]. The learning rate
            falls along a cosine.
        stop: Place of the end.

    Returns:
        The mean training loss of the last epoch.
    """
    training.network.train()
    n_batches = len(images.train) // BATCH_SIZE
    n_steps = epochs * n_batches
    losses = []
    for step in range(n_steps):
        number = step % n_batches
        if number == 0:
            order = torch.randperm(len(images.train), generator=training.batches)
        batch = order[number * BATCH_SIZE : (number + 1) * BATCH_SIZE]
        labels = images.train_labels[batch]
        inputs = augment(images.train[batch], chosen, images.mean, training.draws)
        share = torch.tensor(1.0)
        if "mixing" in chosen:
            inputs, share = mix(inputs, training.draws)

        place = start + (stop - start) * step / n_steps
        for parameters in training.optimizer.param_groups:
            parameters["lr"] = LEARNING_RATE * (1 + math.cos(math.pi * place)) / 2
        logits = training.network(images.standardize(inputs))
        loss = share * F.cross_entropy(logits, labels)
        loss = loss + (1 - share) * F.cross_entropy(logits, labels.roll(1))
        training.optimizer.zero_grad()
        loss.backward()
        training.optimizer.step()
        losses.append(loss.item())
    return sum(losses[-n_batches:]) / n_batches


@torch.no_grad()
def predict(network: nn.Module, images: Tensor) -> Tensor:
    """Logits (N, 10) of standardized images."""
    return network.eval()(images)


# ---------------------------------------------------------------------- Decisions


def mean_and_error(values: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard error of values along the last dimension."""
    return values.mean(dim=-1), values.std(dim=-1) / values.shape[-1] ** 0.5


def gap_of(logits: Tensor, moved_logits: Tensor, labels: Tensor) -> tuple[float, float]:
    """The share of what a network has learned that moving the images costs.

    It is the largest of the mean over all images, and of what each class loses for
    certain, because a flip may hurt few classes only, such as arrows.

    Args:
        logits: Logits (N, classes) of the images.
        moved_logits: Logits (N, classes) of the moved images.
        labels: Their classes (N,).

    Returns:
        The gap, and its standard error.
    """
    probabilities, moved_probabilities = (
        each.softmax(dim=1).gather(1, labels[:, None])[:, 0]
        for each in (logits, moved_logits)
    )
    by_guessing = F.one_hot(labels).float().mean(dim=0)[labels]
    learned_by_image = probabilities - by_guessing
    learned = learned_by_image.mean().clamp(min=0)
    lost_by_image = probabilities - moved_probabilities
    gap = lost_by_image.mean() / learned
    for label in labels.unique():
        lost_by_class = lost_by_image[labels == label]
        if len(lost_by_class) >= 5:
            lost_of_class, class_error = mean_and_error(lost_by_class)
            learned_of_class = learned_by_image[labels == label].mean()
            clearly_lost = lost_of_class - 2.5 * class_error
            gap = gap.maximum(clearly_lost / learned_of_class.maximum(learned))
    # Of a ratio of two means over the same images.
    _, error = mean_and_error((lost_by_image - gap * learned_by_image) / learned)
    return gap.item(), error.item()


def is_symmetry(gap: float, error: float) -> bool:
    """Whether a symmetry with this gap is chosen."""
    return max(gap, 0) + error <= 0.15 and (gap <= 0.05 or gap <= 2 * error)


def calibrated_losses(logits: Tensor, labels: Tensor) -> Tensor:
    """Losses (N,) of the logits times the number with the lowest mean loss.

    Otherwise, everything that makes a network less confident would look good.
    """
    factors = torch.logspace(-3, 3, 61, base=2.0)[:, None, None]
    probabilities = (factors * logits).log_softmax(dim=2)
    losses = -probabilities[:, torch.arange(len(labels)), labels]
    return losses[losses.mean(dim=1).argmin()]


def winner_of(losses: Tensor, train_losses: Tensor) -> int:
    """Number of the fork to choose.

    Among the forks that are better than the first and as good as the best, by one
    standard error of the differences, it is the one with the highest training loss:
    in short trainings, weak augmentation looks better than it is in long ones.

    Args:
        losses: Validation losses (forks, images); the first fork has no group.
        train_losses: Training losses (forks,).
    """
    change, error = mean_and_error(losses - losses[0])
    is_better = change + error < -0.0001
    if not is_better.any():
        return 0
    behind, error_behind = mean_and_error(losses - losses[(change + error).argmin()])
    is_good = is_better & (behind <= error_behind)
    return int(train_losses.where(is_good, -torch.inf).argmax())


# ----------------------------------------------------------------------- The race


@dataclass(frozen=True)
class Fork:
    """A short training with some groups."""

    groups: list[str]
    losses: Tensor
    """Calibrated losses of the validation images (N,)."""
    train_loss: float


@dataclass(frozen=True)
class Choice:
    """What a race has found."""

    gaps: dict[str, tuple[float, float]]
    """Gap of each symmetry, and its standard error."""
    symmetries: list[str]
    """Those that hold."""
    forks: list[Fork]
    winner: Fork


def race(images: Images, trunk: Training, epochs: int = EPOCHS) -> Choice:
    """Choose symmetries and groups of operations.

    Args:
        images: The images.
        trunk: A training that has not begun.
        epochs: Epochs of the training for which an augmentation is sought.
    """
    # 1. Trunk.
    train(trunk, images, [], round(TRUNK_SHARE * epochs), 0.0, TRUNK_SHARE)

    # 2. Symmetries. Quarter turns are by 90, 180 and 270 degrees in turn.
    val = images.standardize(images.val)
    logits = predict(trunk.network, val)
    turns = (torch.arange(len(val))[:, None] % 3 + 0.5) / 3
    gaps = {}
    for name in SYMMETRIES:
        moved_logits = predict(trunk.network, STAGED[name](val, position=turns))
        gaps[name] = gap_of(logits, moved_logits, images.val_labels)
    symmetries = [name for name, gap in gaps.items() if is_symmetry(*gap)]

    # 3. Forks, all with the same weights, batches and random numbers.
    share_of_pixels = (SEARCH_SIDE / SIDE) ** 2
    n_forks = 1 + len(GROUPS) + len(TOGETHER)
    fork_epochs = round((PRICE / share_of_pixels - 1) / n_forks * epochs)

    def fork(groups: list[str]) -> Fork:
        training = copy.deepcopy(trunk)
        chosen = [*symmetries, *groups]
        train_loss = train(training, images, chosen, fork_epochs, TRUNK_SHARE, 1.0)
        logits = predict(training.network, val)
        return Fork(groups, calibrated_losses(logits, images.val_labels), train_loss)

    with_one_group = [fork([group]) for group in GROUPS]
    with_one_group.sort(key=lambda fork: float(fork.losses.mean()))
    best_groups = [group for fork in with_one_group for group in fork.groups]
    with_several = [fork(best_groups[:n]) for n in TOGETHER]
    forks = [fork([]), *with_one_group, *with_several]

    # 4. Winner.
    losses = torch.stack([fork.losses for fork in forks])
    train_losses = torch.tensor([fork.train_loss for fork in forks])
    return Choice(gaps, symmetries, forks, forks[winner_of(losses, train_losses)])


def main() -> None:
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
    images = F.interpolate(images.expand(-1, 3, -1, -1), SIDE, mode="bilinear")
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(images), generator=Generator().manual_seed(0))
    train, val = order[:200], order[200:700]
    torch.manual_seed(0)
    choice = race(
        Images(images[train], labels[train], images[val], labels[val]),
        begin(Network(), seed=0),
    )
    for name, (gap, error) in choice.gaps.items():
        print(f"{name}: costs {gap:.0%} +- {error:.0%} of what is learned")
    for fork in choice.forks:
        change, spread = mean_and_error(fork.losses - choice.forks[0].losses)
        name = " + ".join(fork.groups) or "no group"
        print(f"{name}: loss {fork.losses.mean():.3f}, {change:+.3f} +- {spread:.3f}")
    print("chosen:", ", ".join(choice.symmetries + choice.winner.groups))


if __name__ == "__main__":
    main()
