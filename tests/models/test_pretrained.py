"""Weights from a file and from timm: what fits, whose head is kept, and what is said where they cannot be had."""

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
import torch.nn.functional as F
from each import each
from pretrained_networks import CLASSES_THERE, HEAD, MODEL, NAME, names_that_differ, pretrained, weights_file
from safetensors.torch import save_file
from torch import nn

from hba.errors import SettingsError
from hba.models import Start, build_model, find_model
from hba.models.timm_networks import _read_from_timm, freeze


def build(source: Path | str, n_classes: int = 3, seed: int = 0, model: str = MODEL) -> nn.Module:
    return build_model(model, n_classes, seed, 32, Start.of(model, str(source)))


def test_all_but_a_head_for_other_classes_comes_from_the_file_and_the_head_from_the_seed(tmp_path: Path) -> None:
    weights, path = pretrained().state_dict(), tmp_path / "weights.pt"
    file = weights_file(tmp_path)
    first, again, other = (build(file, seed=seed) for seed in (0, 0, 1))
    assert names_that_differ(first, pretrained()) == HEAD
    assert names_that_differ(first, again) == set()
    assert names_that_differ(first, other) == HEAD
    assert first.get_parameter("fc.weight").shape == (3, 512)
    save_file(weights, tmp_path / "weights.safetensors")
    assert names_that_differ(build(tmp_path / "weights.safetensors"), first) == set()
    # As several programs write them.
    for content in (
        {"epoch": 3, "state_dict": weights},
        {"model": weights, "args": {"lr": 0.1}},
        {f"module.{name}": one for name, one in weights.items()},
        {name: one for name, one in weights.items() if "num_batches" not in name},
    ):
        torch.save(content, path)
        assert names_that_differ(build(path), first) == set(), list(content)[:2]


class Trap:
    """Whoever runs what is in the file writes another."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return Path.write_text, (self.target, "run")


def test_nothing_in_a_file_is_run(tmp_path: Path) -> None:
    trap, ran = tmp_path / "trap.pth", tmp_path / "ran"
    torch.save({"conv1.weight": Trap(ran)}, trap)
    with pytest.raises(SettingsError, match=r"^[^\n]*it holds other things than tensors[^\n]*$"):
        build(trap)
    trap.write_bytes(pickle.dumps(Trap(ran), protocol=2))
    with pytest.raises(SettingsError, match=r"^[^\n]*state dict[^\n]*$"):
        build(trap)
    assert not ran.exists()


def test_timm_s_own_weights_are_taken_as_timm_gives_them(monkeypatch: pytest.MonkeyPatch) -> None:
    create, asked = timm.create_model, []

    def download(name: str, pretrained: bool = False, **settings: Any) -> Any:
        asked.append((name, pretrained))
        network = create(name, **settings)
        if pretrained:
            network.load_state_dict(given.state_dict())
        return network

    given = create(NAME)
    _read_from_timm.cache_clear()
    monkeypatch.setattr(timm, "create_model", download)
    network = build_model(f"{MODEL}.c3_in1k", 3, 0, 32, Start.of(f"{MODEL}.c3_in1k", "timm"))
    assert (f"{NAME}.c3_in1k", True) in asked
    assert names_that_differ(network, given) == HEAD
    hashes = {Start.of(MODEL, "timm").sha256 for _ in range(2)}
    with torch.no_grad():
        given.get_parameter("conv1.0.weight")[0, 0, 0, 0] += 1
    assert len(hashes) == 1
    _read_from_timm.cache_clear()
    assert Start.of(MODEL, "timm").sha256 not in hashes


def test_the_first_groups_of_a_resnet_are_its_stem_and_its_stages() -> None:
    stages = ("conv1", "bn1", "layer1", "layer2", "layer3", "layer4", "fc")
    for what, n_frozen in (("none", 0), ("1", 2), ("2", 3), ("5", 6), ("all-but-head", 6)):
        network = pretrained()
        freeze(network, what, ("fc",))
        trains = {(name.split(".")[0], one.requires_grad) for name, one in network.named_parameters()}
        assert trains == {(stage, number >= n_frozen) for number, stage in enumerate(stages)}, what


def trained(network: nn.Module) -> dict[str, torch.Tensor]:
    """What differs after some steps in training mode."""
    before = copy.deepcopy(network.state_dict())
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
    for step in range(3):
        network.train()
        images = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(step))
        F.cross_entropy(network(images), torch.tensor([0, 1, 2, 3])).backward()
        optimizer.step()
    return {name: one for name, one in network.state_dict().items() if not torch.equal(one, before[name])}


@each("name", ["resnet10t", "mobilenetv3_small_050"])
def test_training_moves_neither_frozen_weights_nor_their_statistics(name: str) -> None:
    network = pretrained(name=name)
    (head,) = (part for part in ("fc", "classifier") if hasattr(network, part))
    freeze(network, "all-but-head", (head,))
    # A copy is frozen like its original: searches and evaluations make them.
    assert set(trained(copy.deepcopy(network))) == {f"{head}.weight", f"{head}.bias"}


def test_statistics_alone_can_be_frozen(tmp_path: Path) -> None:
    start = Start.of(MODEL, str(weights_file(tmp_path)), "none+statistics")
    changed = {name for name in trained(build_model(MODEL, CLASSES_THERE, 0, 32, start)) if "running" in name}
    assert changed == set()
    start = Start.of(MODEL, str(tmp_path / "weights.pth"))
    assert any("running" in name for name in trained(build_model(MODEL, CLASSES_THERE, 0, 32, start)))


def test_a_frozen_batch_norm_normalises_by_its_running_statistics_in_training() -> None:
    network, thawed = pretrained(), pretrained()
    freeze(network, "all-but-head", ("fc",))
    images = torch.rand(4, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(network.train()(images), thawed.eval()(images), rtol=0, atol=0)
        assert not torch.allclose(thawed.train()(images), network(images), atol=1e-3), "it would differ otherwise"


def test_a_network_of_timm_goes_by_its_name() -> None:
    network = build_model("timm:resnet10t", 7, seed=0)
    assert type(network) is type(timm.create_model("resnet10t", pretrained=False))
    assert network(torch.rand(2, 3, 32, 32)).shape == (2, 7)


@each("name", ["resnet10", "hf-hub:timm/resnet10t", "timm:resnet10t"])
def test_an_unknown_network_of_timm_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(SettingsError, match=r"^[^\n]*unknown timm model[^\n]*$") as raised:
        find_model(f"timm:{name}")
    assert repr(name) in str(raised.value)


def test_a_network_that_is_made_for_another_image_size_is_refused_in_one_line() -> None:
    name = "timm:vit_tiny_patch16_224"
    with pytest.raises(SettingsError, match=r"^[^\n]*cannot take images of 32x32 [^\n]*$"):
        build_model(name, 3, seed=0, image_size=32)
    assert build_model(name, 3, seed=0, image_size=224).training
