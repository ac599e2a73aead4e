"""The algorithms by name: how each begins, and what it does in one training step."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from hba.algorithms import fixed_noise, hba_lookahead, hyper_population, lookahead, population
from hba.algorithms import hypergradient as hba
from hba.algorithms.networks import Networks
from hba.algorithms.problem import Problem
from hba.algorithms.state import SearchState
from hba.config.search import SearchConfig
from hba.data.load import SearchData
from hba.policy.space import SearchSpace


@dataclass(frozen=True)
class Algorithm:
    """initial_state makes a state; search_step does one training step and what follows it, in place.

    After each step, state.lam is what the search stands at, and state.plain() the network that belongs to it.
    """

    initial_state: Callable[[SearchConfig, SearchSpace, Networks, SearchData], SearchState]
    search_step: Callable[[Problem, Any], None]


ALGORITHMS: Mapping[str, Algorithm] = MappingProxyType(
    {
        "hba": Algorithm(hba.initial_state, hba.search_step),
        "lookahead": Algorithm(lookahead.initial_state, lookahead.search_step),
        "hba-lookahead": Algorithm(hba.initial_state, hba_lookahead.search_step),
        "fixed-noise": Algorithm(fixed_noise.initial_state, fixed_noise.search_step),
        "hyper-population": Algorithm(hyper_population.initial_state, hyper_population.search_step),
        "population": Algorithm(population.initial_state, population.search_step),
    }
)
"""The paper's method (Algorithm 6), and from back to front what it is derived from (5, 4 and 3; Appendix B)."""
