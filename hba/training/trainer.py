"""Ordinary training of a network with an augmentation, as in the evaluation of a
policy.
"""

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from hba.config.evaluation import EvaluationConfig
from hba.data.images import EvaluationData, Images
from hba.data.loader import BatchStream
from hba.errors import DivergedError, SettingsError
from hba.models import Start, build_model
from hba.preprocessing import Preprocessing, network_input_size
from hba.regularization.groups import Regularization
from hba.schedule.mixing import Mixing
from hba.tasks import MixedLabels, task_of
from hba.training.amp import amp_forward, enable_amp
from hba.training.augmentation import (
    Augment,
    Augmentation,
    EpochPolicy,
    EpochRegularization,
    ScheduleAugmentation,
)
from hba.training.checkpoint import TrainCheckpoint, TrainState
from hba.training.custom_network import CustomNetwork
from hba.training.metrics import Measured, measure
from hba.training.mixing import mix
from hba.training.optim import optimizer_for
from hba.utils.graphs import StepCounts, StepGraphs
from hba.utils.seeding import derived_seed, generator_for


class Trained(NamedTuple):
    """A network after the last epoch."""

    network: nn.Module
    test: Measured
    """Its errors on the test split."""
    epochs: tuple[Measured, ...] = ()
    """Mean loss and error of each epoch on augmented images."""
    steps: StepCounts | None = None
    """How the steps ran, on a GPU."""


def train(
    config: EvaluationConfig,
    data: EvaluationData,
    augmentation: Augmentation,
    seed: int,
    on_step: Callable[[], None] = lambda: None,
    own_network: CustomNetwork | None = None,
    start: Start | None = None,
    checkpoint: TrainCheckpoint | None = None,
) -> Trained:
    """Train a network, and measure it on the test split once, after the last epoch.

    Ref: paper, section 4. Each training image goes through the augmentation,
    standardization, the baseline augmentation and Cutout, in this order (paper, 4.2);
    then each batch is mixed, if the augmentation has a mixing.

    The seed decides weights, batches and draws, except draws from torch's default
    generators. A search with the same seed uses other streams, so no network starts
    from the weights of the search.

    Args:
        config: Of the training.
        data: On its device.
        augmentation: Of the training images.
        seed: Decides the training.
        on_step: Called after every step.
        own_network: Replaces the setting `model`; if it is a network, all seeds start
            from its weights.
        start: Pretrained weights of the model.
        checkpoint: Where the training is saved and resumed, without the augmentation's
            own state.

    Raises:
        DivergedError: For a loss that is not finite.
    """
    device = data.train.device
    preprocessing = Preprocessing.of(
        data.train, config.baseline_augmentation(), config.colors_of_network()
    )
    network = network_of(config, data, seed, own_network, start).to(device)
    if config.fast:
        enable_amp(network)
    forward = partial(amp_forward, network) if config.fast else network
    checkpoint = checkpoint or TrainCheckpoint()
    stream = BatchStream(
        data.train,
        config.batch_size,
        derived_seed(seed, "batches of an evaluation"),
    )
    generator = generator_for(seed, "augmentation of an evaluation", device)
    optimizer, lr_schedule = optimizer_for(
        config, network.parameters(), stream.batches_per_pass
    )
    network.train()
    if isinstance(augmentation, ScheduleAugmentation):
        augmentation = augmentation.for_classes(data.class_names)
    by_epoch = _plan_epochs(augmentation, config.epochs, data.train)
    state = TrainState(
        network,
        optimizer,
        lr_schedule,
        stream,
        generator,
        torch.zeros(2, device=device),
    )
    schedule = (
        augmentation.schedule
        if isinstance(augmentation, ScheduleAugmentation)
        else None
    )
    functions = () if schedule is None else schedule.space.functions
    parts = network, *functions, *(augment for augment, _, _ in by_epoch)
    graphs = StepGraphs.of(
        parts,
        optimizer,
        generator,
        state,
        wanted=config.graph,
    )
    checkpoint.restore(state)
    for _ in range(state.step):
        on_step()
    for augment, regularize, mixing in by_epoch[len(state.epochs) :]:
        regularize.acts.give(network, optimizer, regularize.row)
        policy = EpochPolicy.of(augment)
        acts = regularize.acts
        if (
            acts.dropout_columns
            or acts.weight_decay_column is not None
            or policy is not augment
        ):
            # Graphs contain both as numbers, and the function of an earlier epoch.
            graphs.clear()
        shares = () if mixing is None else dataclasses.astuple(mixing)
        mixes = torch.tensor(shares, dtype=torch.float64, device=generator.device)
        step = partial(
            _step, state, forward, preprocessing, policy.apply, regularize.acts
        )
        while state.step < (len(state.epochs) + 1) * stream.batches_per_pass:
            graphs.run(
                policy.apply,
                step,
                *stream.next(),
                regularize.values,
                mixes,
                *policy.tensors,
            )
            lr_schedule.step()
            state.step += 1
            on_step()
            checkpoint.save_regularly(state)
        mean_loss, wrong = (state.sums / stream.batches_per_pass).tolist()
        _check_finite(mean_loss, f"of epoch {len(state.epochs) + 1}", config)
        state.epochs.append([mean_loss, 100 * wrong])
        state.sums.zero_()
        checkpoint.save_regularly(state)
    has_confusion = task_of(data.train.labels).has_one_answer
    n_classes = len(data.class_names) if has_confusion else None
    # An eager pass cannot use the memory of graphs.
    graphs.clear()
    test = measure(network, data.test.opened(), preprocessing.measure, n_classes)
    _check_finite(test.loss, "after the last step", config)
    epochs = tuple(
        Measured(loss, error_percent) for loss, error_percent in state.epochs
    )
    return Trained(network, test, epochs, graphs.counts)


