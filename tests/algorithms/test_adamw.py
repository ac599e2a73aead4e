"""What a search by AdamW goes by: rewards beside PyTorch's own steps, and which algorithms refuse it."""

import copy
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from search_problems import seeded
from torch import Tensor
from torch.optim import AdamW
from torch.optim.lr_scheduler import ConstantLR

from hba.algorithms import Lookahead
from hba.algorithms.scores import AugmentedBatch
from hba.algorithms.state import NetworkModel
from hba.models import build_model
from hba.policy.draw import SampleTrace

BETAS = (0.9, 0.999)
N_IMAGES, N_STEPS = 6, 4


def learner_after_some_steps(images: Tensor, labels: Tensor) -> NetworkModel:
    """In double precision, so that small changes of a loss can be told."""
    network = build_model("wrn-10-1", 2, seed=0).double()
    optimizer = AdamW(network.parameters(), lr=1e-3, weight_decay=0.0)
    learner = NetworkModel(network=network, optimizer=optimizer, schedule=ConstantLR(optimizer, 1.0))
    for _ in range(N_STEPS):
        learner.learn(images, labels)
    network.eval()
    return learner


def after_a_step(learner: NetworkModel, gradients: Sequence[Tensor]) -> list[Tensor]:
    """The weights after a step of PyTorch's AdamW along these gradients, from the learner's state, at a rate of 1."""
    network = copy.deepcopy(learner.network)
    optimizer = AdamW(network.parameters())
    optimizer.load_state_dict(copy.deepcopy(learner.optimizer.state_dict()))
    optimizer.param_groups[0]["lr"] = 1.0
    for parameter, gradient in zip(network.parameters(), gradients, strict=True):
        parameter.grad = gradient
    optimizer.step()
    return [parameter.detach() for parameter in network.parameters()]


def test_a_reward_is_what_the_image_adds_to_a_step_of_adamw_along_the_validation_gradient() -> None:
    images = torch.randn(26, 3, 8, 8, generator=seeded(0)).double()
    labels = torch.arange(26) % 2
    learner = learner_after_some_steps(images[6:16], labels[6:16])
    weights = list(learner.network.parameters())
    loss = F.cross_entropy(learner.network(images[16:]), labels[16:])
    validation = torch.autograd.grad(loss, weights, retain_graph=True)
    nothing = torch.zeros(N_IMAGES, 0)
    trial = AugmentedBatch(
        images[:6], labels[:6], SampleTrace(nothing.bool(), nothing.bool(), nothing), nothing, nothing, 1.0
    )
    rewards = Lookahead().rewards(learner, trial, loss)
    without, small, changes = after_a_step(learner, [torch.zeros_like(one) for one in weights]), 1e-7, []
    for image in range(N_IMAGES):
        own = F.cross_entropy(learner.network(trial.images[image : image + 1]), trial.labels[image : image + 1])
        moved = after_a_step(learner, [small * one for one in torch.autograd.grad(own, weights)])
        along = [(v * (one - other)).sum() for v, one, other in zip(validation, moved, without, strict=True)]
        changes.append(torch.stack(along).sum() / small)
    # A gradient of nearly nothing shrinks all mean squares alike; what Adam's corrections make of that is one number.
    steps = N_STEPS + 1
    root = (BETAS[1] * (1 - BETAS[1] ** N_STEPS) / (1 - BETAS[1] ** steps)) ** 0.5
    factor = (1 - BETAS[0]) / (1 - BETAS[0] ** steps) / root
    torch.testing.assert_close(torch.stack(changes), -factor * rewards, rtol=5e-3, atol=1e-6)
