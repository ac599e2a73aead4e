"""The phases of a run of `hba auto`: search, contest, test. Each can be stopped, and resumed where it was."""

import math
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hba.config.evaluation import EvaluationConfig
from hba.data.load import find_source, load_search_data
from hba.errors import DivergedError
from hba.executors.ray_executor import connected, executor_for
from hba.policy_choice.callbacks import AutoCallback, EvaluationSteps, Phases, SearchSteps
from hba.policy_choice.contest import Contest, contest_data, train_seed
from hba.policy_choice.plan import CONTEST_SHARE, Extent
from hba.policy_choice.record import AutoRecord
from hba.policy_choice.rows import FOUND, RANDAUGMENT, rows_of_contest
from hba.policy_evaluation.baselines import BASELINES, NONE, row_configs
from hba.policy_evaluation.evaluation import evaluate
from hba.policy_search.config import SearchConfig, from_config
from hba.policy_search.search import search
from hba.report.race import RaceFindings
from hba.report.results import RESULTS_NAME, EvaluationResult, read_results
from hba.report.run import CONFIG_NAME
from hba.schedule.library import POLICY_NAME
from hba.schedule.recipes import RECIPES
from hba.schedule.schedule import Schedule
from hba.training.checkpoint import TRAININGS_NAME
from hba.training.custom_network import CustomNetwork
from hba.utils.settings import words
from hba.utils.text import duration

SEARCH, CONTEST, TEST = "search", "contest", "test"
SEARCH_FOLDER, TEST_FOLDER, CONTEST_NAME = "search", "evaluation", "contest.json"
LEAST_TEST_SEEDS, MOST_TEST_SEEDS = 2, 10
RESERVE = 0.96
"""Share of the time that is planned while a run goes on; the rest is for the report."""


