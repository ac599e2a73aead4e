"""Weights from a file and from timm: what fits, whose head is kept, and what is said where they cannot be had."""

import pickle
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from pretrained_networks import MODEL, NAME, pretrained, weights_file
from safetensors.torch import save_file
from torch import Tensor, nn

from hba.errors import RunError, SettingsError
from hba.models import Pretrained, Start, build_model


def build(source: Path | str, n_classes: int = 3, seed: int = 0, model: str = MODEL) -> nn.Module:
    return build_model(model, n_classes, seed, 32, Start(Pretrained.of(model, str(source)), "none"))


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


@pytest.mark.parametrize("number", [2, 3])
def test_a_head_that_fits_only_in_part_is_replaced_whole(number: int, tmp_path: Path) -> None:
    weights = pretrained(3).state_dict()
    del weights["fc.bias" if number == 2 else "fc.weight"]
    torch.save(weights, tmp_path / "weights.pth")
    assert names_that_differ(build(tmp_path / "weights.pth"), pretrained(3)) == HEAD


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


def changed_weights(folder: Path, change: Any) -> Path:
    weights = dict(pretrained().state_dict())
    change(weights)
    return saved(weights, folder / "changed.pth")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda weights: weights.pop("bn1.running_mean"), ": 1 missing (bn1.running_mean); choose the model"),
        (
            lambda weights: [weights.pop(f"layer{n}.0.conv1.weight") for n in range(1, 5)],
            ": 4 missing (layer1.0.conv1.weight, layer2.0.conv1.weight, layer3.0.conv1.weight and 1 more); choose",
        ),
        (lambda weights: weights.update(extra=torch.ones(1)), ": 1 unknown (extra); choose"),
        (
            lambda weights: weights.update({"bn1.weight": torch.ones(3)}),
            ": 1 of another shape (bn1.weight is (3,) there and (64,) in the network); choose",
        ),
    ],
    ids=["missing", "many missing", "unknown", "shape"],
)
def test_what_does_not_fit_is_named_and_counted_in_one_line(change: Any, words: str, tmp_path: Path) -> None:
    assert words in refusal(changed_weights(tmp_path, change))


class Trap:
    """Whoever runs what is in the file writes another."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return Path.write_text, (self.target, "run")


def test_nothing_in_a_file_is_run(tmp_path: Path) -> None:
    trap, ran = tmp_path / "trap.pth", tmp_path / "ran"
    torch.save({"conv1.weight": Trap(ran)}, trap)
    assert "holds other things than tensors; pretrained needs a state dict" in refusal(trap)
    trap.write_bytes(pickle.dumps(Trap(ran), protocol=2))
    assert "pretrained needs a state dict" in refusal(trap)
    assert not ran.exists()


def test_a_file_is_known_by_its_hash_and_a_changed_one_is_not_read(tmp_path: Path) -> None:
    file = weights_file(tmp_path)
    found = Pretrained.of(MODEL, str(file))
    assert found.sha256 == sha256(file.read_bytes()).hexdigest()
    weights_file(tmp_path, pretrained(seed=10))
    with pytest.raises(RunError, match="have changed since this run began"):
        found.read()


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
    network = build_model(f"{MODEL}.c3_in1k", 3, 0, 32, Start(Pretrained.of(f"{MODEL}.c3_in1k", "timm"), "none"))
    assert (f"{NAME}.c3_in1k", True) in asked
    assert names_that_differ(network, given) == HEAD
    hashes = {Pretrained.of(MODEL, "timm").sha256 for _ in range(2)}
    with torch.no_grad():
        given.get_parameter("conv1.0.weight")[0, 0, 0, 0] += 1
    assert len(hashes) == 1
    assert Pretrained.of(MODEL, "timm").sha256 not in hashes
