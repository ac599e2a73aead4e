"""The parts of a small search, to do its steps one by one."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from search_problems import small_config, small_data
from torch import Tensor, nn

from hba.algorithms.problem import ImageProblem
from hba.algorithms.state import named_networks
from hba.data import SearchData
from hba.hypernet import HyperNetwork
from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.policy_search.config import SearchConfig
from hba.preprocessing import Baseline, Preprocessing


def space_of(
    *names: str,
    copies: int = 1,
    count_probabilities: tuple[float, ...] = (0.2, 0.3, 0.5),
) -> SearchSpace:
    return SearchSpace(
        tuple(OPERATIONS[name] for name in names), copies, count_probabilities
    )


def begun(
    space: SearchSpace | None = None,
    data: SearchData | None = None,
    network: nn.Module | None = None,
    **settings: Any,
) -> tuple[ImageProblem, Any]:
    """A problem, and the beginning of the algorithm on it."""
    config = small_config(**settings)
    data = data or small_data()
    space = space or SearchSpace()
    preprocessing = Preprocessing.of(data.train, Baseline())
    problem = ImageProblem(config, space, data, preprocessing, torch.full((3,), 0.5))
    networks = (
        named_networks(config.model, 2, seed=0)
        if network is None
        else lambda member: copy.deepcopy(network)
    )
    return problem, config.algorithm.begin(problem, networks)


def begun_as_in_the_paper(**settings: Any) -> tuple[ImageProblem, Any]:
    """The same with the paper's settings, but for what is given."""
    return begun(
        **{"algorithm": "hba", "initial_fraction": 0.05, "train_steps": 2, **settings}
    )


def algorithm_of(problem: ImageProblem) -> Any:
    """The algorithm, with its settings, that a problem was begun with."""
    assert isinstance(problem.config, SearchConfig)
    return problem.config.algorithm


class WithFrozenLayer(nn.Module):
    """Its BatchNorm is not trained."""

    def __init__(self) -> None:
        super().__init__()
        self.bn = nn.BatchNorm2d(3).requires_grad_(False)
        self.linear = nn.Linear(3 * 64, 2)

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.linear(self.bn(x).flatten(1)))


def step(problem: ImageProblem, state: Any, times: int = 1) -> None:
    """As many training steps, with the lambda steps that follow them."""
    for _ in range(times):
        algorithm_of(problem).step(problem, state)


def respond_at_random(hypernetwork: HyperNetwork, scale: float = 0.3) -> None:
    """A hypernetwork answers lambda from the start, not only once it has learnt to."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in hypernetwork.response_parameters():
            parameter.copy_(scale * torch.randn(parameter.shape, generator=generator))


def is_response(name: str) -> bool:
    """Whether a hypernetwork's parameter of that name is of its response."""
    return name.endswith(("_U", "_V"))


def assert_same(actual: Any, expected: Any) -> None:
    """Two records as they are saved, to the last bit."""
    if isinstance(expected, Tensor):
        assert torch.equal(actual, expected)
    elif isinstance(expected, Mapping):
        assert actual.keys() == expected.keys()
        for name, value in expected.items():
            assert_same(actual[name], value)
    elif isinstance(expected, list):
        for a, b in zip(actual, expected, strict=True):
            assert_same(a, b)
    else:
        assert actual == expected


def next_validation(
    problem: ImageProblem, state: Any, n_batches: int = 1
) -> Sequence[tuple[Tensor, Tensor]]:
    """Inputs and labels of the next validation batches, which stay the next."""
    stream = copy.copy(state.mover.val_stream)
    stream.generator = state.mover.val_stream.generator.clone_state()
    stream._rest_of_pass = None
    batches = [stream.next() for _ in range(n_batches)]
    return [
        (problem.preprocessing.measure(images), labels) for images, labels in batches
    ]
