"""The trainings of an evaluation, one after the other in this process."""

from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

from hba.data.load import EvaluationData
from hba.errors import DivergedError
from hba.policy_evaluation.contenders import Contender
from hba.training.checkpoint import TrainCheckpoint
from hba.training.measure import Measured
from hba.training.train import train
from hba.utils.devices import explained_memory_errors
from hba.utils.seeding import default_generators, derived_seed


class Training(NamedTuple):
    """One network to be trained."""

    contender: Contender
    seed: int


class Ended(NamedTuple):
    """What a training came to: on the test split, and on the augmented images of each epoch."""

    test: Measured
    epochs: tuple[Measured, ...]


SavesOf = Callable[[Training], TrainCheckpoint]
Finished = Generator[tuple[Training, Ended]]
"""Trainings and what each came to, in the order in which they end."""


def trained_and_measured(
    training: Training, data: EvaluationData, on_step: Callable[[], None], saves: TrainCheckpoint | None = None
) -> Ended:
    """Train and measure the test split. data is on its device. The caller's random numbers are left alone.

    saves: where the training is saved now and then, and goes on from. Raises DivergedError, which names the training,
    for a loss that is not finite.
    """
    contender, seed = training
    device = data.train.device
    seed_of_layers = derived_seed(seed, "default generators of an evaluation")
    with default_generators(device, seed_of_layers), explained_memory_errors():
        try:
            trained = train(
                contender.config,
                data,
                contender.augmentation(seed),
                seed,
                on_step,
                contender.own_network,
                contender.start,
                saves,
            )
            return Ended(trained.test, trained.epochs)
        except DivergedError as error:
            raise DivergedError(f"{contender.name}, seed {seed}: {error}") from None


def one_by_one(
    trainings: Sequence[Training], data: EvaluationData, on_step: Callable[[], None], saves_of: SavesOf
) -> Finished:
    """data is on its device. on_step: called after every step."""
    for training in trainings:
        yield training, trained_and_measured(training, data, on_step, saves_of(training))
