"""Checks whether the search of a schedule has seen test images."""

from collections.abc import Mapping
from typing import Any

from hba.config.evaluation import EvaluationConfig
from hba.data.arrays import DATASET_NAMES
from hba.data.config import DataConfig
from hba.data.formats import find_source
from hba.data.images import EvaluationData, hashes_of
from hba.data.leakage import SeenCount, SeenImages, all_hashes
from hba.data.splits import split
from hba.errors import HbaError, SettingsError
from hba.results.evaluation import LeakageReport
from hba.schedule.schedule import Schedule


def leakage_reports(
    rows: Mapping[str, Schedule],
    config: EvaluationConfig,
    data: EvaluationData,
    *,
    in_memory: bool,
    allow_seen: bool,
) -> tuple[LeakageReport, ...]:
    """A report for each row that is a schedule. Reads no image.

    Args:
        rows: The schedules of these rows, by name.
        config: Settings of the evaluation.
        data: Its images.
        in_memory: Whether the images were given, not read.
        allow_seen: Whether a search may have seen test images.

    Raises:
        SettingsError: If a search has seen test images, unless allow_seen.
    """
    reports = []
    for row, schedule in rows.items():
        count = _count(schedule, config, data, in_memory)
        counts: Any = (
            {}
            if count is None
            else {
                "test_images_seen": count.n_seen,
                "seen_is_estimate": count.is_estimate,
            }
        )
        report = LeakageReport(row=row, test_images=data.n_test, **counts)
        if report.warning and not allow_seen:
            raise SettingsError(
                f"{report.warning}; test on images that it left out (same data, classes"
                " and split seed), or allow it by allow_seen=True (--allow-seen)"
            )
        reports.append(report)
    return tuple(reports)


def _count(
    schedule: Schedule, config: EvaluationConfig, data: EvaluationData, in_memory: bool
) -> SeenCount | None:
    settings = settings_of(schedule)
    seen = SeenImages.from_json(schedule.provenance.get("images_seen"))
    if config.data not in DATASET_NAMES or in_memory:
        tested = hashes_of(data.listing, (data.test,))
        return (
            seen.overlap(tested[1])
            if seen is not None and tested is not None and seen.kind == tested[0]
            else None
        )
    if settings.get("data") != config.data or seen is not None:
        return None
    # The images of a built-in dataset never change, so the split of the search can be
    # repeated.
    try:
        searched = DataConfig.make(
            {
                name: settings[name]
                for name in DataConfig.model_fields
                if name in settings
            }
        )
        source = find_source(config)
        its_source = find_source(searched)
        # A search never opens the dataset's own test split.
        if source.test is not None or (searched.split_seed, searched.classes) == (
            config.split_seed,
            config.classes,
        ):
            return SeenCount(0, 0, is_estimate=False)
        its_splits = split(
            its_source, searched.train_size, searched.val_size, searched.split_seed
        )
    except HbaError:
        return None
    seen = SeenImages.of(
        its_splits.train.items.hashed_by, all_hashes([its_splits.train, its_splits.val])
    )
    return seen.overlap(
        all_hashes([split(source, None, None, config.split_seed).test()])
    )


def settings_of(schedule: Schedule) -> Mapping[str, Any]:
    """The settings of the schedule's search; empty if it does not record them."""
    settings = schedule.provenance.get("settings")
    return settings if isinstance(settings, Mapping) else {}
