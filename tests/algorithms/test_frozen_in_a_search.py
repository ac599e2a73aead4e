"""What is frozen in a user's network is the same after a search, by every algorithm."""

import copy
from typing import Any

import torch
from each import each
from search_problems import SELF_TUNING, small_data, small_settings
from torch import Tensor, nn

import hba
from hba.algorithms import ALGORITHMS

OF_HYPERNETWORKS = ("hba", "hba-lookahead", "fixed-noise", "hyper-population")
STEM = ("conv1.weight", "conv1.bias", "bn1.weight", "bn1.bias")
FROZEN = (*STEM, "conv2.weight", "bn2.weight", "conv3.bias", "bn3.bias")
TRAINED = ("conv2.bias", "bn2.bias", "conv3.weight", "bn3.weight", "head.weight", "head.bias")


class HalfFrozen(nn.Module):
    """A stem that is frozen, then layers of which the weight or the bias is."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.conv2, self.bn2 = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.conv3, self.bn3 = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.head = nn.Linear(4 * 64, 2)
        for name in FROZEN:
            self.get_parameter(name).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.bn1(self.conv1(x)).relu()
        x = self.bn2(self.conv2(x)).relu()
        return torch.as_tensor(self.head(self.bn3(self.conv3(x)).flatten(1)))


def searched(network: nn.Module, **settings: Any) -> hba.SearchResult:
    moving = {"weight_decay": 0.1, "learning_rate": 0.01, **SELF_TUNING.get(settings.get("algorithm", ""), {})}
    return hba.search(small_data(), network=network, **small_settings(**{**moving, **settings}))


def assert_only_the_rest_moved(result: hba.SearchResult, before: nn.Module) -> None:
    after = dict(result.network.named_parameters())
    assert sorted(after) == sorted((*FROZEN, *TRAINED))
    for name, parameter in after.items():
        assert torch.equal(parameter, before.get_parameter(name)) == (name in FROZEN), name
        assert parameter.requires_grad == (name in TRAINED), name


def frozen_network() -> nn.Module:
    torch.manual_seed(0)
    return HalfFrozen()


@each("algorithm", ALGORITHMS)
def test_frozen_weights_do_not_move(algorithm: str) -> None:
    network = frozen_network()
    before = copy.deepcopy(network)
    sharing = {"sharing": "conv+bn"} if algorithm in OF_HYPERNETWORKS else {}
    assert_only_the_rest_moved(searched(network, algorithm=algorithm, **sharing), before)
