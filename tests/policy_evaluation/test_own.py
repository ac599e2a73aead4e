"""What a user brings to an evaluation: networks and augmentations, and how each is recognised when it is resumed."""

import json
import multiprocessing
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from small_trainings import one_operation, tiny_data
from torch import Tensor, distributed, nn

import hba
from hba.config.evaluation import EvaluationConfig
from hba.data.images import Images
from hba.errors import SettingsError
from hba.policy_evaluation.callbacks import EvaluationPlan
from hba.schedule.schedule import Schedule
from hba.training.augmentation import Augment, Unchanged
from hba.training.custom_network import CustomNetwork
from hba.training.trainer import train

INVERT = one_operation("Invert", [[0.0], [1.0]])
SETTINGS: dict[str, Any] = {"epochs": 2, "batch_size": 20, "device": "cpu", "seeds": 2, "learning_rate": 0.1}


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
    return hba.evaluate(INVERT, tiny_data(), **{**SETTINGS, **settings})


def test_every_training_starts_from_a_copy_and_frozen_weights_stay() -> None:
    network = net()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    result = evaluate(network=network)
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    config = EvaluationConfig.make({**SETTINGS, "data": "tiny"})
    for seed in (0, 1):
        trained = train(config, tiny_data(), Unchanged(), seed, own_network=CustomNetwork.of(network))
        assert torch.equal(trained.network.state_dict()["frozen.weight"], before["frozen.weight"])
        assert not torch.equal(trained.network.state_dict()["linear.weight"], before["linear.weight"])
        assert result.rows[1].by_seed()[seed] == trained.test.error_percent
    assert result.model == "Net"
    assert "model='Net'" in repr(result)


def first_weights(given: Any, seed: int) -> Tensor:
    standing_still = EvaluationConfig.make({"data": "tiny", "learning_rate": 1e-30, "weight_decay": 0.0, "epochs": 1})
    network = train(standing_still, tiny_data(), Unchanged(), seed, own_network=CustomNetwork.of(given)).network
    return network.state_dict()["linear.weight"]


def test_seeds_share_the_weights_of_a_network_and_have_their_own_of_a_function() -> None:
    assert torch.equal(first_weights(net(), 0), first_weights(net(), 1))
    weights = [first_weights(make_net, seed) for seed in (0, 0, 1)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    torch.manual_seed(7)
    expected = torch.rand(2)
    torch.manual_seed(7)
    first_weights(make_net, 0)
    assert torch.equal(torch.rand(2), expected), "the caller's draws are left alone"


def test_a_function_is_told_the_seed_of_the_training() -> None:
    told: list[int] = []

    def make(seed: int) -> nn.Module:
        told.append(seed)
        return net(seed)

    evaluate(network=make, seeds=3, against=())
    assert told[-3:] == [0, 1, 2]


def test_a_schedule_that_was_searched_with_an_own_network_is_evaluated_with_it() -> None:
    searched = Schedule(INVERT.space, INVERT.values, provenance={"settings": {"data": "other", "model": None}})
    with pytest.raises(SettingsError, match=r"in Python give the network as network="):
        hba.evaluate(searched, tiny_data(), **SETTINGS)

    class Plans(hba.EvaluationCallback):
        def planned(self, plan: EvaluationPlan) -> None:
            self.plan = plan

    callback = Plans()
    hba.evaluate(searched, tiny_data(), network=net(), callback=callback, **{**SETTINGS, "seeds": 1})
    assert callback.plan.model == "Net"


class OneOutput(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=(1, 2, 3))[:, None] * self.weight


class TwoHeads(Net):
    """The second one while it trains, as torchvision's GoogLeNet."""

    def forward(self, x: Tensor) -> Any:
        logits = super().forward(x)
        return (logits, logits) if self.training else logits


@pytest.mark.parametrize(
    ("network", "said"),
    [
        (3, r"^network must be an nn\.Module, or a function of the seed that makes one, got int$"),
        (Net, r"got the class Net; give Net\(\.\.\.\), or lambda seed: Net\(\.\.\.\)$"),
        (lambda seed: 3, r"^the function network must return an nn\.Module, got int$"),
        (net().requires_grad_(False), r"^the network must have parameters to train"),
        (lambda seed: nn.Flatten(), r"^the network must have parameters to train"),
        (nn.Sequential(nn.Flatten(), nn.LazyLinear(2)), r"has layers that wait for their first images; call it once"),
        (Net(side=9), r"^the network Net cannot take images of shape \(3, 8, 8\) \("),
        (
            Net(n_classes=3),
            r"one output for each of 2 classes, so a tensor of shape \(2, 2\) for two images, got \(2, 3\)$",
        ),
        (OneOutput(), r"got \(2, 1\)$"),
        (TwoHeads(), r"got tuple in train mode; omit what it gives besides \(aux_logits=False\)$"),
    ],
    ids=[
        "number",
        "class",
        "no network",
        "frozen",
        "nothing to train",
        "lazy",
        "size",
        "classes",
        "one output",
        "two heads",
    ],
)
def test_what_is_no_network_for_these_images_is_refused_before_any_training(network: Any, said: str) -> None:
    with pytest.raises(SettingsError, match=said) as raised:
        evaluate(network=network)
    assert len(str(raised.value).splitlines()) == 1


def test_a_batch_norm_of_all_processes_is_tried_by_each_for_itself(tmp_path: Path) -> None:
    """SyncBatchNorm takes no images on a CPU where there are processes to share with."""
    network = nn.SyncBatchNorm.convert_sync_batchnorm(
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 2))
    )
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        CustomNetwork.of(network).check_takes(tiny_data().train, 8, 2)
    finally:
        distributed.destroy_process_group()
    assert isinstance(network[1], nn.SyncBatchNorm)


