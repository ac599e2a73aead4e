"""What STN and Delta-STN are held against: fixed values that are searched by whole trainings, for as long as asked.

Random search (Bergstra and Bengio 2012), TPE (Bergstra et al. 2011), which stands for the papers' Bayesian
optimisation, and ASHA (Li et al. 2020), which stops weak trainings early: those of Optuna. The grid has every
hyperparameter at the same place of its range, as one of many numbers would need too many trainings.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hba.errors import SettingsError
from hba.regularization.regularizer import Hyperparameter

if TYPE_CHECKING:
    import optuna

Values = tuple[float, ...]
"""One for each hyperparameter, in natural units."""

PLACES = (0.5, 0.25, 0.75, 0.125, 0.625, 0.375, 0.875, 0.0)
"""Of the grid, in ranges that go from 0 to 1; coarse ones come first, as time may be over."""
STARTS = 2
"""Random trials before TPE's own. Optuna's ten would leave it none where there is time for five."""
REDUCTION, RUNGS = 3, 2
"""Of ASHA: one of so many goes on, after a ninth and after a third of the epochs."""
TUNERS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "grid": {"places": list(PLACES)},
        "random": {},
        "tpe": {"starts": STARTS},
        "asha": {"reduction": REDUCTION, "rungs": RUNGS},
    }
)
"""By name, their settings as records keep them."""


class StoppedError(Exception):
    """Ends a trial: it was weak, or its time is over."""


class OutOfTimeError(StoppedError):
    """Its time is over."""


@dataclass(frozen=True)
class Trial:
    """A training with fixed values. loss: on validation images, None for one that was stopped. seconds: its own."""

    values: Values
    loss: float | None
    seconds: float


@dataclass
class Monitor:
    """What a training tells, and what ends it.

    rungs: epochs after which it tells its validation loss. is_weak: of an epoch and that loss. check is called after
    each step.
    """

    rungs: tuple[int, ...]
    is_weak: Callable[[int, float], bool]
    is_over: Callable[[], bool]

    def tell(self, epoch: int, loss: float) -> None:
        """Raises StoppedError for what is not worth more."""
        if self.is_weak(epoch, loss):
            raise StoppedError

    def check(self) -> None:
        """Raises OutOfTimeError."""
        if self.is_over():
            raise OutOfTimeError


Objective = Callable[[Values, Monitor], float]
"""Train with the values; the validation loss in the end."""


@dataclass(frozen=True)
class Tuning:
    """Trials in the order in which they began, and the least loss's; None where all were stopped."""

    trials: tuple[Trial, ...]
    best: int | None = field(default=None)


def tune(
    tuner: str,
    tuned: Sequence[Hyperparameter],
    objective: Objective,
    epochs: int,
    seconds: float,
    seed: int,
    clock: Callable[[], float] = time.process_time,
) -> Tuning:
    """As many trials as fit into so many seconds by the clock, the first in any case; what is not done by then does
    not count. epochs: of a training. Raises SettingsError for an unknown tuner, and without Optuna.
    """
    if tuner not in TUNERS:
        raise SettingsError(f"a tuner must be one of {', '.join(TUNERS)}, got {tuner!r}")
    began = clock()
    trials: list[Trial] = []
    for values, rungs, is_weak, done in _grid(tuned) if tuner == "grid" else _asked(tuner, tuned, epochs, seed):
        if trials and clock() - began >= seconds:
            break
        is_first, trial_began = not trials, clock()

        def is_over(is_first: bool = is_first) -> bool:
            return not is_first and clock() - began > seconds

        loss: float | None = None
        is_out = False
        try:
            loss = objective(values, Monitor(rungs, is_weak, is_over))
        except StoppedError as stopped:
            is_out = isinstance(stopped, OutOfTimeError)
        done(loss)
        trials.append(Trial(values, loss, clock() - trial_began))
        if is_out:
            break
    losses = {number: trial.loss for number, trial in enumerate(trials) if trial.loss is not None}
    return Tuning(tuple(trials), min(losses, key=losses.__getitem__) if losses else None)


_Asked = tuple[Values, tuple[int, ...], Callable[[int, float], bool], Callable[[float | None], None]]


def _grid(tuned: Sequence[Hyperparameter]) -> Iterator[_Asked]:
    for place in PLACES:
        yield tuple(value_at(one, place) for one in tuned), (), lambda epoch, loss: False, lambda loss: None


def value_at(one: Hyperparameter, place: float) -> float:
    """Of a place in [0, 1] of its range, on its scale; whole numbers are rounded."""
    if one.scale == "log":
        return float(one.low * (one.high / one.low) ** place)
    value = one.low + (one.high - one.low) * place
    return float(round(value)) if one.whole else value


def _asked(tuner: str, tuned: Sequence[Hyperparameter], epochs: int, seed: int) -> Iterator[_Asked]:
    """Trials of Optuna's without end."""
    try:
        import optuna
    except ImportError:
        raise SettingsError("baselines need Optuna; run: pip install -e '.[benchmarks]'") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    least = max(1, epochs // REDUCTION**RUNGS)
    rungs = tuple(least * REDUCTION**rung for rung in range(RUNGS)) if tuner == "asha" else ()
    sampler = (
        optuna.samplers.TPESampler(n_startup_trials=STARTS, seed=seed)
        if tuner == "tpe"
        else optuna.samplers.RandomSampler(seed=seed)
    )
    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=least, reduction_factor=REDUCTION)
    study = optuna.create_study(sampler=sampler, pruner=pruner if rungs else optuna.pruners.NopPruner())
    while True:
        trial = study.ask()

        def is_weak(epoch: int, loss: float, trial: "optuna.Trial" = trial) -> bool:
            trial.report(loss, epoch)
            return bool(trial.should_prune())

        def done(loss: float | None, trial: "optuna.Trial" = trial) -> None:
            if loss is None:
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            else:
                study.tell(trial, loss)

        yield tuple(_suggested(trial, one) for one in tuned), rungs, is_weak, done


def _suggested(trial: "optuna.Trial", one: Hyperparameter) -> float:
    if one.whole:
        return float(trial.suggest_int(one.name, round(one.low), round(one.high)))
    return float(trial.suggest_float(one.name, one.low, one.high, log=one.scale == "log"))
