"""Hypernetwork-Based Augmentation: Algorithm 2 of the paper.

symbol              in the code                     meaning
phi                 state.hypernetwork              parameters of the hypernetwork
lambda              state.lam                       hyperparameters as logits, shape (n,)
D_T, D_V            state.train_stream, val_stream  batches of training and of validation images
A                   problem.augment                 the augmentation policy
F(x; theta(lambda)) state.hypernetwork(x, lam)      the network with the weights that belong to lambda
alpha, alpha'       learning rates in the optimizers of the state
T_train, T_val      config.train_steps, val_steps
sigma               config.sigma
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from hba.config import SearchConfig
from hba.data.baseline import Baseline, augment
from hba.data.batches import Standardize
from hba.policy import apply_operations, draw_operations
from hba.search.state import SearchState
from hba.space import SearchSpace

TEMPERATURES = torch.logspace(-1, 2, 121)


@dataclass(frozen=True)
class Problem:
    """What stays the same during a search. fill (C,): the mean colour of the training images."""

    config: SearchConfig
    space: SearchSpace
    standardize: Standardize
    baseline: Baseline
    fill: Tensor

    def augment(self, images: Tensor, lam: Tensor, generator: torch.Generator) -> Tensor:
        """Policy, standardisation, baseline, Cutout (paper, 4.2): images (B, C, H, W), a lambda for each (B, n)."""
        draw = draw_operations(self.space, self.space.decode(lam), len(images), generator)
        augmented = apply_operations(self.space, draw, images, self.fill)
        return augment(self.standardize(augmented), self.baseline, generator)


def search_step(problem: Problem, state: SearchState) -> None:
    """One training step; after each T_train of them, T_val lambda steps (Algorithm 2, lines 4 to 12)."""
    update_phi(problem, state)
    state.step += 1
    if state.step % problem.config.train_steps == 0:
        for _ in range(problem.config.val_steps):
            update_lambda(problem, state)


def update_phi(problem: Problem, state: SearchState) -> None:
    """Lines 5 to 7, equation 4: one SGD step on a batch in which every image has its own lambda."""
    state.hypernetwork.train()
    images, labels = state.train_stream.next()
    noise = torch.randn(len(images), len(state.lam), generator=state.generator, device=images.device)
    lam = state.lam.detach() + problem.config.sigma * noise
    logits = state.hypernetwork(problem.augment(images, lam, state.generator), lam)
    loss = F.cross_entropy(logits, labels)
    state.weight_optimizer.zero_grad()
    loss.backward()
    state.weight_optimizer.step()
    state.weight_schedule.step()
    state.totals.add_training(loss.detach(), (logits.argmax(1) != labels).float().mean())


def update_lambda(problem: Problem, state: SearchState) -> None:
    """Lines 10 and 11, equation 3: one Adam step on lambda for a batch of validation images, not augmented.

    BatchNorm uses its running statistics, which validation images never change.
    """
    state.hypernetwork.eval()
    images, labels = state.val_stream.next()
    logits = state.hypernetwork(problem.standardize(images), state.lam)
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
    temperatures = TEMPERATURES.to(logits)
    log_probabilities = (logits / temperatures[:, None, None]).log_softmax(dim=2)
    losses = -log_probabilities[:, torch.arange(len(labels), device=labels.device), labels].mean(dim=1)
    # Indexing by a scalar tensor would read it on the host.
    return temperatures.gather(0, losses.argmin(keepdim=True))[0]