def test_a_model_beside_a_network_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"^model has no effect on a network of your own; omit it$"):
        evaluate(network=net(), model="wrn-10-1")


def with_dropout(p: float) -> nn.Module:
    network = net()
    network.add_module("dropout", nn.Dropout(p))
    return network


@pytest.mark.parametrize(
    ("first", "second", "alike"),
    [
        (net, net, True),
        (lambda: make_net, lambda: make_net, True),
        (net, lambda: net(1), False),
        (net, lambda: net().requires_grad_(True), False),
        (net, lambda: make_net, False),
        (lambda: with_dropout(0.1), lambda: with_dropout(0.2), False),
        (net, net().double, False),
    ],
    ids=["same", "same function", "weights", "frozen", "function", "dropout", "precision"],
)
def test_the_definition_tells_networks_apart(first: Callable[[], Any], second: Callable[[], Any], alike: bool) -> None:
    assert (CustomNetwork.of(first()).definition == CustomNetwork.of(second()).definition) == alike


@pytest.mark.parametrize(
    ("first", "second", "alike"),
    [
        (net, lambda: net(1), True),
        (net, lambda: make_net, True),
        (net, lambda: Net(side=9), False),
        (net, lambda: net().requires_grad_(True), False),
        (lambda: with_dropout(0.1), lambda: with_dropout(0.2), False),
    ],
    ids=["weights", "function", "shape", "frozen", "dropout"],
)
def test_the_structure_tells_apart_what_cannot_take_each_other_s_weights(
    first: Callable[[], Any], second: Callable[[], Any], alike: bool
) -> None:
    assert (CustomNetwork.of(first()).structure == CustomNetwork.of(second()).structure) == alike


def test_another_network_is_not_resumed_with(tmp_path: Path) -> None:
    evaluate(network=net(), seeds=1, out=tmp_path)
    content = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert (content["settings"]["model"], content["own_network"]) == (None, CustomNetwork.of(net()).definition)
    resumed = evaluate(network=net(), seeds=2, out=tmp_path, resume=True)
    assert resumed.rows == evaluate(network=net(), seeds=2).rows
    for other in (net(1), make_net, None):
        with pytest.raises(SettingsError, match=r"keeps its network; .* has Net [0-9a-f]+ \(now "):
            evaluate(network=other, seeds=2, out=tmp_path, resume=True)


def test_a_network_is_not_resumed_with_where_a_model_was(tmp_path: Path) -> None:
    evaluate(model="wrn-10-1", seeds=1, out=tmp_path)
    with pytest.raises(SettingsError, match=r"keeps its network; .* has a model by name \(now Net "):
        evaluate(network=net(), seeds=1, out=tmp_path, resume=True)


@dataclass(frozen=True)
class Noise:
    """As in the docstring of hba.Augmentation."""

    deviation: float
    name: str | None = None

    @property
    def definition(self) -> str:
        return f"noise that grows to {self.deviation}"

    def by_epoch(self, epochs: int, train: Images) -> Sequence[Augment]:
        return [partial(self._add, self.deviation * (epoch + 1) / epochs) for epoch in range(epochs)]

    def _add(self, deviation: float, images: Tensor, generator: torch.Generator) -> Tensor:
        noise = torch.randn(images.shape, generator=generator, device=images.device)
        return (images + deviation * noise).clamp(0, 1)


