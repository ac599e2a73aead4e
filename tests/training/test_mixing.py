"""Mixup and CutMix of training batches, beside torchvision's v2.MixUp and v2.CutMix."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import stats
from search_problems import seeded
from small_trainings import BATCH, EPOCHS, N_TRAIN, Mixes, tiny_data
from torch import Tensor, nn
from torchvision.transforms import v2

from hba.config.evaluation import EvaluationConfig
from hba.errors import SettingsError
from hba.operations import STAGED
from hba.policy.space import SearchSpace
from hba.regularization.groups import Regularization
from hba.regularization.regularizer import Hyperparameter
from hba.schedule.mixing import Mixing
from hba.schedule.schedule import Schedule
from hba.tasks import task_of
from hba.training.augmentation import ScheduleAugmentation
from hba.training.custom_network import CustomNetwork
from hba.training.mixing import draw_shares, mix
from hba.training.trainer import train

N_CLASSES = 3


def mix_by_torchvision(
    transform_class: type,
    alpha: float,
    seed: int,
    images: Tensor,
    labels: Tensor,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[Tensor, Tensor]:
    """The batch by v2.MixUp or v2.CutMix, with the numbers that `mix` draws from a
    generator of that seed.
    """
    height, width = images.shape[2:]
    # Mixup has the share of the image itself at every pixel.
    share = draw_shares(Mixing(1.0, alpha), height, width, seeded(seed))[0, 0]
    places = torch.rand(6, generator=seeded(seed), dtype=torch.float64)[4:]
    pixels = iter([(places[1] * width).long(), (places[0] * height).long()])
    transform = transform_class(alpha=alpha, num_classes=N_CLASSES)
    transform._dist = SimpleNamespace(sample=lambda shape: share)
    with monkeypatch.context() as patched:
        patched.setattr(torch, "randint", lambda *_, **__: next(pixels)[None])
        mixed: tuple[Tensor, Tensor] = transform(images, labels)
    return mixed


@pytest.mark.parametrize(
    ("transform_class", "mixing", "alpha"),
    [(v2.MixUp, Mixing(1.0, 0.4), 0.4), (v2.CutMix, Mixing(0.0, 1.0, 1.0, 0.8), 0.8)],
)
def test_a_mixed_batch_and_its_loss_are_those_of_torchvision(
    transform_class: type, mixing: Mixing, alpha: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    smoothing = Hyperparameter("label_smoothing", 0.0, 1.0, 0.05)
    for seed in range(10):
        images = torch.randn(5, 2, 9, 6, generator=seeded(seed))
        logits = torch.randn(5, 3, generator=seeded(seed + 1))
        labels = torch.randint(0, N_CLASSES, (5,), generator=seeded(seed))
        before = images.clone()
        mixed_images, mixed = mix(images, labels, mixing, seeded(seed))
        expected, soft = mix_by_torchvision(
            transform_class, alpha, seed, images, labels, monkeypatch
        )
        assert torch.equal(mixed_images, expected)
        assert torch.equal(images, before)
        one_hot = F.one_hot(labels, N_CLASSES).float()
        torch.testing.assert_close(
            mixed.share * one_hot + (1 - mixed.share) * one_hot.roll(1, 0), soft
        )
        task = task_of(labels)
        torch.testing.assert_close(
            task.loss(logits, mixed), F.cross_entropy(logits, soft)
        )
        torch.testing.assert_close(
            task.losses(logits, mixed), F.cross_entropy(logits, soft, reduction="none")
        )
        assert task.error_share(logits, mixed) == task.error_share(logits, labels)
        penalty = Regularization((smoothing,), 0).penalty(
            logits, mixed, torch.tensor([0.3])
        )
        smoothed = F.cross_entropy(logits, soft, label_smoothing=0.3)
        torch.testing.assert_close(task.loss(logits, mixed) + penalty, smoothed)
        several = torch.rand(5, N_CLASSES, generator=seeded(seed)) < 0.5
        _, mixed = mix(images, several, mixing, seeded(seed))
        soft = mixed.share * several + (1 - mixed.share) * several.roll(1, 0)
        torch.testing.assert_close(
            task_of(mixed).loss(logits, mixed),
            F.binary_cross_entropy_with_logits(logits, soft),
        )


def test_batches_are_mixed_at_given_rates_with_shares_from_beta_distributions() -> None:
    generator = seeded(0)
    n_batches = 3_000
    side = 16
    # With an alpha of 8, shares are far enough from 1 for every box to cover a pixel,
    # whatever its place.
    mixing = Mixing(0.3, 0.4, 0.5, 8.0)
    drawn = torch.stack(
        [draw_shares(mixing, side, side, generator) for _ in range(n_batches)]
    )
    in_box = (drawn == 0).flatten(1).any(1)
    is_mixup = (drawn < 1).flatten(1).all(1) & ~in_box
    for is_drawn, rate in ((is_mixup, 0.3), (in_box, 0.7 * 0.5)):
        assert stats.binomtest(int(is_drawn.sum()), n_batches, rate).pvalue > 1e-3
    assert (
        stats.kstest(drawn[is_mixup, 0, 0].numpy(), "beta", args=(0.4, 0.4)).pvalue
        > 1e-3
    )
    # torchvision's own draws.
    torch.manual_seed(0)
    cutmix = v2.CutMix(alpha=8.0, num_classes=2)
    images = torch.zeros(2, 1, side, side)
    shares = [float(cutmix(images, torch.arange(2))[1][0, 0]) for _ in range(800)]
    pixel_shares = drawn[in_box].mean(dim=(1, 2)).numpy()
    # Both are shares of 256 pixels, which torchvision has in float32.
    assert (
        stats.ks_2samp(
            pixel_shares, np.round(np.array(shares) * side**2) / side**2
        ).pvalue
        > 1e-3
    )


def test_alpha_or_probability_0_leaves_the_batch_and_bad_numbers_are_refused() -> None:
    images = torch.randn(4, 3, 6, 6, generator=seeded(0))
    labels = torch.arange(4)
    on_device = Mixing(*torch.tensor([0.0, 1.0, 1.0, 0.0]).unbind())
    for mixing in (Mixing(), Mixing(1.0, 0.0), Mixing(0.0, 1.0, 1.0, 0.0), on_device):
        mixed_images, mixed = mix(images, labels, mixing, seeded(1))
        assert torch.equal(mixed_images, images)
        assert mixed.share == 1
    for arguments in (
        (1.5,),
        (-0.1,),
        (float("nan"),),
        (0.5, -1.0),
        (0.5, float("inf")),
    ):
        with pytest.raises(SettingsError, match=r"must lie in \[0, 1(000)?\], got"):
            Mixing(*arguments)


class Recorder(nn.Module):
    """Keeps the batches that it trains on."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3 * 64, 2)
        self.seen: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.seen.append(x.detach().clone())
        return torch.as_tensor(self.linear(x.flatten(1)))


