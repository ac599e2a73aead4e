"""The parts of a small search, to do its steps one by one."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from search_problems import small_config, small_data
from torch import Tensor, nn

from hba.data import SearchData
from hba.data.baseline import Baseline
from hba.data.batches import Standardize
from hba.data.preprocessing import Preprocessing
from hba.hypernet import HyperNetwork
from hba.operations import OPERATIONS
from hba.search.algorithms import ALGORITHMS
from hba.search.networks import equal_networks, named_networks
from hba.search.problem import Problem
from hba.space import SearchSpace


def space_of(*names: str, copies: int = 1, count_probabilities: tuple[float, ...] = (0.2, 0.3, 0.5)) -> SearchSpace:
    return SearchSpace(tuple(OPERATIONS[name] for name in names), copies, count_probabilities)


def begun(
    space: SearchSpace | None = None, data: SearchData | None = None, network: nn.Module | None = None, **settings: Any
) -> tuple[Problem, Any]:
    """A problem, and the beginning of the algorithm on it."""
    config, data, space = small_config(**settings), data or small_data(), space or SearchSpace()
    preprocessing = Preprocessing(Standardize.of(data.train), Baseline(), 8)
    problem = Problem(config, space, preprocessing, torch.full((3,), 0.5), data.val)
    networks = named_networks(config.model, 2, seed=0) if network is None else equal_networks(network)
    return problem, ALGORITHMS[config.algorithm].initial_state(config, space, networks, data)


def step(problem: Problem, state: Any, times: int = 1) -> None:
    """As many training steps, with the lambda steps that follow them."""
    for _ in range(times):
        ALGORITHMS[problem.config.algorithm].search_step(problem, state)


def respond_at_random(hypernetwork: HyperNetwork, scale: float = 0.3) -> None:
    """A hypernetwork answers lambda from the start, not only once it has learnt to."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in hypernetwork.response_parameters():
            parameter.copy_(scale * torch.randn(parameter.shape, generator=generator))


def next_validation(problem: Problem, state: Any, n_batches: int = 1) -> Sequence[tuple[Tensor, Tensor]]:
    """Inputs and labels of the validation batches that come next, which stay the next."""
    stream = copy.copy(state.val_stream)
    stream.generator = state.val_stream.generator.clone_state()
    stream._rest_of_pass = None
    batches = [stream.next() for _ in range(n_batches)]
    return [(problem.preprocessing.measure(images), labels) for images, labels in batches]
