"""What the parts of a search cost, in training steps.

They are counted, not timed, so that a run does the same everywhere. A training step takes each image of a batch
forward and backward through the network, and backward takes about twice as long as forward: one product with the
weights forward, two backward, for the gradients of the inputs and of the weights. So a pass forward alone counts a
third of a step, and one in forward mode, which carries a derivative along, two thirds.
"""

from hba.algorithms.moves import PROBE_STEPS
from hba.config.search import IDLE_SETTINGS, SearchConfig
from hba.policy_search.pace import Pace

FORWARD = 1 / 3
FORWARD_MODE = 2 / 3
LARGEST_SHARE = 0.1
"""Of a search, that probes may take."""


def search_cost(config: SearchConfig, pace: Pace, batch_size: int, n_val: int) -> float:
    """Of the training steps and the policy steps of an algorithm that has probes. batch_size: as it came out."""
    val_batch = min(config.val_batch_size or config.batch_size, n_val)
    policy_step = config.val_batches * val_batch / batch_size
    if "reward_draws" not in IDLE_SETTINGS[config.algorithm]:
        policy_step += FORWARD_MODE * config.reward_draws
    return config.epochs * pace.steps_per_epoch + pace.policy_steps(config.epochs) * policy_step


def probe_cost(batch_size: int, n_val: int) -> float:
    """Of one probe: two short trainings, and after each a pass over all validation images."""
    return 2 * (PROBE_STEPS + FORWARD * n_val / batch_size)


def probes_within(config: SearchConfig, pace: Pace, batch_size: int, n_val: int) -> int:
    """How many probes there will be: as many as were asked for, but a tenth of the search's cost at most.

    None where no step moves the policy, nor where a population does.
    """
    if "probes" in IDLE_SETTINGS[config.algorithm] or pace.policy_steps(config.epochs) == 0:
        return 0
    affordable = LARGEST_SHARE * search_cost(config, pace, batch_size, n_val) / probe_cost(batch_size, n_val)
    return min(config.probes, config.epochs, int(affordable))
