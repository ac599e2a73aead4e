"""A schedule as a transform of batches: the same mixing as in a training, in the form
that other trainings take.
"""

import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from random_inputs import seeded
from scipy import stats
from small_trainings import one_operation
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate

from hba.errors import SettingsError
from hba.operations import STAGED
from hba.policy.space import SearchSpace
from hba.schedule.mixing import BatchTransform, Mixing
from hba.schedule.schedule import Schedule
from hba.training.augmentation import ScheduleAugmentation
from hba.training.mixing import draw_shares

N_CLASSES = 3


def mixing_schedule(
    *rows: tuple[float, ...], names: tuple[str, ...] = ("Mixup", "CutMix")
) -> Schedule:
    """Of probability and alpha of each."""
    space = SearchSpace(
        tuple(STAGED[name] for name in names), count_probabilities=(1.0,)
    )
    return Schedule(space, np.array(rows))


def test_batches_are_mixed_as_in_a_training() -> None:
    row = (0.4, 0.6, 0.7, 1.0)
    side = 8
    n = 2000
    transform = mixing_schedule(row).batch_transform(N_CLASSES)
    mixing = Mixing(*row)
    # An image of ones beside one of zeros: the mixture is the share of the image
    # itself.
    images = torch.tensor([1.0, 0.0])[:, None, None, None].expand(2, 1, side, side)
    labels = torch.tensor([2, 0])
    torch.manual_seed(0)
    batches = [transform(images, labels) for _ in range(n)]
    mixed = torch.stack([images for images, _ in batches])
    soft = torch.stack([labels for _, labels in batches])
    first, second = mixed[:, :, 0].unbind(1)
    torch.testing.assert_close(second, 1 - first)
    share = first.mean(dim=(1, 2))
    nothing = torch.zeros(n)
    of_first = torch.stack([1 - share, nothing, share], dim=1)
    of_second = torch.stack([share, nothing, 1 - share], dim=1)
    torch.testing.assert_close(soft, torch.stack([of_first, of_second], dim=1))
    generator = seeded(0)
    drawn = torch.stack([draw_shares(mixing, side, side, generator) for _ in range(n)])
    by_both = (first.double(), drawn)
    of_mixup = [
        shares[((shares > 0) & (shares < 1)).flatten(1).all(1), 0, 0]
        for shares in by_both
    ]
    in_box = [
        shares[(shares == 0).flatten(1).any(1)].flatten(1).mean(1) for shares in by_both
    ]
    for ours, trained_on in (of_mixup, in_box):
        comparison = stats.ks_2samp(ours.numpy().round(5), trained_on.numpy().round(5))
        assert comparison.pvalue > 1e-3
        assert abs(len(ours) - len(trained_on)) < 4 * (2 * n * 0.25) ** 0.5


def test_the_place_decides_the_mixing_and_a_training_gets_the_rows_of_its_epochs() -> (
    None
):
    schedule = mixing_schedule((0.0, 1.0, 0.0, 1.0), (1.0, 1.0, 0.0, 1.0))
    transform = schedule.batch_transform(N_CLASSES)
    images = torch.randn(4, 3, 6, 6, generator=seeded(0))
    labels = torch.tensor([0, 1, 2, 0])
    assert not torch.equal(transform(images, labels)[0], images), (
        "the last row comes first"
    )
    transform.set_epoch(0, 10)
    mixed, soft = transform(images, labels)
    assert torch.equal(mixed, images)
    assert torch.equal(soft, torch.eye(3)[labels])
    rows = ScheduleAugmentation(schedule).mixing_by_epoch(3)
    assert [row.mixup_probability for row in rows] == [0.0, 0.5, 1.0]
    only = mixing_schedule((0.3, 0.2), names=("CutMix",))
    on_device = Mixing.of(only.space, torch.tensor(only.values[0]))
    for mixing in (*ScheduleAugmentation(only).mixing_by_epoch(1), on_device):
        assert (
            mixing.mixup_probability,
            mixing.cutmix_probability,
            mixing.cutmix_alpha,
        ) == (
            0.0,
            0.3,
            0.2,
        )
    # Without mixing, nothing is drawn.
    plain = one_operation("Invert", [[1.0]])
    before = torch.get_rng_state()
    several = torch.tensor([[True, False, True]] * 4)
    mixed, soft = plain.batch_transform(N_CLASSES)(images, several)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(mixed, images)
    assert torch.equal(soft, several.float())
    assert (
        ScheduleAugmentation(plain).mixing_by_epoch(3)
        == ScheduleAugmentation(None).mixing_by_epoch(3)
        == ()
    )


class Greys(Dataset[tuple[Tensor, int]]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        return torch.full((1, 4, 4), number / 8), number % N_CLASSES


def collated(transform: BatchTransform, samples: list[Any]) -> Any:
    return transform(*default_collate(samples))


def test_a_collate_function_in_persistent_workers_follows_the_place() -> None:
    transform = mixing_schedule(
        (0.0, 1.0, 0.0, 1.0), (1.0, 1.0, 0.0, 1.0)
    ).batch_transform(N_CLASSES)
    transform = pickle.loads(pickle.dumps(transform))
    loader = DataLoader(
        Greys(),
        4,
        num_workers=1,
        persistent_workers=True,
        collate_fn=partial(collated, transform),
    )
    for epoch in (0, 1, 0):
        transform.set_epoch(epoch, 2)
        images = torch.cat([images for images, _ in loader])
        assert torch.equal(images[:, 0, 0, 0] * 8, torch.arange(8.0)) == (epoch == 0)


def test_batches_of_other_kinds_are_refused() -> None:
    transform = mixing_schedule((1.0, 1.0, 0.0, 1.0)).batch_transform(N_CLASSES)
    images = torch.zeros(4, 3, 6, 6)
    labels = torch.tensor([0, 1, 2, 0])
    for mistake in (
        labels + 1,
        labels - 1,
        labels[:3],
        labels.float(),
        torch.zeros(4, 2),
        labels > 0,
    ):
        with pytest.raises(SettingsError, match="labels must be whole numbers below 3"):
            transform(images, mistake)
    for wrong in (images[0], images.to(torch.uint8)):
        with pytest.raises(
            SettingsError, match="images must be a floating point tensor"
        ):
            transform(wrong, labels)
    with pytest.raises(SettingsError, match="n_classes must be a whole number"):
        mixing_schedule((1.0, 1.0, 0.0, 1.0)).batch_transform(2.0)  # type: ignore[arg-type]
