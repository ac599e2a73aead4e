"""How the parameters phi of a hypernetwork are learned: the paper's way, and those of Delta-STN (Bae and Grosse 2020).

    symbol          in the code                           meaning
    lambda_0        hypernetwork.center                   where the search stands
    w_0             phi_0 and all weights that are shared the current weights
    Theta           hypernetwork.response_parameters()    phi_U and phi_V: the response to a change of lambda
    lambda + eps    lam_rows (B, n)                       a lambda for each image of a batch

All set the gradients of phi, and return loss and outputs of the batch that the current weights learn from. A penalty is
in what is learned from, not in the loss that is returned.

Dropout inside the network draws by the rates of lambda + eps, also where the weights stand at lambda_0 (Delta-STN, eq.
3.13). A penalty is never linearized: of a weight decay, only the square has a minimum in Theta.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from hba.algorithms.derivatives import forward_mode
from hba.hypernet import HyperNetwork

Augment = Callable[[Tensor, Tensor], Tensor]
"""Images (B, C, H, W) and a lambda for each (B, n) to the network's input."""
Loss = Callable[[Tensor, Tensor], Tensor]
"""The network's output and labels to their mean loss."""
Penalty = Callable[[Tensor, Tensor, Tensor], Tensor]
"""The network's output, labels, and a lambda for each image (B, n), to what the loss grows by."""
Gradients = Callable[..., tuple[Tensor, Tensor]]
"""Of phi, from (hypernetwork, augment, loss_of, images, labels, lam_rows) and the penalty, if there is one."""


@dataclass(frozen=True)
class Response:
    """gradients: of phi, by backward. centered: the center of the hypernetwork goes with lambda. apart: w_0 learns from
    a loss of its own, in which the response has no part.
    """

    gradients: Gradients
    centered: bool
    apart: bool


def nothing(outputs: Tensor, labels: Tensor, lam_rows: Tensor) -> Tensor:
    """The penalty of a search without any."""
    return lam_rows.new_zeros(())


def joint(
    hypernetwork: HyperNetwork,
    augment: Augment,
    loss_of: Loss,
    images: Tensor,
    labels: Tensor,
    lam_rows: Tensor,
    penalty: Penalty = nothing,
) -> tuple[Tensor, Tensor]:
    """The paper's eq. 2 and 4 (and Delta-STN's 2.5): all of phi from one loss, every image at its own lambda."""
    return _learn(lam_rows, hypernetwork, augment, loss_of, images, labels, lam_rows, penalty)


def separate(
    hypernetwork: HyperNetwork,
    augment: Augment,
    loss_of: Loss,
    images: Tensor,
    labels: Tensor,
    lam_rows: Tensor,
    penalty: Penalty = nothing,
) -> tuple[Tensor, Tensor]:
    """Delta-STN's eq. 3.9 and 3.10: w_0 from the loss at lambda_0, Theta from the loss at lambda_0 + eps."""
    current = _learn_current(hypernetwork, augment, loss_of, images, labels, lam_rows, penalty)
    perturbed = hypernetwork(augment(images, lam_rows), lam_rows)
    _learn_response(hypernetwork, loss_of(perturbed, labels) + penalty(perturbed, labels, lam_rows))
    return current


def linearized(
    hypernetwork: HyperNetwork,
    augment: Augment,
    loss_of: Loss,
    images: Tensor,
    labels: Tensor,
    lam_rows: Tensor,
    penalty: Penalty = nothing,
) -> tuple[Tensor, Tensor]:
    """As `separate`, but Theta is learned in the network linearized at w_0 (Delta-STN, eq. 3.11 to 3.13).

    The weights are affine in lambda, so J Theta eps is the derivative of the output along eps.
    """
    current = _learn_current(hypernetwork, augment, loss_of, images, labels, lam_rows, penalty)
    with forward_mode("the linearized response", "the response separate"), forward_ad.dual_level():
        moved = in_each(_first_order, hypernetwork.first_order(augment(images, lam_rows), lam_rows))
    _learn_response(hypernetwork, loss_of(moved, labels) + penalty(moved, labels, lam_rows))
    return current


def in_each(function: Callable[[Tensor], Tensor], outputs: Any) -> Any:
    """A function of one tensor, of what a network returns: a tensor, or a named tuple of them."""
    return function(outputs) if isinstance(outputs, Tensor) else type(outputs)(*map(function, outputs))


def _first_order(output: Tensor) -> Tensor:
    """The output at the center and its change along eps, of a dual number."""
    value, change = forward_ad.unpack_dual(output)
    assert change is not None
    return value.detach() + change


def _learn_current(
    hypernetwork: HyperNetwork,
    augment: Augment,
    loss_of: Loss,
    images: Tensor,
    labels: Tensor,
    lam_rows: Tensor,
    penalty: Penalty,
) -> tuple[Tensor, Tensor]:
    """Gradients of w_0; those of Theta are zero, because its argument is. One lambda for all images runs each layer
    once.
    """
    center = hypernetwork.center
    return _learn(center, hypernetwork, augment, loss_of, images, labels, center.expand_as(lam_rows), penalty)


def _learn(
    lam: Tensor,
    hypernetwork: HyperNetwork,
    augment: Augment,
    loss_of: Loss,
    images: Tensor,
    labels: Tensor,
    lam_rows: Tensor,
    penalty: Penalty,
) -> tuple[Tensor, Tensor]:
    """Gradients of all of phi at lam: that of each image, or the one of all, (n,)."""
    logits = hypernetwork(augment(images, lam_rows), lam)
    loss = loss_of(logits, labels)
    (loss + penalty(logits, labels, lam_rows)).backward()
    return loss.detach(), in_each(torch.Tensor.detach, logits)


def _learn_response(hypernetwork: HyperNetwork, loss: Tensor) -> None:
    parameters = hypernetwork.response_parameters()
    # A layer that this pass did not come by has no gradient.
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient


RESPONSES: Mapping[str, Response] = MappingProxyType(
    {
        "affine": Response(joint, centered=False, apart=False),
        "centered": Response(joint, centered=True, apart=False),
        "separate": Response(separate, centered=True, apart=True),
        "linearized": Response(linearized, centered=True, apart=True),
    }
)
"""The paper's response first."""
