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
from pretrained_networks import MODEL, NAME, pretrained, weights_file
from safetensors.torch import save_file
from torch import Tensor, nn

from hba.errors import SettingsError
from hba.models import Start, build_model, find_model
from hba.models.timm_networks import freeze


def build(source: Path | str, n_classes: int = 3, seed: int = 0, model: str = MODEL) -> nn.Module:
    return build_model(model, n_classes, seed, 32, Start.of(model, str(source)))


def names_that_differ(network: nn.Module, other: nn.Module) -> set[str]:
    theirs = other.state_dict()
    return {
        name
        for name, one in network.state_dict().items()
        if one.shape != theirs[name].shape or not torch.equal(one, theirs[name])
    }


HEAD = {"fc.weight", "fc.bias"}


def test_all_but_a_head_for_other_classes_comes_from_the_file_and_the_head_from_the_seed(tmp_path: Path) -> None:
    file = weights_file(tmp_path)
    first, again, other = (build(file, seed=seed) for seed in (0, 0, 1))
    assert names_that_differ(first, pretrained()) == HEAD
    assert names_that_differ(first, again) == set()
    assert names_that_differ(first, other) == HEAD
    assert first.get_parameter("fc.weight").shape == (3, 512)


def in_safetensors(weights: dict[str, Tensor], path: Path) -> Path:
    save_file(weights, path.with_suffix(".safetensors"))
    return path.with_suffix(".safetensors")


def saved(content: Any, path: Path) -> Path:
    torch.save(content, path)
    return path


@pytest.mark.parametrize(
    "save",
    [
        in_safetensors,
        lambda weights, path: saved({"epoch": 3, "state_dict": weights}, path),
        lambda weights, path: saved({"model": weights, "args": {"lr": 0.1}}, path),
        lambda weights, path: saved({f"module.{name}": one for name, one in weights.items()}, path),
        lambda weights, path: saved({name: one for name, one in weights.items() if "num_batches" not in name}, path),
    ],
    ids=["safetensors", "state_dict", "model", "from several GPUs", "without counters"],
)
def test_files_of_several_programs_are_read(save: Any, tmp_path: Path) -> None:
    file = save(pretrained().state_dict(), tmp_path / "weights.pt")
    assert names_that_differ(build(file), pretrained()) == HEAD


def refusal(source: Path | str, **settings: Any) -> str:
    with pytest.raises(SettingsError) as raised:
        build(source, **settings)
    assert len(str(raised.value).splitlines()) == 1
    return str(raised.value)


class Trap:
    """Whoever runs what is in the file writes another."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return Path.write_text, (self.target, "run")


def test_nothing_in_a_file_is_run(tmp_path: Path) -> None:
    trap, ran = tmp_path / "trap.pth", tmp_path / "ran"
    torch.save({"conv1.weight": Trap(ran)}, trap)
    assert "it holds other things than tensors" in refusal(trap)
    trap.write_bytes(pickle.dumps(Trap(ran), protocol=2))
    assert "state dict" in refusal(trap)
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
    monkeypatch.setattr(timm, "create_model", download)
    network = build_model(f"{MODEL}.c3_in1k", 3, 0, 32, Start.of(f"{MODEL}.c3_in1k", "timm"))
    assert (f"{NAME}.c3_in1k", True) in asked
    assert names_that_differ(network, given) == HEAD
    hashes = {Start.of(MODEL, "timm").sha256 for _ in range(2)}
    with torch.no_grad():
        given.get_parameter("conv1.0.weight")[0, 0, 0, 0] += 1
    assert len(hashes) == 1
    assert Start.of(MODEL, "timm").sha256 not in hashes


STAGES = ("conv1", "bn1", "layer1", "layer2", "layer3", "layer4", "fc")


def frozen_stages(network: nn.Module) -> list[str]:
    """The parts of a ResNet that are frozen; none may be so by half."""
    flags = {
        stage: {one.requires_grad for name, one in network.named_parameters() if name.split(".")[0] == stage}
        for stage in STAGES
    }
    assert all(len(found) == 1 for found in flags.values()), flags
    return [stage for stage, found in flags.items() if found == {False}]


@each(("what", "n_frozen"), [("none", 0), ("1", 2), ("2", 3), ("4", 5), ("5", 6), ("all-but-head", 6)])
def test_the_first_groups_of_a_resnet_are_its_stem_and_its_stages(what: str, n_frozen: int) -> None:
    network = pretrained()
    freeze(network, what, ("fc",))
    assert frozen_stages(network) == list(STAGES[:n_frozen])


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


@each("name", ["resnet10", "", "hf-hub:timm/resnet10t", "RESNET10T", "timm:resnet10t"])
def test_an_unknown_network_of_timm_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(SettingsError, match="unknown timm model") as raised:
        find_model(f"timm:{name}")
    assert repr(name) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_network_that_is_made_for_another_image_size_is_refused_in_one_line() -> None:
    name = "timm:vit_tiny_patch16_224"
    with pytest.raises(SettingsError, match="cannot take images of 32x32 ") as raised:
        build_model(name, 3, seed=0, image_size=32)
    assert len(str(raised.value).splitlines()) == 1
    assert build_model(name, 3, seed=0, image_size=224).training
