"""Whether the search of a schedule has seen images that the schedule is tested on."""

from collections.abc import Mapping, Sequence
from typing import Any

from hba.config.evaluation import EvaluationConfig
from hba.data.arrays import DATASET_NAMES
from hba.data.config import DataConfig
from hba.data.images import EvaluationData, LabelledImages
from hba.data.leakage import SeenCount, SeenImages, all_hashes, hashes_of_pixels
from hba.data.load import find_source, listing_of_search, listing_of_test, test_pool
from hba.data.splits import split
from hba.errors import HbaError, SettingsError
from hba.report.results import LeakageReport
from hba.schedule.schedule import Schedule
from hba.utils.provenance import count_of


def leakage_reports(
    schedules: Mapping[str, Schedule], config: EvaluationConfig, data: EvaluationData, *, in_memory: bool
) -> tuple[LeakageReport, ...]:
    """One for each row that is a schedule. Reads no image. in_memory: the images were given, not read."""
    return tuple(_report(name, schedule, config, data, in_memory) for name, schedule in schedules.items())


def _report(
    row: str, schedule: Schedule, config: EvaluationConfig, data: EvaluationData, in_memory: bool
) -> LeakageReport:
    settings = settings_of(schedule)
    seen = SeenImages.from_json(schedule.provenance.get("images_seen"))
    count = None
    if config.data in DATASET_NAMES and not in_memory:
        count = _count_by_settings(settings, config) if settings.get("data") == config.data and seen is None else None
    elif seen is not None and data.listing is not None and seen.kind == data.listing.kind:
        count = seen.overlap(all_hashes(data.listing.chosen))
    elif seen is not None and data.listing is None and isinstance(data.test, LabelledImages) and seen.kind == "pixels":
        count = seen.overlap(hashes_of_pixels(data.test.images))
    return LeakageReport(
        row=row,
        epochs_finished=count_of(schedule.provenance.get("epochs_finished")),
        epochs_planned=count_of(settings.get("epochs")),
        test_images_seen=None if count is None else count.n_seen,
        test_images=data.n_test,
        seen_is_estimate=count is not None and count.is_estimate,
        is_same_data=settings.get("data") == config.data,
    )


def _count_by_settings(settings: Mapping[str, Any], config: EvaluationConfig) -> SeenCount | None:
    """On a built-in dataset, whose images never change, by making the search's split again."""
    try:
        searched = DataConfig.make({name: settings[name] for name in DataConfig.model_fields if name in settings})
        source, its_source = find_source(config), find_source(searched)
        # A search never opens a test split of the dataset's own.
        if source.test is not None or (searched.split_seed, searched.classes) == (config.split_seed, config.classes):
            return SeenCount(0, 0, is_estimate=False)
        its_splits = split(its_source, searched.train_size, searched.val_size, searched.split_seed)
    except HbaError:
        return None
    test = listing_of_test(source, test_pool(source, split(source, None, None, config.split_seed)))
    return SeenImages.of_listing(listing_of_search(its_source, its_splits)).overlap(all_hashes(test.chosen))


def check_unseen(searched: Sequence[LeakageReport]) -> None:
    """SettingsError where a search has seen test images."""
    for report in searched:
        if report.seen is not None:
            raise SettingsError(
                f"the search of {report.row} has seen {report.seen}, so its error on them would be too low: test on "
                "what it left out, with its images, classes and split seed, or add allow_seen=True"
            )


def notes_on(schedule: Schedule, config: EvaluationConfig, searched: Sequence[LeakageReport]) -> tuple[str, ...]:
    """Sentences to read before the numbers. schedule: the one whose search provides settings."""
    found = []
    for one in searched:
        if one.epochs_finished and one.epochs_planned and one.epochs_finished < one.epochs_planned:
            found.append(
                f"The search of {one.row} stopped after {one.epochs_finished} of {one.epochs_planned} epochs; its "
                f"schedule is stretched to {config.epochs}"
            )
        if one.test_images_seen is None and one.is_same_data:
            found.append(
                f"The schedule {one.row} does not record which images it was searched on: make sure that no test image "
                "is one of them"
            )
        elif one.seen is not None:
            found.append(one.warning)
    settings = settings_of(schedule)
    if (classes := settings.get("classes")) and config.classes is None and settings.get("data") != config.data:
        found.append(f"The list of classes {classes} belongs to the searched data: here all classes are used")
    return (*found, *filter(None, [config.baseline_note()]))


def settings_of(schedule: Schedule) -> Mapping[str, Any]:
    """The settings of its search; empty where it does not record them."""
    settings = schedule.provenance.get("settings")
    return settings if isinstance(settings, Mapping) else {}
