"""Which parts of a network of timm are frozen, and that they stay as they are."""

import copy

import pytest
import timm
import torch
import torch.nn.functional as F
from each import each
from pretrained_networks import pretrained
from torch import nn

from hba.errors import SettingsError
from hba.models.timm_networks import freeze

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


def test_a_transformer_is_frozen_by_its_embeddings_and_blocks() -> None:
    network = timm.create_model("vit_tiny_patch16_224", num_classes=3, depth=3, embed_dim=12, num_heads=2)
    freeze(network, "2", ("head",))
    assert {name for name, one in network.named_parameters() if not one.requires_grad} == {
        name for name, _ in network.named_parameters() if name.startswith(("cls", "pos", "patch", "blocks.0."))
    }


@each("what", ["6", "100"])
def test_a_number_that_leaves_nothing_to_train_is_refused(what: str) -> None:
    with pytest.raises(SettingsError, match="a number of groups of layers from 1 to 5 for this network"):
        freeze(pretrained(), what, ("fc",))


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
