"""The two updates that the algorithms with a hypernetwork are made of: of its parameters phi, and of lambda."""

import torch
import torch.nn.functional as F
from torch import Tensor

from hba.device_constants import device_constant
from hba.search.gradient_state import GradientState
from hba.search.problem import Problem
from hba.search.state import HyperState


@device_constant
def _temperatures(device: torch.device) -> Tensor:
    return torch.logspace(-1, 2, 121, device=device)


def update_phi(problem: Problem, state: HyperState, images: Tensor, labels: Tensor, lam: Tensor) -> None:
    """Equations 2 and 4: one SGD step on a batch (B, C, H, W) in which every image has its own lambda (B, n)."""
    state.hypernetwork.train()
    logits = state.hypernetwork(problem.augment(images, lam, state.generator), lam)
    loss = F.cross_entropy(logits, labels)
    state.weight_optimizer.zero_grad()
    loss.backward()
    state.weight_optimizer.step()
    state.weight_schedule.step()
    state.totals.add_training(loss.detach(), (logits.argmax(1) != labels).float().mean())


def update_lambda(problem: Problem, state: GradientState, images: Tensor, labels: Tensor) -> None:
    """Equation 3: one Adam step on lambda for a batch of validation images, not augmented.

    BatchNorm uses its running statistics, which validation images never change.
    """
    state.hypernetwork.eval()
    logits = state.hypernetwork(problem.preprocessing.measure(images), state.lam)
    if problem.config.calibrate:
        logits = logits / best_temperature(logits.detach(), labels)
    loss = F.cross_entropy(logits, labels)
    (state.lam.grad,) = torch.autograd.grad(loss, state.lam)
    state.lambda_optimizer.step()
    state.totals.add_lambda(loss.detach())


def best_temperature(logits: Tensor, labels: Tensor) -> Tensor:
    """The temperature in [0.1, 100] that minimises the cross entropy of logits / temperature; a scalar tensor.

    Tries a fixed logarithmic scale, 6 % from one to the next, so that nothing has to leave the device.
    """
    temperatures = _temperatures(logits.device)
    log_probabilities = (logits / temperatures[:, None, None]).log_softmax(dim=2)
    losses = -log_probabilities[:, torch.arange(len(labels), device=labels.device), labels].mean(dim=1)
    # Indexing by a scalar tensor would read it on the host.
    return temperatures.gather(0, losses.argmin(keepdim=True))[0]