class AutoRun:
    """A run in its folder. own: the user's network and search space, as hba.search takes them."""

    def __init__(
        self, folder: Path, record: AutoRecord, callback: AutoCallback, own: Mapping[str, Any], cluster: str | None
    ) -> None:
        self.folder, self.record, self.callback, self.own, self.cluster = folder, record, callback, own, cluster
        self._began, self._spent = time.monotonic(), record.spent
        trainings = Extent(*record.extent).trainings(record.n_jobs)
        self.phases = Phases(callback, {name: n * record.training_seconds for name, n in trainings.items()})

    @property
    def seconds_left(self) -> float:
        return RESERVE * self.record.budget_seconds - self._spent - (time.monotonic() - self._began)

    def note(self, **changes: Any) -> None:
        """Change the record, and save it."""
        spent = self._spent + time.monotonic() - self._began
        self.record = self.record.model_copy(update={**changes, "spent": round(spent, 1)})
        self.record.save(self.folder)

    def run(self) -> None:
        """All phases. Ctrl-C ends the phase that it finds, and the next one begins."""
        for name, phase in ((SEARCH, self.search), (CONTEST, self.contest), (TEST, self.test)):
            interrupted = tuple(one for one in self.record.interrupted if one != name)
            try:
                phase()
                self.note(interrupted=interrupted)
            except KeyboardInterrupt:
                self.callback.said(
                    f"The {name} was stopped; going on with what there is. Ctrl-C stops what follows too."
                )
                self.note(interrupted=(*interrupted, name))

    @property
    def found(self) -> Schedule | None:
        """What the search has found so far."""
        path = self.folder / SEARCH_FOLDER / POLICY_NAME
        return Schedule.load(path) if path.exists() else None

    @property
    def results(self) -> EvaluationResult | None:
        """The test so far; None before its first training has ended."""
        path = self.folder / TEST_FOLDER / RESULTS_NAME
        return read_results(path) if path.exists() else None

    def search(self) -> None:
        folder, record = self.folder / SEARCH_FOLDER, self.record
        is_begun = (folder / CONFIG_NAME).exists()
        how: dict[str, Any] = {
            "jobs": record.n_jobs,
            "cluster": self.cluster,
            "callback": SearchSteps(self.phases, SEARCH),
        }
        given = {} if is_begun else record.settings
        try:
            result = search(record.data, out=folder, resume=is_begun, **self.own, **how, **given)
        except DivergedError as error:
            self.note(notes=(*record.notes, f"The search stopped, so recipes alone were compared: {error}"))
            return
        race = RaceFindings.of(result.schedule.provenance) if result.schedule is not None else None
        self.callback.said(f"Search: {race.takes if race else 'a policy was found'} ({self._clock()})")

    @property
    def config(self) -> EvaluationConfig:
        """Of all trainings after the search."""
        folder, own_network = self.folder / SEARCH_FOLDER, self.own.get("network") is not None
        searched = from_config(SearchConfig, folder, {}, {}, resume=True).flat()
        names = {*EvaluationConfig.model_fields} - {"data", "train_size", "val_size"}
        settings = {name: searched[name] for name in names if name in searched}
        if "train_size" in self.record.settings:
            settings["train_size"] = self.record.n_images
        if own_network:
            settings.pop("model", None)
        of_test = {name: one for name, one in self.record.of_test.items() if name != "against"}
        return EvaluationConfig.make({**settings, "data": self.record.data, "with_val": True, **of_test})

    def contest(self) -> None:
        """Train with each row until the best is clear, or the time is over."""
        record, found, config = self.record, self.found, self.config
        extent = Extent(*record.extent)
        names = rows_of_contest(found, extent.rows)
        contest = Contest.begun(names, self.folder / CONTEST_NAME)
        if contest.n_seeds and record.contest_seeds == contest.n_seeds:
            return
        network = self.own.get("network")
        own_network = None if network is None else CustomNetwork(network)
        makes: dict[str, Any] = {name: found if name == FOUND else BASELINES[name].make for name in names}
        configs = row_configs(makes, found or RECIPES[RANDAUGMENT].make(), config, own_network, config.network_start())
        rows = {row.name: row for row in configs}
        has_own_val = find_source(config).val is not None
        searched = from_config(SearchConfig, self.folder / SEARCH_FOLDER, {}, {}, resume=True)
        images = load_search_data(searched, self.callback.images_read)
        data, held_out = contest_data(images if network is not None else images.in_color(), has_own_val=has_own_val)
        steps = config.epochs * max(1, int(CONTEST_SHARE * len(data.train)) // config.batch_size)
        if record.chosen is None:
            self.callback.said(f"Contest on validation images: {', '.join(names)}")
        with connected(self.cluster) as machines:
            for seed in range(contest.n_seeds, extent.seeds):
                left = contest.left(seed)
                if seed and (len(left) == 1 or not self._has_time_for(len(left))):
                    break
                n_jobs = min(record.n_jobs, len(contest.missing(seed)))
                executor = executor_for(config.device, n_jobs, machines)
                if n_jobs == 1 and machines is None:
                    data = data.to(executor.device)
                shares = (seed / extent.seeds, (seed + 1) / extent.seeds)
                on_step = self.phases.stepper(CONTEST, steps * len(contest.missing(seed)), *shares)
                began, n = time.monotonic(), len(contest.missing(seed))
                kept = self.folder / CONTEST_NAME.replace(".json", "") / TRAININGS_NAME
                for _ in train_seed(contest, seed, rows, data, held_out, executor, on_step, kept):
                    self.note(rows=tuple(contest.table()), chosen=contest.best)
                took = (time.monotonic() - began) * record.n_jobs / n / CONTEST_SHARE
                self.note(training_seconds=took, rows=tuple(contest.table()), chosen=contest.best)
                self.callback.said(
                    f"Contest, seed {seed}: left are {', '.join(contest.left(seed + 1))} ({self._clock()})"
                )
        self.note(contest_seeds=contest.n_seeds)
        shutil.rmtree(self.folder / CONTEST_NAME.replace(".json", ""), ignore_errors=True)

    def _has_time_for(self, n_rows: int) -> bool:
        """Another seed of the contest with so many rows, and a test of three rows after it."""
        n = (CONTEST_SHARE * n_rows + 3 * LEAST_TEST_SEEDS) / self.record.n_jobs
        return n * self.record.training_seconds < self.seconds_left

    def test(self) -> None:
        """Train with the row that is chosen and with those that it is compared with, and measure the test images."""
        record, folder, config = self.record, self.folder / TEST_FOLDER, self.config
        chosen = record.chosen or (RANDAUGMENT if self.found is None else FOUND)
        against = [name for name in words(record.of_test.get("against", (NONE, RANDAUGMENT))) if name != chosen]
        n_seeds = record.of_test.get("seeds") or record.test_seeds
        if n_seeds is None:
            of_seed = (1 + len(against)) * record.training_seconds / record.n_jobs
            n_seeds = min(MOST_TEST_SEEDS, max(LEAST_TEST_SEEDS, math.floor(self.seconds_left / max(of_seed, 1e-3))))
            self.note(test_seeds=n_seeds, chosen=chosen)
        self.phases.plan(TEST, n_seeds * (1 + len(against)) * record.training_seconds / record.n_jobs)
        given = {**config.model_dump(exclude={"data", "seeds", "val_size"}), "seeds": n_seeds}
        if self.own.get("network") is not None:
            given.pop("model")
        evaluate(
            self.folder / SEARCH_FOLDER / POLICY_NAME if chosen == FOUND else chosen,
            record.data,
            against=against,
            network=self.own.get("network"),
            out=folder,
            # A kill may have left a lock, or the network of the first training, before the first result.
            resume=(folder / RESULTS_NAME).exists(),
            jobs=None if self.cluster else record.n_jobs,
            cluster=self.cluster,
            keep_network=True,
            callback=EvaluationSteps(self.phases, TEST),
            **given,
        )

    def _clock(self) -> str:
        return f"{duration(self._spent + time.monotonic() - self._began)} of {duration(self.record.budget_seconds)}"
