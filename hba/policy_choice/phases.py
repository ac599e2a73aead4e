"""The phases of a run of `hba auto`: search, contest, test. Each can stop, and resume
at the same point.
"""

import contextlib
import math
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hba.algorithms.race_findings import RaceFindings
from hba.config.evaluation import OF_WEIGHTS, EvaluationConfig
from hba.data.config import DataConfig
from hba.data.images import EvaluationData, LabelledImages
from hba.data.load import (
    READ_SETTINGS,
    AnyDataset,
    find_source,
    load_evaluation_data,
    load_search_data,
)
from hba.errors import DataError, DivergedError, HbaError, RunError
from hba.executors.executor import SerialExecutor
from hba.executors.ray_executor import connected, executor_for
from hba.policy_choice import networks
from hba.policy_choice.callbacks import (
    AutoCallback,
    EvaluationSteps,
    Phases,
    SearchSteps,
    TimeOver,
)
from hba.policy_choice.contest import (
    DIGITS,
    FIRST_SEED,
    N_FOLDS,
    Contest,
    Entry,
    Outcome,
    contest_data,
    train_seed,
)
from hba.policy_choice.linear import FrozenFeatures, tested
from hba.policy_choice.plan import (
    CONTEST_SHARE,
    ROWS_OF_TEST,
    SECONDS_OF_PHASE,
    Extent,
    counts_of,
    seconds_for_onnx,
)
from hba.policy_choice.record import (
    CONTEST,
    NETWORK,
    PHASES,
    SEARCH,
    TEST,
    AutoRecord,
    Candidate,
)
from hba.policy_choice.rows import ALWAYS, FOUND, RANDAUGMENT, rows_of_contest
from hba.policy_evaluation.baselines import NONE, row_configs
from hba.policy_evaluation.evaluation import evaluate
from hba.policy_search.config import SearchConfig, flattened, from_config
from hba.policy_search.search import custom_components, search
from hba.policy_search.timing import (
    FEWEST_EPOCHS,
    Pace,
    TooSlow,
    fewer_epochs,
    is_late,
    rounds,
    share_that_fits,
)
from hba.policy_search.trainer import SAVE_EVERY_SECONDS
from hba.policy_search.training_size import MOST_EPOCHS, MOST_FINE_TUNING
from hba.results.evaluation import RESULTS_NAME, EvaluationResult, read_results
from hba.results.run import CONFIG_NAME, SEARCH_FOLDER, TEST_FOLDER
from hba.schedule.library import POLICY_NAME
from hba.schedule.recipes import RECIPES
from hba.schedule.schedule import Schedule
from hba.training.checkpoint import TRAININGS_NAME, TrainCheckpoint
from hba.training.custom_network import CustomNetwork
from hba.utils.devices import find_device
from hba.utils.settings import words
from hba.utils.text import counted, duration

LARGEST_CHANGE = 1.2
"""Epochs change if the time of the trainings of networks allows that many times as
many, or as few.
"""
CONTEST_NAME, CONTEST_FOLDER = "contest.json", "contest"
"""File with the results of the contest, and folder of its trainings in progress."""
LEAST_TEST_SEEDS = 2
MOST_TEST_SEEDS = 10
LARGEST_SEARCH = 0.5
"""Largest share of the time up to the end of a search."""
RESERVE = 0.96
"""Share of the time to plan with during a run; the rest is for the report."""
LINEAR_SHARE = 0.04
"""Largest share of the time for linear layers on frozen features."""
SHORTEST_TEST = 0.5
"""Share of the epochs in the contest below which a test is not shortened so that the
contest may try all its rows.
"""