def test_an_own_augmentation_is_a_row_with_the_numbers_of_its_training() -> None:
    mine: hba.Augmentation = Noise(0.3)
    result = evaluate(against=["none", mine, Noise(0.1, "little"), INVERT], model="wrn-10-1", learning_rate=0.05)
    assert [row.name for row in result.rows] == ["schedule", "none", "Noise", "little", "schedule 5"]
    assert result.rows[0].by_seed() == result.rows[4].by_seed()
    config = EvaluationConfig.make({**SETTINGS, "data": "tiny", "model": "wrn-10-1", "learning_rate": 0.05})
    alone = [train(config, tiny_data(), mine, seed).test.error_percent for seed in (0, 1)]
    assert list(result.rows[2].test_error_percent) == alone
    assert len({row.definition for row in result.rows}) == 4


def test_a_row_of_an_own_augmentation_that_changed_is_not_resumed(tmp_path: Path) -> None:
    evaluate(against=[Noise(0.3)], seeds=1, out=tmp_path, model="wrn-10-1")
    assert evaluate(against=[Noise(0.3)], seeds=1, out=tmp_path, model="wrn-10-1", resume=True).rows[1].name == "Noise"
    with pytest.raises(SettingsError, match="the row Noise has changed"):
        evaluate(against=[Noise(0.2)], seeds=1, out=tmp_path, model="wrn-10-1", resume=True)


class Returns:
    """Does what it is told to with a batch."""

    definition = "test"

    def __init__(self, augment: Callable[[Tensor], Any], n_epochs: int | None = None) -> None:
        self.augment, self.n_epochs = augment, n_epochs

    def by_epoch(self, epochs: int, train: Images) -> Sequence[Augment]:
        return [lambda images, generator: self.augment(images)] * (self.n_epochs or epochs)


@pytest.mark.parametrize(
    ("rival", "said"),
    [
        (
            3,
            r"^against must have names, schedule files, schedules, or objects .* hba\.Augmentation .* got int$",
        ),
        (Noise, r"got the class Noise; give an object of it$"),
        (
            Returns(lambda images: images[:, :1]),
            r"^Returns must return images of torch\.float32 \(2, 3, 8, 8\) for such",
        ),
        (Returns(lambda images: images.double()), r"got torch\.float64 \(2, 3, 8, 8\)$"),
        (Returns(lambda images: 2 * images), r"^Returns must return images in \[0, 1\], got .*; add \.clamp\(0, 1\)$"),
        (Returns(lambda images: images.mul_(0.5)), r"must return new images, and writes into those that it is given"),
        (
            Returns(lambda images: images, n_epochs=1),
            r"^Returns must return one function for each of 2 epochs, got 1$",
        ),
    ],
    ids=["number", "class", "channels", "precision", "range", "in place", "epochs"],
)
def test_an_augmentation_that_no_network_could_train_with_is_refused(rival: Any, said: str) -> None:
    with pytest.raises(SettingsError, match=said) as raised:
        evaluate(against=[rival], model="wrn-10-1")
    assert len(str(raised.value).splitlines()) == 1


def test_two_augmentations_of_one_name_are_refused() -> None:
    with pytest.raises(
        SettingsError, match=r"two rows would be called 'Noise'; .* each augmentation of your own a `name`"
    ):
        evaluate(against=[Noise(0.1), Noise(0.2)], model="wrn-10-1")


def test_what_the_user_brings_reaches_the_processes() -> None:
    settings: dict[str, Any] = {"network": make_net, "against": [Noise(0.2)]}
    assert evaluate(jobs=2, **settings).rows == evaluate(**settings).rows
    assert evaluate(jobs=2, network=net()).rows == evaluate(network=net()).rows


def test_a_function_without_a_name_reaches_the_processes_too() -> None:
    assert evaluate(jobs=2, network=lambda seed: net(seed)).rows == evaluate(network=net).rows


def test_what_cannot_reach_the_processes_is_refused_in_one_line() -> None:
    lock = threading.Lock()

    def make_one_by_one(seed: int) -> nn.Module:
        with lock:
            return net(seed)

    with pytest.raises(SettingsError, match=r"^the row schedule cannot be sent to another process \(.*\); use jobs=1$"):
        evaluate(jobs=2, network=make_one_by_one)
    assert multiprocessing.active_children() == []