def network_of(
    config: EvaluationConfig,
    data: EvaluationData,
    seed: int,
    own_network: CustomNetwork | None,
    start: Start | None,
) -> nn.Module:
    """The network that the training with this seed starts from.

    Args:
        config: Of the training.
        data: Of the training.
        seed: Of the training.
        own_network: As in `train`.
        start: As in `train`.
    """
    weights_seed = derived_seed(seed, "weights of an evaluation")
    if own_network is not None:
        return own_network.fresh(seed, weights_seed)
    image_size = network_input_size(data.train, config.baseline_augmentation())
    return build_model(
        config.model,
        len(data.class_names),
        weights_seed,
        image_size,
        start,
        data.train.n_channels,
    )


def _plan_epochs(
    augmentation: Augmentation, epochs: int, train: Images
) -> list[tuple[Augment, EpochRegularization, Mixing | None]]:
    augments = augmentation.by_epoch(epochs, train)
    if len(augments) != epochs:
        raise SettingsError(
            f"{type(augmentation).__name__}.by_epoch must return {epochs} functions,"
            " one per epoch"
        )
    regularization_by_epoch = getattr(
        augmentation, "regularization_by_epoch", lambda epochs, device: ()
    )
    nothing = EpochRegularization(
        Regularization((), 0), {}, torch.zeros(0, device=train.device)
    )
    regularization = regularization_by_epoch(epochs, train.device) or [nothing] * epochs
    mixing = (
        getattr(augmentation, "mixing_by_epoch", lambda epochs: ())(epochs)
        or [None] * epochs
    )
    if len(mixing) != epochs:
        raise SettingsError(
            f"{type(augmentation).__name__}.mixing_by_epoch must return {epochs}"
            " Mixing, one per epoch"
        )
    return [*zip(augments, regularization, mixing, strict=True)]


def _step(
    state: TrainState,
    forward: Callable[[Tensor], Tensor],
    preprocessing: Preprocessing,
    apply: Callable[..., tuple[Tensor, Any]],
    acts: Regularization,
    images: Tensor,
    labels: Tensor,
    values: Tensor,
    mixing: Tensor,
    *policy_tensors: Tensor,
) -> None:
    """Make one training step.

    Args:
        mixing: The fields of a Mixing (4,), or (0,).
        policy_tensors: First arguments of `apply`.
    """
    augmented, labels = apply(*policy_tensors, images, labels, state.generator)
    inputs = acts.on_inputs(
        preprocessing.train(augmented, state.generator), values, state.generator
    )
    targets: Tensor | MixedLabels = labels
    if len(mixing):
        inputs, targets = mix(inputs, labels, Mixing(*mixing), state.generator)
    logits = forward(inputs)
    task = task_of(targets)
    loss = task.loss(logits, targets)
    objective = loss + acts.penalty(logits, targets, values)
    state.optimizer.zero_grad()
    objective.backward()
    state.optimizer.step()
    # Frees the memory of the gradients for the next pass.
    state.optimizer.zero_grad()
    error = task.error_share(logits.detach(), targets)
    state.sums += torch.stack([loss.detach(), error.to(loss)])


def _check_finite(loss: float, when: str, config: EvaluationConfig) -> None:
    if not math.isfinite(loss):
        raise DivergedError(
            f"the loss {when} is not finite; try a learning rate below"
            f" {config.learning_rate:g}"
        )
