"""What the parts of a search cost, in training steps.

They are counted, not timed, so a run does the same everywhere. A training step takes each image of a batch
forward and backward through the network, and backward takes about twice as long as forward: one product with the
weights forward, two backward, for the gradients of the inputs and of the weights. So a pass forward alone counts a
third of a step, and one in forward mode, which carries a derivative along, two thirds.

Where the first layers are frozen, neither gradients nor derivatives go through them: of a trained share s of the
network, a step takes 1 + 2s passes forward, and one in forward mode 1 + s.
"""

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from hba.algorithms import Algorithm, LambdaSteps
from hba.algorithms.gradient_stats import PROBE_STEPS
from hba.algorithms.update_schedule import UpdateSchedule
from hba.config.training import CommonSearchConfig
from hba.utils.seeding import default_generators

LARGEST_SHARE = 0.1
"""Of a search, that probes may take."""


def trained_share(network: nn.Module, image_shape: tuple[int, int, int]) -> float:
    """Of the products in a pass through the network, those behind its first trained layer; 1 where nothing is frozen.

    image_shape (C, H, W): what the network takes. Counted on one image, in eval mode; the network is left in it, with
    gradients.
    """
    parameters = list(network.parameters())
    if all(parameter.requires_grad for parameter in parameters):
        return 1.0
    device = parameters[0].device
    # A layer may draw; the search's draws are not changed by what is counted here.
    with default_generators(device):
        with FlopCounterMode(display=False) as forward:
            found = network.eval()(torch.zeros(1, *image_shape, device=device))
        with FlopCounterMode(display=False) as backward:
            found.sum().backward()
    products = 2 * forward.get_total_flops()
    return min(1.0, backward.get_total_flops() / products) if products else 1.0


def search_cost(
    config: CommonSearchConfig,
    algorithm: LambdaSteps,
    pace: UpdateSchedule,
    batch_size: int,
    n_val: int,
    share: float = 1.0,
) -> float:
    """Of all training steps and lambda steps. batch_size: as it came out. share: of the network, that is trained."""
    policy_step = policy_step_cost(config, algorithm, batch_size, n_val, share)
    return config.epochs * pace.steps_per_epoch + pace.policy_steps(config.epochs) * policy_step


def policy_step_cost(
    config: CommonSearchConfig,
    algorithm: LambdaSteps,
    batch_size: int,
    n_val: int,
    share: float = 1.0,
) -> float:
    """Of one lambda step."""
    val_batch_size = min(algorithm.validated_at_once(config.batch_size), n_val)
    return algorithm.policy_step_cost(batch_size, val_batch_size, share)


def round_cost(
    config: CommonSearchConfig,
    algorithm: Algorithm,
    batch_size: int,
    n_val: int,
    share: float = 1.0,
) -> float | None:
    """Of the policy steps that come in a row; None where they are no lambda steps, whose cost nobody knows."""
    if not isinstance(algorithm, LambdaSteps):
        return None
    return algorithm.update_schedule.in_a_row * policy_step_cost(config, algorithm, batch_size, n_val, share)


def probe_cost(batch_size: int, n_val: int, share: float = 1.0) -> float:
    """Of one probe: two short trainings, and after each a pass over all validation images."""
    forward = 1 / (1 + 2 * share)
    return 2 * (PROBE_STEPS + forward * n_val / batch_size)


def probes_within(
    config: CommonSearchConfig,
    algorithm: Algorithm,
    pace: UpdateSchedule,
    batch_size: int,
    n_val: int,
    share: float = 1.0,
) -> int:
    """How many probes there will be: as many as were asked for, but a tenth of the search's cost at most.

    None where no step moves the policy, nor where the algorithm does not move it by lambda steps.
    """
    if not isinstance(algorithm, LambdaSteps) or pace.policy_steps(config.epochs) == 0:
        return 0
    cost = search_cost(config, algorithm, pace, batch_size, n_val, share)
    affordable = LARGEST_SHARE * cost / probe_cost(batch_size, n_val, share)
    return min(algorithm.probes, config.epochs - pace.warm_up_of(config.epochs), int(affordable))
