"""What the parts of a search cost, in training steps.

They are counted, not timed, so a run does the same everywhere. A training step takes each image of a batch
forward and backward through the network, and backward takes about twice as long as forward: one product with the
weights forward, two backward, for the gradients of the inputs and of the weights. So a pass forward alone counts a
third of a step, and one in forward mode, which carries a derivative along, two thirds.
"""

from hba.algorithms import Algorithm, LambdaSteps
from hba.algorithms.moves import PROBE_STEPS
from hba.algorithms.pace import Pace
from hba.config.search import CommonSearchConfig

FORWARD = 1 / 3
LARGEST_SHARE = 0.1
"""Of a search, that probes may take."""


def search_cost(config: CommonSearchConfig, algorithm: LambdaSteps, pace: Pace, batch_size: int, n_val: int) -> float:
    """Of all training steps and lambda steps. batch_size: as it came out."""
    policy_step = policy_step_cost(config, algorithm, batch_size, n_val)
    return config.epochs * pace.steps_per_epoch + pace.policy_steps(config.epochs) * policy_step


def policy_step_cost(config: CommonSearchConfig, algorithm: LambdaSteps, batch_size: int, n_val: int) -> float:
    """Of one lambda step."""
    return algorithm.policy_step_cost(batch_size, min(algorithm.val_batch_size or config.batch_size, n_val))


def round_cost(config: CommonSearchConfig, algorithm: Algorithm, batch_size: int, n_val: int) -> float | None:
    """Of the policy steps that come in a row; None where they are no lambda steps, whose cost nobody knows."""
    if not isinstance(algorithm, LambdaSteps):
        return None
    return algorithm.rhythm.in_a_row * policy_step_cost(config, algorithm, batch_size, n_val)


def probe_cost(batch_size: int, n_val: int) -> float:
    """Of one probe: two short trainings, and after each a pass over all validation images."""
    return 2 * (PROBE_STEPS + FORWARD * n_val / batch_size)


def probes_within(config: CommonSearchConfig, algorithm: Algorithm, pace: Pace, batch_size: int, n_val: int) -> int:
    """How many probes there will be: as many as were asked for, but a tenth of the search's cost at most.

    None where no step moves the policy, nor where the algorithm does not move it by lambda steps.
    """
    if not isinstance(algorithm, LambdaSteps) or pace.policy_steps(config.epochs) == 0:
        return 0
    cost = search_cost(config, algorithm, pace, batch_size, n_val)
    affordable = LARGEST_SHARE * cost / probe_cost(batch_size, n_val)
    return min(algorithm.probes, config.epochs - pace.rhythm.warm_up_of(config.epochs), int(affordable))
