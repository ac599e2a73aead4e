"""A search in a network of the user's own: what it is resumed with, and networks that cannot be searched in."""

from pathlib import Path
from typing import Any, cast

import pytest
import torch
from search_problems import SMALL_SETTINGS, StopAfter, WithDropout, small_data
from torch import Tensor, nn
from torch.nn.utils import parametrizations

import hba
from hba.errors import RunError, SettingsError
from hba.policy_search.checkpoint import Checkpointer

SETTINGS: dict[str, Any] = {name: value for name, value in SMALL_SETTINGS.items() if name != "model"}


def run(**settings: Any) -> hba.SearchResult:
    return hba.search(small_data(), **{**SETTINGS, **settings})


def stopped(folder: Path, n_steps: int = 4) -> None:
    run(out=folder, network=WithDropout(), callback=StopAfter(n_steps))


def refusal(kind: type[Exception], **settings: Any) -> str:
    with pytest.raises(kind) as raised:
        run(**settings)
    message = str(raised.value)
    assert len(message.splitlines()) == 1
    return message


def changed() -> nn.Module:
    network = WithDropout()
    network.dropout.p = 0.25
    return network


def test_a_network_of_the_same_class_with_other_layers_does_not_go_on(tmp_path: Path) -> None:
    stopped(tmp_path)
    message = refusal(RunError, out=tmp_path, network=changed(), resume=True)
    assert message.startswith(f"the structure of the network changed since {tmp_path} was begun (")
    assert run(out=tmp_path, network=WithDropout(), resume=True).finished, "its weights are those that were saved"


class Counted(WithDropout):
    """Its answer depends on a buffer that state_dict leaves out."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        super().__init__()
        self.register_buffer("passes", torch.zeros(()), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        passes = cast(Tensor, self.passes)
        if self.training:
            passes += 1
        return super().forward(x * (1 + 0.1 * passes))


def test_a_stopped_search_goes_on_with_buffers_that_a_state_dict_leaves_out(tmp_path: Path) -> None:
    settings = {"learning_rate": 0.002, "reward_derivative": "difference"}
    whole = run(network=Counted(), **settings)
    run(out=tmp_path, network=Counted(), callback=StopAfter(4), **settings)
    resumed = run(out=tmp_path, network=Counted(), resume=True)
    assert torch.equal(resumed.lam, whole.lam)
    assert torch.equal(resumed.network.get_buffer("passes"), whole.network.get_buffer("passes"))


def killed_before_it_saved(monkeypatch: pytest.MonkeyPatch, folder: Path, **own: Any) -> None:
    def kill(checkpointer: Checkpointer) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Checkpointer, "save", kill)
        with pytest.raises(KeyboardInterrupt):
            run(out=folder, **own)
    assert not list(folder.glob("checkpoint*"))


@pytest.mark.parametrize("name", ["network", "space"])
def test_a_run_without_a_checkpoint_goes_on_with_what_it_had_of_its_own_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own: dict[str, Any] = {"network": WithDropout(), "space": hba.SearchSpace()}
    killed_before_it_saved(monkeypatch, tmp_path, **{name: own[name]})
    assert f"give {name} in Python" in refusal(SettingsError, out=tmp_path, resume=True)
    assert "of its own; omit " in refusal(SettingsError, out=tmp_path, resume=True, **own)
    assert run(out=tmp_path, resume=True, **{name: own[name]}).finished


class Convolved(nn.Module):
    def __init__(self, conv: nn.Module) -> None:
        super().__init__()
        self.conv, self.bn, self.linear = conv, nn.BatchNorm2d(4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.linear(self.bn(self.conv(x)).relu().mean((2, 3))))


class ReadsWeight(Convolved):
    def forward(self, x: Tensor) -> Tensor:
        maps = nn.functional.conv2d(x, cast(Tensor, self.conv.weight))
        return cast(Tensor, self.linear(self.bn(maps).relu().mean((2, 3))))


def test_a_network_that_keeps_tensors_of_a_pass_is_refused() -> None:
    """The older spectral_norm keeps the weight that it computed, which PyTorch does not copy."""
    network = Convolved(nn.utils.spectral_norm(nn.Conv2d(3, 4, 3)))
    assert "the network Convolved cannot be trained" in refusal(SettingsError, network=network)
    assert run(network=Convolved(parametrizations.spectral_norm(nn.Conv2d(3, 4, 3)))).finished


def test_a_network_whose_copies_cannot_train_at_once_is_named_with_a_remedy() -> None:
    settings = {"network": Convolved(parametrizations.spectral_norm(nn.Conv2d(3, 4, 3))), "algorithm": "population"}
    message = refusal(SettingsError, **settings)
    assert "batched_members=False" in message
    assert run(**settings, batched_members=False).finished


def test_a_layer_whose_weight_the_network_reads_cannot_depend_on_lambda() -> None:
    settings = {"network": ReadsWeight(nn.Conv2d(3, 4, 3)), "algorithm": "hba"}
    assert "the network reads 'weight' of a layer" in refusal(SettingsError, **settings, sharing="first-conv")
    assert run(**settings, sharing="first-bn").finished
