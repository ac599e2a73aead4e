"""What a user brings to an evaluation: networks and augmentations, and how each is
recognised when it is resumed.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from small_trainings import one_operation, tiny_data
from torch import Tensor, nn

import hba
from hba.config.evaluation import EvaluationConfig
from hba.data.images import Images
from hba.errors import SettingsError
from hba.training.augmentation import Augment, ScheduleAugmentation
from hba.training.custom_network import CustomNetwork
from hba.training.trainer import train

INVERT = one_operation("Invert", [[0.0], [1.0]])
SETTINGS: dict[str, Any] = {
    "epochs": 2,
    "batch_size": 20,
    "device": "cpu",
    "seeds": 2,
    "learning_rate": 0.1,
}


class Net(nn.Module):
    """A frozen layer under one that learns."""

    def __init__(self, n_classes: int = 2, side: int = 8) -> None:
        super().__init__()
        self.frozen = nn.Conv2d(3, 4, 3, padding=1).requires_grad_(False)
        self.linear = nn.Linear(4 * side * side, n_classes)

    def forward(self, x: Tensor) -> Any:
        return self.linear(self.frozen(x).relu().flatten(1))


def net(seed: int = 0) -> Net:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Net()


def make_net(seed: int) -> nn.Module:
    return Net()


def evaluate(**settings: Any) -> hba.EvaluationResult:
    return hba.evaluate(
        INVERT, tiny_data(), **{"against": "none", **SETTINGS, **settings}
    )


def test_every_training_starts_from_a_copy_and_frozen_weights_stay() -> None:
    network = net()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    result = evaluate(network=network)
    assert all(
        torch.equal(tensor, before[name])
        for name, tensor in network.state_dict().items()
    )
    config = EvaluationConfig.make({**SETTINGS, "data": "tiny"})
    for seed in (0, 1):
        trained = train(
            config,
            tiny_data(),
            ScheduleAugmentation(None),
            seed,
            own_network=CustomNetwork(network),
        )
        assert torch.equal(
            trained.network.state_dict()["frozen.weight"], before["frozen.weight"]
        )
        assert not torch.equal(
            trained.network.state_dict()["linear.weight"], before["linear.weight"]
        )
        assert result.rows[1].by_seed()[seed] == trained.test.error_percent
    assert result.model == "Net"
    assert "model='Net'" in repr(result)


def first_weights(own_network: Any, seed: int) -> Tensor:
    standing_still = EvaluationConfig.make(
        {"data": "tiny", "learning_rate": 1e-30, "weight_decay": 0.0, "epochs": 1}
    )
    network = train(
        standing_still,
        tiny_data(),
        ScheduleAugmentation(None),
        seed,
        own_network=CustomNetwork(own_network),
    ).network
    return network.state_dict()["linear.weight"]


def test_seeds_share_the_weights_of_a_network_and_have_their_own_of_a_function() -> (
    None
):
    assert torch.equal(first_weights(net(), 0), first_weights(net(), 1))
    weights = [first_weights(make_net, seed) for seed in (0, 0, 1)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    torch.manual_seed(7)
    expected = torch.rand(2)
    torch.manual_seed(7)
    first_weights(make_net, 0)
    assert torch.equal(torch.rand(2), expected), "the caller's draws are left alone"


def test_what_is_no_network_for_these_images_is_refused_before_any_training() -> None:
    for network, named in (
        (3, "got int"),
        (Net(side=9), "Net cannot be trained on images"),
        (Net(n_classes=3), r"got \(2, 3\)"),
    ):
        with pytest.raises(SettingsError, match=named) as raised:
            evaluate(network=network)
        assert len(str(raised.value).splitlines()) == 1
    with pytest.raises(SettingsError, match="model has no effect"):
        evaluate(network=net(), model="wrn-10-1")


def test_another_network_is_not_resumed_with(tmp_path: Path) -> None:
    evaluate(network=net(), seeds=1, out=tmp_path)
    content = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert (content["settings"]["model"], content["own_network"]) == (
        None,
        CustomNetwork(net()).definition,
    )
    resumed = evaluate(network=net(), seeds=2, out=tmp_path, resume=True)
    assert resumed.rows == evaluate(network=net(), seeds=2).rows
    for other in (net(1), make_net, None):
        with pytest.raises(
            SettingsError, match=r"keeps its network; .* has Net [0-9a-f]+ \(now "
        ):
            evaluate(network=other, seeds=2, out=tmp_path, resume=True)


@dataclass(frozen=True)
class Noise:
    """As in docs/extending.md."""

    deviation: float
    name: str | None = None

    @property
    def definition(self) -> str:
        return f"noise that grows to {self.deviation}"

    def by_epoch(self, epochs: int, train: Images) -> Sequence[Augment]:
        return [
            partial(self._add, self.deviation * (epoch + 1) / epochs)
            for epoch in range(epochs)
        ]

    def _add(
        self, deviation: float, images: Tensor, generator: torch.Generator
    ) -> Tensor:
        noise = torch.randn(images.shape, generator=generator, device=images.device)
        return (images + deviation * noise).clamp(0, 1)


def test_an_own_augmentation_is_a_row_with_the_numbers_of_its_training() -> None:
    mine: hba.Augmentation = Noise(0.3)
    result = evaluate(
        against=["none", mine, Noise(0.1, "little"), INVERT],
        model="mlp-8",
        learning_rate=0.05,
    )
    assert [row.name for row in result.rows] == [
        "schedule",
        "none",
        "Noise",
        "little",
        "schedule 5",
    ]
    assert result.rows[0].by_seed() == result.rows[4].by_seed()
    config = EvaluationConfig.make(
        {**SETTINGS, "data": "tiny", "model": "mlp-8", "learning_rate": 0.05}
    )
    alone = [
        train(config, tiny_data(), mine, seed).test.error_percent for seed in (0, 1)
    ]
    assert list(result.rows[2].test_error_percent) == alone
    assert len({row.definition for row in result.rows}) == 4


class Dark:
    """Writes into the images that it gets."""

    definition = "test"

    def by_epoch(self, epochs: int, train: Images) -> Sequence[Augment]:
        return [lambda images, generator: images.mul_(0.5)] * epochs


def test_an_augmentation_that_no_network_could_train_with_is_refused() -> None:
    for augmentation, named in (
        (3, "got 3"),
        (Noise, "class '.*Noise'"),
        (Dark(), "Dark must return new images"),
    ):
        with pytest.raises(SettingsError, match=named) as raised:
            evaluate(against=[augmentation], model="mlp-8")
        assert len(str(raised.value).splitlines()) == 1
    with pytest.raises(SettingsError, match="two rows would be called 'Noise'"):
        evaluate(against=[Noise(0.1), Noise(0.2)], model="mlp-8")