def train_recorder(augmentation: Any) -> tuple[Tensor, list[float]]:
    """What the network sees, (epochs, batches, B, C, H, W), and each epoch's loss."""
    settings = {
        "data": "tiny",
        "model": "wrn-10-1",
        "epochs": EPOCHS,
        "batch_size": BATCH,
        "device": "cpu",
    }
    config = EvaluationConfig.make({**settings, "learning_rate": 1e-9})
    torch.manual_seed(0)
    result = train(
        config, tiny_data(), augmentation, 0, own_network=CustomNetwork(Recorder())
    )
    assert isinstance(result.network, Recorder)
    seen = torch.stack(result.network.seen).unflatten(0, (EPOCHS, N_TRAIN // BATCH))
    return seen, [epoch.loss for epoch in result.epochs]


def test_a_training_mixes_each_of_its_batches_by_the_mixing_of_the_epoch() -> None:
    plain, losses = train_recorder(ScheduleAugmentation(None))
    rows = [[1.0, 1.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0], [0.0, 1.0, 1.0, 1.0]]
    mixed, mixed_losses = train_recorder(Mixes(*(Mixing(*row) for row in rows)))
    space = SearchSpace((STAGED["Mixup"], STAGED["CutMix"]), count_probabilities=(1.0,))
    assert torch.equal(
        mixed, train_recorder(ScheduleAugmentation(Schedule(space, np.array(rows))))[0]
    )
    partners = plain.roll(1, 2)
    for mixed_batch, plain_batch, partner in zip(
        mixed[0], plain[0], partners[0], strict=True
    ):
        share = ((mixed_batch - partner) * (plain_batch - partner)).sum() / (
            plain_batch - partner
        ).square().sum()
        torch.testing.assert_close(
            mixed_batch, share * plain_batch + (1 - share) * partner
        )
        assert 0.001 < share < 0.999
    assert torch.equal(mixed[1], plain[1])
    is_own = (mixed[2] == plain[2]).all(dim=(1, 2))
    for batch, in_own in enumerate(is_own):
        assert 0 < in_own.float().mean() < 1
        assert torch.equal(
            mixed[2, batch], torch.where(in_own, plain[2, batch], partners[2, batch])
        )
    assert mixed_losses[1] == pytest.approx(losses[1], rel=1e-5)
    assert mixed_losses[0] != pytest.approx(losses[0], rel=1e-5)
    with pytest.raises(SettingsError, match="must return 3 Mixing, one per epoch"):
        train_recorder(Mixes(Mixing()))
