"""The numbers of an evaluation as they come in, and what is left to do."""

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hba.config.evaluation import EvaluationConfig
from hba.data.images import EvaluationData, LazySplit
from hba.data.labels import error_of
from hba.policy_evaluation.contenders import Contender
from hba.policy_evaluation.jobs import Job
from hba.policy_evaluation.result import EvaluationResult, EvaluationRow
from hba.policy_evaluation.searched import Searched
from hba.policy_evaluation.stored import check_images
from hba.report.results import RESULTS_NAME, Results
from hba.training.metrics import Confusion, Measured


class _Found(NamedTuple):
    """What a training came to. loss, confusion: None where an older version did not keep it; a loss that is not finite
    is not kept either.
    """

    error_percent: float
    loss: float | None
    confusion: Confusion | None


class Record:
    """What all rows do on the test split, kept in results.json after every training.

    data: on the device; its test split is looked at only after a training has measured it. folder: None keeps nothing.
    stored: an earlier evaluation that is resumed. RunError where its images are others. searched and
    own_network: for the result.
    """

    def __init__(
        self,
        contenders: Sequence[Contender],
        config: EvaluationConfig,
        data: EvaluationData,
        environment: Mapping[str, Any],
        folder: Path | None,
        stored: Results | None,
        searched: tuple[Searched, ...],
        own_network: str | None = None,
    ) -> None:
        self._contenders, self._config, self._data = contenders, config, data
        self._environment, self._folder, self._stored, self._searched = environment, folder, stored, searched
        self._own_network = own_network
        self._began, self._seconds_before = time.monotonic(), 0.0 if stored is None else stored.wall_seconds or 0.0
        self._found: dict[str, dict[int, _Found]] = {contender.name: {} for contender in contenders}
        self._fingerprints = {"training": data.train.fingerprint()}
        if stored is not None:
            if folder is not None:
                check_images(stored, "training", self._fingerprints["training"], folder)
            for row in stored.rows:
                found = zip(row.test_error_percent, row.losses(), row.confusions(len(data.class_names)), strict=True)
                self._found[row.name] = {seed: _Found(*one) for seed, one in zip(row.seeds, found, strict=True)}

    @property
    def training_fingerprint(self) -> str:
        return self._fingerprints["training"]

    def to_do(self) -> list[Job]:
        """Seed by seed over all rows, so that an interrupted evaluation has pairs."""
        return [
            Job(contender, seed)
            for seed in self._config.training_seeds
            for contender in self._contenders
            if seed not in self._found[contender.name]
        ]

    def add(self, training: Job, measured: Measured) -> None:
        """Note a training that has ended. RunError where the test images are not those of the stored evaluation."""
        if "test" not in self._fingerprints:
            test = self._data.test
            fingerprint = (test.opened() if isinstance(test, LazySplit) else test).fingerprint()
            if self._stored is not None and self._folder is not None:
                check_images(self._stored, "test", fingerprint, self._folder)
            self._fingerprints["test"] = fingerprint
        loss = measured.loss if math.isfinite(measured.loss) else None
        found = _Found(measured.error_percent, loss, measured.confusion)
        self._found[training.contender.name][training.seed] = found
        if self._folder is not None:
            self.result().save(self._folder / RESULTS_NAME)

    def result(self) -> EvaluationResult:
        """All that is known; the test split has been measured, now or in the stored evaluation."""
        if "test" in self._fingerprints:
            test_images, fingerprints = len(self._data.test), dict(self._fingerprints)
            test = self._data.test
            test = test.opened() if isinstance(test, LazySplit) else test
            skipped_images = len(self._data.train.left_out) + len(test.left_out)
        else:
            assert self._stored is not None
            test_images, fingerprints = self._stored.test_images, dict(self._stored.fingerprints)
            skipped_images = self._stored.skipped_images
        return EvaluationResult(
            rows=tuple(self._row(contender) for contender in self._contenders),
            config=self._config,
            train_images=len(self._data.train),
            test_images=test_images,
            skipped_images=skipped_images,
            fingerprints=fingerprints,
            environment=self._environment,
            searched=self._searched,
            own_network=self._own_network,
            error=error_of(self._data.train.labels),
            pretrained=None if (start := self._contenders[0].start) is None else start.pretrained.sha256,
            class_names=self._data.class_names,
            wall_seconds=round(self._seconds_before + time.monotonic() - self._began, 1),
        )

    def _row(self, contender: Contender) -> EvaluationRow:
        found = sorted(self._found[contender.name].items(), key=lambda item: item[0])
        return EvaluationRow(
            contender.name,
            test_error_percent=tuple(one.error_percent for _, one in found),
            seeds=tuple(seed for seed, _ in found),
            definition=contender.definition,
            confusion=tuple(one.confusion for _, one in found),
            test_loss=tuple(one.loss for _, one in found),
        )
