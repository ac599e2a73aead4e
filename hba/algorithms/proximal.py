"""A pull to where a search began, beside Adam: a proximal step.

Added to the gradient that Adam averages, a pull would come as late as the average is long, and lambda would swing
around where it comes to rest. So lambda's pull is no part of that gradient. It follows each step of Adam, on where
lambda is then: it is decoupled from the momentum, as weight decay is in AdamW (Loshchilov and Hutter 2019).
"""

import torch
from torch import Tensor
from torch.optim import Optimizer

from hba.training.optimizer import gradient_root


def own_rates(optimizer: Optimizer, parameter: Tensor) -> Tensor:
    """How far Adam or RMSprop moves each number of a parameter (n,) now for a mean gradient of 1; it must have made a
    step.
    """
    rates: Tensor = optimizer.param_groups[0]["lr"] / gradient_root(optimizer, parameter)
    return rates


def proximal_step(lam: Tensor, start: Tensor, curvature: Tensor, rates: Tensor) -> Tensor:
    """lambda (n,) after one step down half of curvature (n,) times its squared distance from start (n,).

    rates (n, n), positive semi-definite: a gradient g would move lambda by -rates g. The step is implicit: its gradient
    is the one where it ends, so no curvature is so large that it goes too far.
    """
    towards_start = torch.eye(len(lam), dtype=lam.dtype, device=lam.device) + rates * curvature
    # Unlike solve, it does not wait for a GPU; what is not finite is found at the end of the epoch.
    return start + torch.linalg.solve_ex(towards_start, lam - start)[0]
