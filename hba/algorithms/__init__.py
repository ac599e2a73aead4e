"""The search algorithms: classes that hold settings, and whose `step` reads like the
paper's pseudo-code.
"""

from collections.abc import Mapping
from types import MappingProxyType

from hba.algorithms.algorithm import Algorithm
from hba.algorithms.hypergradient import FixedNoise, Hypergradient
from hba.algorithms.joint import Joint
from hba.algorithms.lambda_steps import LambdaSteps
from hba.algorithms.lookahead import Lookahead
from hba.algorithms.population import HyperPopulation, Population
from hba.algorithms.problem import ImageProblem, SearchProblem
from hba.algorithms.race import Race
from hba.algorithms.self_tuning import DeltaSelfTuning, SelfTuning
from hba.algorithms.state import SearchState
from hba.algorithms.update_schedule import UpdateSchedule


def by_name(*algorithms: type[Algorithm]) -> Mapping[str, type[Algorithm]]:
    return MappingProxyType({algorithm.name: algorithm for algorithm in algorithms})


PAPER_ALGORITHMS = by_name(Hypergradient, FixedNoise, HyperPopulation, Population)
"""The paper's method (Algorithm 6), then the algorithms it is derived from (5, 4 and 3;
Appendix B).
"""
_OTHERS = (Joint, FixedNoise, HyperPopulation, Population, SelfTuning, DeltaSelfTuning)
ALGORITHMS = by_name(Race, Lookahead, Hypergradient, *_OTHERS)
"""All search algorithms, by name."""

__all__ = [
    "ALGORITHMS",
    "PAPER_ALGORITHMS",
    "Algorithm",
    "ImageProblem",
    "LambdaSteps",
    "SearchProblem",
    "SearchState",
]
__all__ += [
    "DeltaSelfTuning",
    "FixedNoise",
    "HyperPopulation",
    "Hypergradient",
    "Joint",
    "Lookahead",
]
__all__ += ["Population", "Race", "SelfTuning", "UpdateSchedule"]
