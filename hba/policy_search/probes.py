"""A diagnostic: what the last moves of lambda do to a training of a few steps.

A few times during a search (setting `probes`, as far as cost.py allows), its last moves of lambda are tried out. From
the weights that it has, a copy of the network is trained for a few steps at the lambda of the previous probe, another
at the lambda of now, on the same batches and with the same random numbers. The difference of their validation losses is
the change realized by the moves. Beside it stand the change that the hypergradients promised, and how much they agreed
with each other. All of this goes into the metrics and the provenance. No search is judged by it: searches whose
schedules help in whole trainings have probes that do not tell so.
"""

import contextlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from hba.algorithms.gradient_stats import PROBE_STEPS, short_training_rate
from hba.algorithms.lambda_steps import GradientState, LambdaSteps
from hba.algorithms.state import InnerModel
from hba.algorithms.task import ImageTask
from hba.config.training import SGD
from hba.data.images import Batch, Images
from hba.data.loader import as_floats
from hba.training.criterion import loss_of
from hba.training.optim import MOMENTUM
from hba.utils.seeding import default_generators, derived_seed, generator_for

VALIDATION_BATCH_SIZE = 500
SATURATED_LOGIT = 4.0
"""Beyond it, a hyperparameter is within 1.8 % of an end of its range."""
PROBED = ("predicted_change", "realized_change", "signal_to_noise", "saturated_percent")
"""What a probe adds to the metrics of its epoch; changes are of validation losses in nats."""


def is_probe_epoch(epoch: int, epochs: int, probes: int) -> bool:
    """Whether a probe follows epoch, counted from 1: `probes` of them, or one an epoch, evenly spread, the last at the
    end.
    """
    return epoch * probes // epochs > (epoch - 1) * probes // epochs


def probe(
    algorithm: LambdaSteps, task: ImageTask, state: GradientState[InnerModel], epoch: int
) -> dict[str, float | None]:
    """The metrics PROBED, for the moves since the last probe. None for what too few lambda steps cannot tell."""
    lam, moves = state.lam.detach(), state.mover.moves
    known = {
        "predicted_change": moves.predicted_change(lam),
        "signal_to_noise": moves.signal_to_noise(),
        "saturated_percent": 100 * (lam.abs() > SATURATED_LOGIT).float().mean(),
    }
    numbers = dict(zip(known, torch.stack(list(known.values())).tolist(), strict=True))
    n_steps = int(moves.count)
    if n_steps < 1:
        return {**dict.fromkeys(PROBED), "saturated_percent": numbers["saturated_percent"]}
    if n_steps < 2:
        numbers["signal_to_noise"] = None
    before, after = (loss_after_training(algorithm, task, state, at, epoch) for at in (moves.start, lam))
    return {**numbers, "realized_change": after - before}


def probes_of(metrics: Sequence[Mapping[str, float | None]]) -> list[dict[str, float | None]]:
    """The probes among the metrics of all epochs, for a provenance; empty where lambda never moved."""
    probed = [row for row in metrics if row["realized_change"] is not None]
    return [{name: _rounded(row[name]) for name in ("epoch", *PROBED)} for row in probed]


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")


def loss_after_training(
    algorithm: LambdaSteps, task: ImageTask, state: GradientState[InnerModel], lam: Tensor, epoch: int
) -> float:
    """Validation loss in nats of a copy of the network, trained for PROBE_STEPS at lam (n,).

    Everything drawn depends on the epoch alone, so two lam differ by themselves only. The search is left as it is.
    """
    config = task.config
    network = state.to_module().train()
    regularization = task.regularization
    rate = short_training_rate(task, state.learner)
    # As the search trains, which probes need to be by SGD.
    is_nesterov = config.optimizer == SGD
    optimizer = torch.optim.SGD(
        network.parameters(), rate, momentum=MOMENTUM, nesterov=is_nesterov, weight_decay=config.weight_decay
    )
    generator = generator_for(config.seed, f"probe after epoch {epoch}", state.device)
    values = task.space.decode(lam)
    regularization.give(network, optimizer, task.space.named(values))
    with default_generators(state.device, derived_seed(config.seed, f"probe after epoch {epoch}")):
        for images, labels in _batches(task.data.train, state.train_stream.batch_size, generator):
            inputs = task.augment(images, lam.expand(len(images), -1), generator)
            logits = network(inputs)
            optimizer.zero_grad()
            (loss_of(logits, labels) + regularization.penalty(logits, labels, values)).backward()
            optimizer.step()
    return _validation_loss(algorithm, task, network.eval())


@torch.no_grad()
def _validation_loss(algorithm: LambdaSteps, task: ImageTask, network: nn.Module) -> float:
    """Mean over batches of the loss that lambda steps see, calibrated where they are."""
    losses, n_images = [], 0
    with contextlib.closing(task.val.once(VALIDATION_BATCH_SIZE)) as batches:
        for images, labels in batches:
            logits = network(task.preprocessing.measure(as_floats(images)))
            losses.append(algorithm.loss(logits, labels) * len(labels))
            n_images += len(labels)
    return float(torch.stack(losses).sum()) / n_images


def _batches(data: Images, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
    """PROBE_STEPS random batches, in passes where there are fewer."""
    left = PROBE_STEPS
    while left:
        order = torch.randperm(len(data), generator=generator, device=data.device)
        with contextlib.closing(data.batches(order, batch_size, 0)) as batches:
            for images, labels in itertools.islice(batches, left):
                yield as_floats(images), labels
                left -= 1
