"""Policy evaluation: ordinary training of a network with an augmentation."""

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest

import torch
from torch import Tensor, nn

from hba.config.evaluation import EvaluationConfig
from hba.data.batches import BatchStream
from hba.data.labels import is_multi_label
from hba.data.load import EvaluationData
from hba.distributed import collectives
from hba.distributed.process_info import single_process, size
from hba.distributed.whole_batch import whole_batch_layers
from hba.errors import DivergedError, SettingsError
from hba.models import Start, build_model
from hba.preprocessing.preprocessing import Preprocessing, network_input_size
from hba.training.amp import check_passes, enable_amp, whole_passes
from hba.training.augmentation import Augment, Augmentation
from hba.training.checkpoint import TrainCheckpoint, TrainState
from hba.training.criterion import error_share, loss_of
from hba.training.custom_network import CustomNetwork
from hba.training.measure import Measured, measure
from hba.training.optim import optimizer_for
from hba.training.regularizing import EpochRegularization, is_regularizing
from hba.utils.seeding import derived_seed, generator_for


@dataclass(frozen=True)
class Trained:
    """A network after its last epoch, and what it does on the test split.

    epochs: what it did on the augmented images of each epoch, while it was trained on them; means over its batches.
    """

    network: nn.Module
    test: Measured
    epochs: tuple[Measured, ...] = ()


def train(
    config: EvaluationConfig,
    data: EvaluationData,
    augmentation: Augmentation,
    seed: int,
    on_step: Callable[[], None] = lambda: None,
    own_network: CustomNetwork | None = None,
    start: Start | None = None,
    saves: TrainCheckpoint | None = None,
) -> Trained:
    """Train and measure the test split once, after the last epoch (paper, section 4).

    data is on its device. Each training image goes through the augmentation, standardisation, the baseline
    augmentation and Cutout, in this order (paper, 4.2). The seed decides weights, batches and draws, but those from
    torch's default generators; a search of the same seed has others, so no network starts from the weights that its
    schedule was searched on. own_network: takes the place of the setting `model`; of a network that was given, all
    seeds start from the same weights. start: what the model begins with in the place of fresh weights. saves: where the
    training is saved now and then, and goes on from; what an augmentation keeps for itself is not in it. Raises
    DivergedError for a loss that is not finite.
    """
    device = data.train.device
    preprocessing = Preprocessing.of(data.train, config.baseline_augmentation(), config.colors_of_network())
    network = network_of(config, data, seed, own_network, start).to(device)
    if config.fast:
        size = network_input_size(data.train, config.baseline_augmentation())
        check_passes(enable_amp(network), (data.train.n_channels, size, size))
    saves = saves or TrainCheckpoint(None, "")
    with contextlib.closing(data.train), whole_batch_layers(), whole_passes():
        epochs = _train_all_epochs(network, preprocessing, config, data, augmentation, seed, on_step, saves)
    # One of several labels is not taken for another.
    n_classes = None if is_multi_label(data.train.labels) else len(data.class_names)
    test = measure(network, data.test, preprocessing.measure, n_classes)
    for split in (data.train, data.test):
        split.share_left_out()
    if not math.isfinite(test.loss):
        raise DivergedError(f"the loss after the last step is not finite; {_remedy(config)}")
    return Trained(network, test, epochs)


def network_of(
    config: EvaluationConfig,
    data: EvaluationData,
    seed: int,
    own_network: CustomNetwork | None = None,
    start: Start | None = None,
) -> nn.Module:
    """What the training with this seed begins with; own_network and start as in `train`."""
    weights_seed = derived_seed(seed, "weights of an evaluation")
    if own_network is not None:
        return own_network.fresh(seed, weights_seed)
    image_size = network_input_size(data.train, config.baseline_augmentation())
    return build_model(config.model, len(data.class_names), weights_seed, image_size, start, data.train.n_channels)


def _train_all_epochs(
    network: nn.Module,
    preprocessing: Preprocessing,
    config: EvaluationConfig,
    data: EvaluationData,
    augmentation: Augmentation,
    seed: int,
    on_step: Callable[[], None],
    saves: TrainCheckpoint,
) -> tuple[Measured, ...]:
    """Everything but the test split. Returns what each epoch came to."""
    device = data.train.device
    stream = BatchStream(data.train, config.batch_size, derived_seed(seed, "batches of an evaluation"))
    generator = generator_for(seed, "augmentation of an evaluation", device)
    optimizer, lr_schedule = optimizer_for(config, network.parameters(), stream.batches_per_pass)
    network.train()
    with single_process():
        augments = augmentation.by_epoch(config.epochs, data.train)
    if not getattr(augmentation, "shares_batches", False):
        augments = [partial(_of_whole_batch, augment) for augment in augments] if size() > 1 else augments
    regularized = augmentation.regularization_by_epoch(config.epochs, device) if is_regularizing(augmentation) else ()
    if len(augments) != config.epochs:
        raise SettingsError(
            f"{type(augmentation).__name__}.by_epoch must return one function for each of {config.epochs} epochs, got "
            f"{len(augments)}"
        )
    way = TrainState(network, optimizer, lr_schedule, stream, generator, torch.zeros(2, device=device))
    saves.restore(way)
    for _ in range(way.step):
        on_step()
    for epoch, (augment, regularize) in enumerate(zip_longest(augments, regularized)):
        if epoch < len(way.epochs):
            continue
        if regularize is not None:
            regularize.begin(network, optimizer)
        while way.step < (epoch + 1) * stream.batches_per_pass:
            _step(way, preprocessing, augment, regularize)
            on_step()
            saves.now_and_then(way)
        mean_loss, wrong = (collectives.mean(way.sums) / stream.batches_per_pass).tolist()
        if not math.isfinite(mean_loss):
            raise DivergedError(f"the loss of epoch {epoch + 1} is not finite; {_remedy(config)}")
        way.epochs.append([mean_loss, 100 * wrong])
        way.sums.zero_()
        saves.now_and_then(way)
    return tuple(Measured(loss, error_percent) for loss, error_percent in way.epochs)


def _step(
    way: TrainState, preprocessing: Preprocessing, augment: Augment, regularize: EpochRegularization | None
) -> None:
    images, labels = way.stream.next()
    augmented = augment(images, way.generator)
    if regularize is not None:
        augmented = regularize.pixels(augmented, way.generator)
    inputs = preprocessing.train(augmented, way.generator)
    if regularize is not None:
        inputs = regularize.inputs(inputs, way.generator)
    logits = way.network(inputs)
    loss = loss_of(logits, labels)
    objective = loss if regularize is None else loss + regularize.penalty(logits, labels)
    way.optimizer.zero_grad()
    objective.backward()
    collectives.average_gradients(way.network.parameters())
    way.optimizer.step()
    # Nobody reads them any more: the next pass has their memory.
    way.optimizer.zero_grad()
    way.lr_schedule.step()
    way.sums += torch.stack([loss.detach(), error_share(logits.detach(), labels).to(loss)])
    way.step += 1


def _of_whole_batch(augment: Augment, images: Tensor, generator: torch.Generator) -> Tensor:
    """What an augmentation that knows nothing of several processes makes of own images: it is given all."""
    whole = collectives.gathered(images)
    with single_process():
        augmented = augment(whole, generator)
    return collectives.own(augmented)


def _remedy(config: EvaluationConfig) -> str:
    return f"try a learning rate below {config.learning_rate:g}"
