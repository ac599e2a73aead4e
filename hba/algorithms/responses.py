"""Learning rules for the parameters phi of a hypernetwork, from the paper and from
Delta-STN (Bae and Grosse 2020).

    symbol        in the code                         meaning
    lambda_0      hypernetwork.center                 the current lambda of the search
    w_0           phi_0 and all weights that are      the current weights
                  shared
    Theta         hypernetwork.response_parameters()  phi_U and phi_V: the response to a
                                                      change of lambda
    lambda + eps  lam_rows (B, n)                     a lambda for each image of a batch

Each rule sets the gradients of phi, and returns the loss and the outputs of the batch
that the current weights learn from. The gradients include the penalty; the returned
loss does not.

Dropout inside the network uses the rates of lambda + eps, even when the weights are at
lambda_0 (Delta-STN, eq. 3.13). The penalty is never linearized: a weight decay has a
minimum in Theta only as a square.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor
from torch.autograd import forward_ad

from hba.algorithms.problem import Inputs
from hba.algorithms.rewards import forward_mode
from hba.hypernet import HyperNetwork
from hba.tasks import Outputs

Augment = Callable[[Inputs, Tensor], Inputs]
"""Maps inputs and a lambda for each (B, n) to the network's input."""
Loss = Callable[[Outputs, Tensor], Tensor]
"""Maps the network's output and labels to the mean loss."""
Penalty = Callable[[Outputs, Tensor, Tensor], Tensor]
"""Maps the network's output, labels, and a lambda for each image (B, n) to the penalty
on the loss.
"""


def map_outputs(function: Callable[[Tensor], Tensor], outputs: Outputs) -> Outputs:
    """Apply a function to each tensor of a network's outputs."""
    if isinstance(outputs, Tensor):
        return function(outputs)
    return type(outputs)(*map(function, outputs))


@dataclass(frozen=True)
class TrainingBatch:
    """Inputs with labels, and a lambda for each (B, n)."""

    hypernetwork: HyperNetwork
    augment: Augment
    loss_of: Loss
    inputs: Inputs
    labels: Tensor
    lam_rows: Tensor
    penalty: Penalty | None = None

    def penalized(self, loss: Tensor, logits: Outputs, lam_rows: Tensor) -> Tensor:
        return (
            loss
            if self.penalty is None
            else loss + self.penalty(logits, self.labels, lam_rows)
        )

    def learn(self, lam: Tensor, lam_rows: Tensor) -> tuple[Tensor, Outputs]:
        """Set the gradients of all of phi at lam, (n,) or one per input (B, n);
        lam_rows augments the inputs.
        """
        logits = self.hypernetwork(self.augment(self.inputs, lam_rows), lam)
        loss = self.loss_of(logits, self.labels)
        self.penalized(loss, logits, lam_rows).backward()
        return loss.detach(), map_outputs(torch.Tensor.detach, logits)

    def learn_current(self) -> tuple[Tensor, Outputs]:
        """Set the gradients of w_0; at the center, those of Theta are 0. With one
        lambda, each layer runs only once.
        """
        center = self.hypernetwork.center
        return self.learn(center, center.expand_as(self.lam_rows))

    def learn_response(self, logits: Outputs) -> None:
        """Set the gradients of Theta, from the logits at lambda_0 + eps."""
        loss = self.penalized(self.loss_of(logits, self.labels), logits, self.lam_rows)
        parameters = self.hypernetwork.response_parameters()
        # Layers that this pass skipped have no gradient.
        gradients = torch.autograd.grad(
            loss, parameters, allow_unused=True, materialize_grads=True
        )
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient


def joint(batch: TrainingBatch) -> tuple[Tensor, Outputs]:
    """The paper's eq. 2 and 4 (and Delta-STN's 2.5): all of phi from one loss, with a
    lambda for each image.
    """
    return batch.learn(batch.lam_rows, batch.lam_rows)


def separate(batch: TrainingBatch) -> tuple[Tensor, Outputs]:
    """Delta-STN's eq. 3.9 and 3.10: w_0 from the loss at lambda_0, Theta from the loss
    at lambda_0 + eps.
    """
    current = batch.learn_current()
    batch.learn_response(
        batch.hypernetwork(batch.augment(batch.inputs, batch.lam_rows), batch.lam_rows)
    )
    return current


def linearized(batch: TrainingBatch) -> tuple[Tensor, Outputs]:
    """Like `separate`, but Theta is learned in the network linearized at w_0
    (Delta-STN, eq. 3.11 to 3.13).

    The weights are affine in lambda, so J Theta eps is the derivative of the output
    along eps.
    """

    def first_order(output: Tensor) -> Tensor:
        value, change = forward_ad.unpack_dual(output)
        assert change is not None
        return value.detach() + change

    current = batch.learn_current()
    with (
        forward_mode("the linearized response", "the response separate"),
        forward_ad.dual_level(),
    ):
        outputs = batch.hypernetwork.first_order(
            batch.augment(batch.inputs, batch.lam_rows), batch.lam_rows
        )
        moved = map_outputs(first_order, outputs)
    batch.learn_response(moved)
    return current


RESPONSES = MappingProxyType(
    {"affine": joint, "centered": joint, "separate": separate, "linearized": linearized}
)
"""By name; the first is the paper's. In all others, the center of the hypernetwork
follows lambda.
"""
APART = ("separate", "linearized")
"""Responses with a separate loss for w_0, without the response."""
