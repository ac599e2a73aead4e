"""How long runs will take, from a few steps of each that are measured now."""

from dataclasses import dataclass

from hba.errors import HbaError
from reproduction.execute import ROUNDS, STEPS_PER_ROUND, Bench
from reproduction.runs import Run, Search, Timing, Training
from reproduction.timing import search_seconds_per_step, training_seconds_per_step

STEPS = 8


@dataclass(frozen=True)
class Estimate:
    """seconds: of one seed's run, None where it cannot run; problem says why. Measuring on whole splits not counted."""

    run: Run
    n_seeds: int
    seconds: float | None
    problem: str = ""


def estimates(bench: Bench, runs: list[tuple[Run, int]]) -> list[Estimate]:
    """One for each kind of run."""
    seeds: dict[Run, int] = {}
    for run, _ in runs:
        seeds[run] = seeds.get(run, 0) + 1
    found = []
    for run, n_seeds in seeds.items():
        try:
            found.append(Estimate(run, n_seeds, _seconds(bench, run)))
        except HbaError as error:
            found.append(Estimate(run, n_seeds, None, str(error)))
    return found


def _seconds(bench: Bench, run: Run) -> float:
    if isinstance(run, Search):
        return _search_seconds(bench, run)
    if isinstance(run, Training):
        config = bench.training_config(run)
        data = bench.images.of_training(config, bench.ablation_sizes(run))
        n_images = len(data.train)
        steps = config.epochs * (n_images // min(config.batch_size, n_images))
        return steps * training_seconds_per_step(config, data, STEPS)
    return _timing_seconds(bench, run)


def _search_seconds(bench: Bench, run: Search, n_steps: int | None = None) -> float:
    config = bench.search_config(run, 0)
    data = bench.images.of_search(config, bench.ablation_sizes(run))
    n_images = len(data.train)
    steps = n_steps or config.epochs * (n_images // min(config.batch_size, n_images))
    return steps * search_seconds_per_step(config, data, STEPS)


def _timing_seconds(bench: Bench, run: Timing) -> float:
    n_steps = ROUNDS * STEPS_PER_ROUND
    return sum(_search_seconds(bench, search, n_steps) for search in run.searches) * (2 if run.floor else 1)