class AutoRun:
    """A run in its folder. own: the user's network and search space, as hba.search
    takes them. datasets: (train, test) in memory; None for images in files.
    """

    def __init__(
        self,
        folder: Path,
        record: AutoRecord,
        callback: AutoCallback,
        own: Mapping[str, Any],
        cluster: str | None,
        datasets: tuple[AnyDataset, AnyDataset] | None = None,
    ) -> None:
        self.folder = folder
        self.record = record
        self.callback = callback
        self.own = own
        self.cluster = cluster
        self.datasets = datasets
        self._images = dict[Any, tuple[EvaluationData, Sequence[Tensor | None]]]()
        self._began = time.monotonic()
        self._spent = record.spent
        self._lock = threading.Lock()
        trainings = self.extent.trainings(record.n_jobs)
        self.phases = Phases(
            callback,
            {name: n * record.training_seconds for name, n in trainings.items()},
        )

    @property
    def extent(self) -> Extent:
        values: Any = self.record.extent
        return Extent(*values)

    @property
    def seconds_left(self) -> float:
        """Seconds until the files of the run have to be written."""
        budget = self.record.budget_seconds
        return (
            RESERVE * budget
            - seconds_for_onnx(budget)
            - self._spent
            - (time.monotonic() - self._began)
        )

    @property
    def seconds_for_trainings(self) -> float:
        """seconds_left without the time in which the linear layer is tested."""
        best = self.record.best_linear
        is_untested = best is not None and best.test_percent is None
        return self.seconds_left - (
            best.seconds if best is not None and is_untested else 0.0
        )

    def note(self, **changes: Any) -> None:
        """Change the record, and save it."""
        with self._lock:
            spent = self._spent + time.monotonic() - self._began
            self.record = self.record.model_copy(
                update={**changes, "spent": round(spent, 1)}
            )
            self.record.save(self.folder)

    def save_time(self, is_over: threading.Event) -> None:
        """Save the spent time every few seconds until the event, in case of a kill."""
        while not is_over.wait(SAVE_EVERY_SECONDS):
            with contextlib.suppress(RunError):
                self.note()

    def run(self) -> None:
        """Run all phases that have not ended. Ctrl-C ends the current phase, and the
        next one starts. After an error in the test, such as for changed images, the
        answer is from validation images.
        """
        for name in PHASES:
            if name in self.record.ended:
                continue
            phase = {
                NETWORK: self.choose_network,
                SEARCH: self.search,
                CONTEST: self.contest,
                TEST: self.test,
            }[name]
            stopped = tuple(phase for phase in self.record.stopped if phase != name)
            # An earlier stop of this phase is over.
            of_stop = f"The {name} was stopped "
            notes = tuple(
                note for note in self.record.notes if not note.startswith(of_stop)
            )
            self.note(stopped=stopped, notes=notes)
            try:
                self.check_images()
                phase()
                self.note(ended=(*self.record.ended, name))
            except (KeyboardInterrupt, HbaError) as error:
                if isinstance(error, HbaError) and name != TEST:
                    raise
                why = (
                    "by Ctrl-C"
                    if isinstance(error, KeyboardInterrupt)
                    else f"by an error: {error}"
                )
                line = f"{of_stop}{why}; the answer uses the results so far"
                self.callback.said(line)
                # Later phases use the results of the others; only a test can continue.
                ended = (
                    self.record.ended if name == TEST else (*self.record.ended, name)
                )
                # On a full disk, the answer is still given.
                with contextlib.suppress(RunError):
                    self.note(
                        ended=ended,
                        stopped=(*stopped, name),
                        notes=(*self.record.notes, line),
                    )

    def check_images(self) -> None:
        """Raise DataError if images were added or removed since the run began, which
        would change the test images.
        """
        before = self.record.counts
        if (
            self.datasets is None
            and (now := counts_of(self.record.settings, self.record.data)) != before
        ):
            raise DataError(
                f"{self.record.data} must keep its images during a run: it had"
                f" {before}, and has {now}"
            )

    @property
    def found(self) -> Schedule | None:
        """The schedule of the search so far."""
        path = self.folder / SEARCH_FOLDER / POLICY_NAME
        return Schedule.load(path) if path.exists() else None

    @property
    def results(self) -> EvaluationResult | None:
        """The test so far; None before its first training has ended."""
        path = self.folder / TEST_FOLDER / RESULTS_NAME
        return read_results(path) if path.exists() else None

    def choose_network(self) -> None:
        """Choose among the candidates by trainings with RandAugment, and take over the
        settings of the best.
        """
        candidates = self.record.candidates
        outcomes = dict[int, Outcome]()
        if not candidates:
            return
        numbers = [*range(len(candidates))]
        try:
            if not self.record.linear and networks.pretrained(candidates):
                self._measure_linear_layers(
                    find_device(self.record.settings.get("device", "auto"))
                )
            numbers = networks.to_train(
                candidates, self.record.linear, self.extent.networks
            )
            names = "; ".join(candidates[number].name for number in numbers)
            self.callback.said(f"Networks on validation images: {names}")
            while missing := [
                number
                for number in numbers
                if self.record.candidates[number].loss is None
            ]:
                try:
                    self._train_candidates(missing, outcomes)
                except TooSlow as slow:
                    outcomes.clear()
                    self._shorten_candidates(slow.seconds / CONTEST_SHARE, len(missing))
        except KeyboardInterrupt:
            self._take_network(numbers, outcomes)
            raise
        self._take_network(numbers, outcomes)

    def _take_network(
        self, numbers: Sequence[int], outcomes: Mapping[int, Outcome]
    ) -> None:
        """Take over the settings of the best candidate."""
        best = networks.best_of(self.record.candidates, numbers, self.record.linear)
        candidate = self.record.candidates[best]
        seconds = candidate.seconds
        epochs = int({**self.record.settings, **candidate.settings}["epochs"])
        if candidate.took is not None:
            # Steps that were timed alone tell the time of a training only roughly.
            seconds = candidate.took / CONTEST_SHARE
            share = (
                self._share_of_epochs(seconds)
                if "epochs" in candidate.settings
                else 1.0
            )
            if not 1 / LARGEST_CHANGE < share < LARGEST_CHANGE:
                longest = (
                    MOST_FINE_TUNING
                    if candidate.settings.get("pretrained")
                    else MOST_EPOCHS
                )
                epochs, before = max(2, min(longest, round(share * epochs))), epochs
                seconds *= epochs / before
                outcomes = {}
        if best in outcomes:
            # The contest need not repeat this training.
            Contest.begun([RANDAUGMENT], self.folder / CONTEST_NAME).add(
                RANDAUGMENT, 0, outcomes[best]
            )
        self._images.clear()
        settings = {**self.record.settings, **candidate.settings, "epochs": epochs}
        plan = (
            *self.record.plan,
            *candidate.reasons,
        )
        self.note(
            network=best,
            settings=settings,
            n_images=candidate.n_images,
            training_seconds=max(seconds, 1e-3),
            plan=plan,
        )
        reached = (
            "not compared"
            if candidate.error_percent is None
            else f"{candidate.error_percent:.1f} % validation error"
        )
        self.callback.said(
            f"Network: {candidate.name}, {reached}; {counted(epochs, 'epoch')}"
            f" ({self._clock()})"
        )

    def _share_of_epochs(self, seconds: float) -> float:
        """How many times as many epochs the remaining time allows, if a training takes
        this many seconds.
        """
        others = {
            name: n
            for name, n in self.extent.trainings(self.record.n_jobs).items()
            if name != NETWORK
        }
        left = self.seconds_left - SECONDS_OF_PHASE * len(others) * (
            self.record.n_jobs > 1
        )
        n_trainings = sum(others.values()) + CONTEST_SHARE / self.record.n_jobs
        return share_that_fits(n_trainings, seconds, left)

    def _following(self, phase: str) -> float:
        """The time of all phases after this one, in trainings."""
        trainings = self.extent.trainings(self.record.n_jobs)
        return sum(trainings[name] for name in PHASES[PHASES.index(phase) + 1 :])

    def _pace(
        self, n_trainings: int, n_steps: int, epochs: int, following: float
    ) -> Pace | None:
        """The pace of trainings; None if they cannot get fewer epochs.

        n_steps: of all of them.
        epochs: of the longest.
        following: the time of what follows, in multiples of one of them.
        """
        if self.record.has_given_epochs or epochs <= FEWEST_EPOCHS:
            return None
        return Pace(
            n_trainings,
            n_steps,
            self.record.n_jobs,
            self.seconds_for_trainings,
            following,
        )

    def _is_late(self, n_trainings: float) -> bool:
        """Whether so many trainings do not fit into the time that is left, but would
        with fewer epochs.
        """
        if (
            self.record.has_given_epochs
            or self.record.settings["epochs"] <= FEWEST_EPOCHS
        ):
            return False
        return is_late(
            n_trainings, self.record.training_seconds, self.seconds_for_trainings
        )

    def _shorten(self, n_trainings: float) -> None:
        """Choose as many epochs as let so many trainings fit into the time that is
        left.
        """
        epochs = self.record.settings["epochs"]
        seconds = self.record.training_seconds
        share = share_that_fits(n_trainings, seconds, self.seconds_for_trainings)
        fewer = fewer_epochs(epochs, share)
        settings = {**self.record.settings, "epochs": fewer}
        self.note(
            settings=settings, training_seconds=max(seconds * fewer / epochs, 1e-3)
        )
        self._say_shortened(f"{counted(fewer, 'epoch')} instead of {epochs}")

    def _shorten_candidates(self, seconds: float, n_candidates: int) -> None:
        """Choose fewer epochs for all candidates. seconds: of a training of any of
        them.
        """
        n_trainings = CONTEST_SHARE * rounds(
            n_candidates, self.record.n_jobs
        ) + self._following(NETWORK)
        share = min(
            1.0, share_that_fits(n_trainings, seconds, self.seconds_for_trainings)
        )
        shorter = list[Candidate]()
        for candidate in self.record.candidates:
            epochs = fewer_epochs(candidate.settings["epochs"], share)
            settings = {**candidate.settings, "epochs": epochs}
            shorter.append(
                candidate.model_copy(
                    update={"settings": settings, "loss": None, "took": None}
                )
            )
        self.note(
            candidates=tuple(shorter), training_seconds=max(share * seconds, 1e-3)
        )
        self._say_shortened(f"{100 * share:.0f} % of the epochs")

    def _say_shortened(self, epochs: str) -> None:
        self.callback.said(
            f"Trainings take longer than planned, and now have {epochs}"
            f" ({self._clock()})"
        )

    def _train_candidates(
        self, numbers: Sequence[int], outcomes: dict[int, Outcome]
    ) -> None:
        """Train these candidates with RandAugment, and store what each has reached,
        also in `outcomes`.
        """
        entries = list[tuple[Entry, EvaluationData]]()
        n_steps = 0
        schedule = RECIPES[RANDAUGMENT].make()
        executor = executor_for(
            self.record.settings.get("device", "auto"),
            min(self.record.n_jobs, len(numbers)),
            None,
        )
        for number in numbers:
            candidate = self.record.candidates[number]
            settings = {**self.record.settings, **candidate.settings}
            config = self._config_of(settings, candidate.n_images)
            images, (held_out, *_) = self._images_of_contest(settings)
            (row,) = row_configs(
                {candidate.name: schedule},
                schedule,
                config,
                None,
                config.network_start(),
            )
            # The first of the contest, which may so use the training of the chosen
            # network.
            entries.append(
                (Entry(row, FIRST_SEED, held_out, TrainCheckpoint()), images)
            )
            n_steps += config.epochs * max(
                1, int(CONTEST_SHARE * len(images.train)) // config.batch_size
            )
        most_epochs = max(entry.row.config.epochs for entry, _ in entries)
        pace = self._pace(
            len(numbers), n_steps, most_epochs, self._following(NETWORK) / CONTEST_SHARE
        )
        on_step = self.phases.stepper(NETWORK, n_steps, pace=pace)
        ended = networks.train_candidates(entries, executor, on_step)
        with contextlib.closing(ended):
            for place, (outcome, took) in ended:
                done = numbers[place]
                candidates = [*self.record.candidates]
                reached = {
                    "loss": round(float(np.mean(outcome.losses)), DIGITS),
                    "error_percent": outcome.error,
                }
                candidates[done] = candidates[done].model_copy(
                    update={**reached, "took": round(took, 1)}
                )
                outcomes[done] = outcome
                self.note(candidates=tuple(candidates))

    def _measure_linear_layers(self, device: torch.device) -> None:
        """Measure linear layers on frozen features."""
        record = self.record
        known = networks.pretrained(self.record.candidates)

        def images_of(side: int) -> tuple[LabelledImages, networks.Folds, int]:
            data, folds = self._images_of_contest(
                {**record.settings, **known[0].settings, "image_size": side}
            )
            images: Any = data.train
            # Images with a validation split of their own have no folds.
            parts = [
                torch.arange(len(images))[::N_FOLDS] if fold is None else fold
                for fold in folds
            ]
            return images, parts, len(data.class_names)

        self.note(
            linear=tuple(
                networks.linear_results(
                    known, images_of, device, LINEAR_SHARE * record.budget_seconds
                )
            )
        )
        best = self.record.best_linear
        assert best is not None
        self.callback.said(
            f"On validation images, {best.name} has {best.error_percent:.1f} % error"
            f" ({self._clock()})"
        )

    def search(self) -> None:
        folder = self.folder / SEARCH_FOLDER
        record = self.record
        least = (1 - LARGEST_SEARCH) * record.budget_seconds
        steps = SearchSteps(self.phases, SEARCH, lambda: self.seconds_left < least)
        is_begun = (folder / CONFIG_NAME).exists()
        jobs = None if self.cluster else record.n_jobs
        settings = {} if is_begun else self._settings_of_search()
        try:
            images = record.data if self.datasets is None else self.datasets[0]
            result = search(
                images,
                out=folder,
                resume=is_begun,
                jobs=jobs,
                cluster=self.cluster,
                callback=steps,
                **self.own,
                **settings,
            )
        except DivergedError as error:
            line = f"The search stopped, so only recipes were compared: {error}"
            self.note(notes=(*record.notes, line))
            return
        if not result.finished:
            line = (
                "The search took longer than planned, and ended before its last epoch"
            )
            self.note(notes=(*record.notes, line))
        race = (
            RaceFindings.of(result.schedule.provenance)
            if result.schedule is not None
            else None
        )
        self.callback.said(
            f"Search: {race.takes if race else 'a policy was found'} ({self._clock()})"
        )

    def _settings_of_search(self) -> dict[str, Any]:
        """Settings of a new search: those of the user, and what the time allows."""
        settings = self.record.settings
        algorithm = SearchConfig.find_algorithm(flattened(settings))
        pretrained = bool(settings.get("pretrained"))
        defaults = algorithm.settings_in_auto(self.record.budget_seconds, pretrained)
        settings = {**defaults, **settings}
        if "space" in self.own:
            return settings
        config = self._searched_with(settings)
        space = config.search_space()
        operations = config.algorithm.operations_in_time(config, space)
        if operations is None:
            return settings
        return {"operations": operations, **settings}

    def _searched_with(self, settings: Mapping[str, Any]) -> SearchConfig:
        return SearchConfig.from_preset(
            {**settings, "data": self.record.data}
        ).resolved()

    @property
    def searched(self) -> SearchConfig:
        """The settings of the search."""
        own = custom_components(self.own.get("network"), self.own.get("space"))
        if (self.folder / SEARCH_FOLDER / CONFIG_NAME).exists():
            return from_config(
                SearchConfig, self.folder / SEARCH_FOLDER, {}, own, resume=True
            )
        return self._searched_with(self.record.settings)

    @property
    def config(self) -> EvaluationConfig:
        """The settings of all trainings after the search."""
        return self._config_of(
            self.record.settings, self.record.n_images, self.searched
        )

    def _config_of(
        self,
        settings: Mapping[str, Any],
        n_images: int,
        searched: SearchConfig | None = None,
    ) -> EvaluationConfig:
        """The settings of trainings. settings, searched: of a search. n_images: for
        training and validation.
        """
        of_search = (searched or self._searched_with(settings)).flat()
        of_test = dict(self.record.of_test)
        of_test.pop("against", None)
        names = {*EvaluationConfig.model_fields} - {
            "train_size",
            "val_size",
            *(["model"] if self._own_network else []),
        }
        values = {name: of_search[name] for name in names if name in of_search}
        train_size = settings.get("train_size")
        own_val = self._has_own_val
        # The planned images, and no validation images in addition to a part of the
        # training images.
        values["train_size"] = train_size and (train_size if own_val else n_images)
        with_val = own_val and train_size is None
        # Trainings after a search may have fewer epochs than it had.
        values["epochs"] = settings.get("epochs", values["epochs"])
        return EvaluationConfig.make(
            {**values, "data": self.record.data, "with_val": with_val, **of_test}
        )

    def contest(self) -> None:
        """Train with each row until the best is clear, or the time is over."""
        rows = rows_of_contest(self.found, self.extent.rows)
        of_contest = CONTEST_SHARE * rounds(len(rows), self.record.n_jobs)
        left = Contest.begun(rows, self.folder / CONTEST_NAME).missing(0)
        of_rest = CONTEST_SHARE * rounds(len(left), self.record.n_jobs)
        while True:
            if self._is_late(of_rest + self._following(CONTEST)):
                self._shorten(of_contest + self._following(CONTEST))
                self._drop_contest()
            try:
                return self._hold_contest()
            except TooSlow as slow:
                self.note(training_seconds=slow.seconds / CONTEST_SHARE)
                of_rest = of_contest

    def _drop_contest(self) -> None:
        """Remove the trainings so far, which had more epochs than those that follow."""
        (self.folder / CONTEST_NAME).unlink(missing_ok=True)
        shutil.rmtree(self.folder / CONTEST_FOLDER, ignore_errors=True)
        self.note(rows=(), chosen=None)

    def _hold_contest(self) -> None:
        """Train with each row at the current number of epochs. Raises TooSlow if fewer
        are needed.
        """
        record = self.record
        config = self.config
        found = self.found
        folder = self.folder / CONTEST_FOLDER
        extent = self.extent
        folder.mkdir(exist_ok=True)
        makes: dict[str, Any] = {
            name: RECIPES[name].make() for name in rows_of_contest(None, len(RECIPES))
        }
        makes |= {} if found is None else {FOUND: found}
        of_networks = self._own_network, config.network_start()
        rows = {
            row.name: row
            for row in row_configs(makes, makes[RANDAUGMENT], config, *of_networks)
        }
        data, held_out = self._images_of_contest(record.settings)
        begun = partial(
            Contest.begun,
            file=self.folder / CONTEST_NAME,
            has_same_images=held_out == [None],
        )
        contest = begun(rows_of_contest(found, extent.rows))
        steps = config.epochs * max(
            1, int(CONTEST_SHARE * len(data.train)) // config.batch_size
        )
        with connected(self.cluster) as machines:
            for seed in range(contest.n_seeds, extent.seeds):
                left = contest.left(seed)
                missing = contest.missing(seed)
                began = time.monotonic()
                if seed and (len(left) == 1 or not self._has_time_for(len(left))):
                    break
                self.callback.said(
                    f"Contest on validation images, seed {seed}: {', '.join(left)}"
                )
                executor = executor_for(
                    config.device, min(record.n_jobs, len(left)), machines
                )
                data = (
                    data.to(executor.device)
                    if isinstance(executor, SerialExecutor)
                    else data
                )
                shares = seed / extent.seeds, (seed + 1) / extent.seeds
                pace = None
                if seed == 0:
                    following = self._following(CONTEST) / CONTEST_SHARE
                    pace = self._pace(
                        len(missing), steps * len(missing), config.epochs, following
                    )
                on_step = self.phases.stepper(
                    CONTEST, steps * len(missing), *shares, pace=pace
                )
                ended = train_seed(
                    contest,
                    seed,
                    rows,
                    data,
                    held_out,
                    executor,
                    on_step,
                    folder / TRAININGS_NAME,
                )
                with contextlib.closing(ended):
                    for number, _ in enumerate(ended, start=1):
                        took = (
                            (time.monotonic() - began)
                            * min(record.n_jobs, number)
                            / number
                            / CONTEST_SHARE
                        )
                        self.note(
                            training_seconds=took,
                            rows=tuple(contest.table()),
                            chosen=contest.best,
                        )
                        if (
                            seed == 0
                            and not self._has_time_for_another()
                            and not {*ALWAYS} & {*contest.missing(0)}
                        ):
                            break
                if seed == 0 and contest.missing(0):
                    done = [
                        row for row in contest.rows if row not in contest.missing(0)
                    ]
                    sizes = range(len(done), 0, -1)
                    fewer = next(
                        n for n in sizes if {*rows_of_contest(found, n)} <= {*done}
                    )
                    left_out = (
                        f"The contest had no time for {', '.join(contest.missing(0))}"
                    )
                    self.callback.said(left_out)
                    self.note(
                        extent=(fewer, *extent[1:]),
                        notes=(*self.record.notes, left_out),
                    )
                    contest = begun(rows_of_contest(found, fewer))
        self.note(rows=tuple(contest.table()), chosen=contest.best)
        self.callback.said(
            f"Contest: {contest.best} is chosen by validation images ({self._clock()})"
        )
        shutil.rmtree(folder, ignore_errors=True)

    @property
    def _own_network(self) -> CustomNetwork | None:
        network = self.own.get("network")
        return None if network is None else CustomNetwork(network)

    def _images_of_contest(
        self, settings: Mapping[str, Any]
    ) -> tuple[EvaluationData, Sequence[Tensor | None]]:
        config = self._searched_with(settings)
        trains_on_val = settings.get("train_size") is None
        # To read photographs may take longer than to train on them.
        key = config.side, config.train_size, config.val_size
        if key not in self._images:
            images = load_search_data(
                config, self.callback.images_read, self.datasets and self.datasets[0]
            )
            images = images.in_color() if self._own_network is None else images
            self._images[key] = contest_data(
                images, has_own_val=self._has_own_val, trains_on_val=trains_on_val
            )
        return self._images[key]

    @property
    def _has_own_val(self) -> bool:
        return (
            self.datasets is None
            and find_source(self._searched_with(self.record.settings)).val is not None
        )

    def _has_time_for(self, n_rows: int) -> bool:
        """Whether there is time for another seed of the contest with n_rows rows, and
        then for a test.
        """
        n_trainings = (
            CONTEST_SHARE * n_rows + ROWS_OF_TEST * LEAST_TEST_SEEDS
        ) / self.record.n_jobs
        return n_trainings * self.record.training_seconds < self.seconds_for_trainings

    def _has_time_for_another(self) -> bool:
        """Whether there is time for another row of the contest, and then for a test, if
        with fewer epochs.
        """
        of_test = ROWS_OF_TEST * (
            1.0 if self.record.has_given_epochs else SHORTEST_TEST
        )
        n_trainings = (CONTEST_SHARE + of_test) / self.record.n_jobs
        return n_trainings * self.record.training_seconds < self.seconds_for_trainings

    def test(self) -> None:
        """Train with the chosen row and with those to compare it with, and measure the
        test images.
        """
        record = self.record
        folder = self.folder / TEST_FOLDER
        chosen = record.chosen or (RANDAUGMENT if self.found is None else FOUND)
        against = [
            name
            for name in words(record.of_test.get("against", (NONE, RANDAUGMENT)))
            if name != chosen
        ]
        n_rows = 1 + len(against)
        n_trainings = n_rows * (record.of_test.get("seeds") or LEAST_TEST_SEEDS)
        of_test = rounds(n_trainings, record.n_jobs)
        is_over = False
        while not is_over:
            if not (folder / RESULTS_NAME).exists() and self._is_late(of_test):
                self._shorten(of_test)
                self.note(test_seeds=None)
                shutil.rmtree(folder, ignore_errors=True)
            self.note(test_seeds=self._seeds_of_test(n_rows), chosen=chosen)
            try:
                self._evaluate(chosen, against, n_trainings)
                is_over = True
            except TimeOver:
                is_over = True
            except TooSlow as slow:
                self.note(training_seconds=slow.seconds)
        self._test_linear_layer()

    def _seeds_of_test(self, n_rows: int) -> int:
        """The number of seeds, which is decided once."""
        record = self.record
        if decided := record.of_test.get("seeds") or record.test_seeds:
            return int(decided)
        n_trainings = record.n_jobs * math.floor(
            self.seconds_for_trainings / max(record.training_seconds, 1e-3)
        )
        return min(MOST_TEST_SEEDS, max(LEAST_TEST_SEEDS, n_trainings // n_rows))

    def _evaluate(
        self, chosen: str, against: Sequence[str], fewest_trainings: int
    ) -> None:
        """Run the evaluation of the test. Raises TimeOver and TooSlow, as
        EvaluationSteps does.

        fewest_trainings: those for which there must be time.
        """
        record = self.record
        folder = self.folder / TEST_FOLDER
        config = self.config
        n_seeds = self._seeds_of_test(1 + len(against))
        n_rows = 1 + len(against)
        self.phases.plan(
            TEST, n_seeds * n_rows * record.training_seconds / record.n_jobs
        )
        idle = {
            "data",
            "seeds",
            "val_size",
            *(("model", *OF_WEIGHTS) if self._own_network else ()),
        }
        idle |= (
            {*DataConfig.model_fields} - {*READ_SETTINGS} if self.datasets else set()
        )
        settings = {**config.model_dump(exclude=idle), "seeds": n_seeds}

        def pace_of(steps_per_training: int) -> Pace | None:
            return self._pace(
                fewest_trainings,
                fewest_trainings * steps_per_training,
                config.epochs,
                following=0.0,
            )

        evaluate(
            self.folder / SEARCH_FOLDER / POLICY_NAME if chosen == FOUND else chosen,
            record.data if self.datasets is None else self.datasets,
            against=against,
            network=self.own.get("network"),
            out=folder,
            resume=(folder / RESULTS_NAME).exists(),
            jobs=None if self.cluster else record.n_jobs,
            cluster=self.cluster,
            keep_network=True,
            # If a search has seen test images, the answer says so.
            allow_seen=True,
            callback=EvaluationSteps(
                self.phases, TEST, lambda: self.seconds_left < 0, pace_of
            ),
            **settings,
        )

    def _test_linear_layer(self) -> None:
        """Measure the best linear layer on the test images, fitted to all images that
        the test trains on.
        """
        best = self.record.best_linear
        if best is None or best.test_percent is not None:
            return
        config = self._config_of(
            {**self.record.settings, "image_size": best.side}, self.record.n_images
        )
        data = load_evaluation_data(
            config, self.callback.images_read, self.datasets, with_val=config.with_val
        )
        measured = tested(
            FrozenFeatures(best.model, best.source, best.side, data.train.device),
            data.in_color(),
        )
        self.note(
            linear=tuple(
                layer.model_copy(update=measured) if layer == best else layer
                for layer in self.record.linear
            )
        )
        self.callback.said(
            f"Test, {best.name}: {measured['test_percent']:.2f} % test error"
        )

    def _clock(self) -> str:
        return (
            f"{duration(self._spent + time.monotonic() - self._began)} of"
            f" {duration(self.record.budget_seconds)}"
        )
