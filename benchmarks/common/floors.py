"""Floors: only the passes through the network that the steps of an algorithm cannot do
without.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from common.timing import StepClock
from hba.algorithms import LambdaSteps
from hba.algorithms.lambda_steps import val_batch_size_of
from hba.data import SearchData
from hba.data.loader import BatchStream
from hba.models import build_model
from hba.policy_search.config import SearchConfig
from hba.preprocessing import Preprocessing
from hba.training.optim import optimizer_for
from hba.utils.devices import find_device
from hba.utils.graphs import StepGraphs

Reached = Literal["weights", "images", "nothing"]


@dataclass(frozen=True)
class Floor:
    """The floor of one algorithm, in passes of the plain network, without augmentation
    and hyper-layers.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the search."""
    trainings: int = 1
    """Forward and backward passes of a training step."""
    forwards: int = 0
    """Further forward passes of a training step."""
    validates: Reached = "weights"
    """What the gradient of the validation loss in a lambda step has to reach: the
    weights; the input of each layer, where it goes through the weights to lambda; or
    nothing, if only the loss is computed.
    """
    rewards: int = 0
    """Forward passes of the training batch in a lambda step."""
    why: str = field(default="", compare=False)


FLOORS: Mapping[str, Floor] = MappingProxyType(
    {
        "lookahead": Floor(
            {"algorithm": "lookahead"},
            rewards=8,
            why=(
                "a training; then a gradient of half as many validation images, and two"
                " passes forward for each of four draws"
            ),
        ),
        "hba": Floor(
            {"algorithm": "hba"},
            validates="images",
            why="a training; then a validation gradient that reaches the first layer",
        ),
        "stn": Floor(
            {"algorithm": "stn", "warm_up_epochs": 0}, validates="images", why="as hba"
        ),
        "delta-stn": Floor(
            {"algorithm": "delta-stn", "warm_up_epochs": 0},
            trainings=2,
            forwards=2,
            validates="images",
            why=(
                "as hba, and for the response its derivative, of two passes forward,"
                " and a training"
            ),
        ),
    }
)
"""By algorithm. If the response is linearized, the change of the outputs takes a
forward pass through the weights and one through phi_U, besides the pass of the outputs;
gradients come only from the backward pass of the change.
"""


PLAIN = Floor(validates="nothing")
"""Plain training, with the forward passes of a search on validation batches."""


def streams_of(
    config: SearchConfig, data: SearchData
) -> tuple[BatchStream, BatchStream]:
    """Training and validation batches, with the batch sizes of the search."""
    algorithm = config.algorithm
    batch_size = config.batch_size
    validated = (
        val_batch_size_of(algorithm.val_batch_size, batch_size)
        if isinstance(algorithm, LambdaSteps)
        else batch_size
    )
    return BatchStream(data.train, batch_size, seed=0), BatchStream(
        data.val, validated, seed=0
    )


def bare_seconds_per_step(
    floor: Floor, config: SearchConfig, data: SearchData, measured: int
) -> float:
    """Seconds per step of the floor, on batches of the sizes of the search, with the
    optimizer; on a GPU as graphs.
    """
    device = find_device(config.device)
    updates = config.algorithm.update_schedule
    clock = StepClock(measured, updates.train_steps, device)
    clock.started(0, 0, 0, 0)
    for step, (train, validate) in enumerate(
        _bare_steps(floor, config, data.to(device), measured), start=1
    ):
        train()
        if step % updates.train_steps == 0:
            for _ in range(updates.in_a_row):
                validate()
        clock.step_done(step)
    return clock.seconds_per_step


Step = Callable[[], None]


def _bare_steps(
    floor: Floor, config: SearchConfig, data: SearchData, n_steps: int
) -> Iterator[tuple[Step, Step]]:
    """A training step, and the lambda step that may follow it."""
    preprocessing = Preprocessing.of(data.train, config.baseline_augmentation())
    network = build_model(
        config.model, len(data.class_names), 0, preprocessing.image_size
    ).to(data.train.device)
    train_stream, val_stream = streams_of(config, data)
    optimizer, schedule = optimizer_for(
        config, network.parameters(), train_stream.batches_per_pass
    )
    generator = torch.Generator(data.train.device)
    state = {
        "network": network,
        "optimizer": optimizer,
    }
    graphs = StepGraphs.of((network,), optimizer, generator, state, wanted=config.graph)

    def train(images: Tensor, labels: Tensor) -> None:
        network.train()
        for _ in range(floor.trainings):
            optimizer.zero_grad()
            F.cross_entropy(network(images), labels).backward()
        _forward(network, images, floor.forwards)
        optimizer.step()

    def validate(images: Tensor, val_images: Tensor, val_labels: Tensor) -> None:
        network.eval()
        _gradient(
            network, preprocessing.measure(val_images), val_labels, floor.validates
        )
        _forward(network, images, floor.rewards)

    for _ in range(n_steps):
        images, labels = train_stream.next()
        images = preprocessing.measure(images)

        def training_step(images: Tensor = images, labels: Tensor = labels) -> None:
            graphs.run("train", train, images, labels)
            schedule.step()

        def lambda_step(images: Tensor = images) -> None:
            graphs.run("validate", validate, images, *val_stream.next())

        yield training_step, lambda_step


def _gradient(
    network: nn.Module, images: Tensor, labels: Tensor, reached: Reached
) -> None:
    if reached == "nothing":
        _forward(network, images, 1)
        return
    inputs = (
        [images := images.detach().requires_grad_()]
        if reached == "images"
        else list(network.parameters())
    )
    torch.autograd.grad(F.cross_entropy(network(images), labels), inputs)


def _forward(network: nn.Module, images: Tensor, n_passes: int) -> None:
    with torch.no_grad():
        for _ in range(n_passes):
            network(images)
