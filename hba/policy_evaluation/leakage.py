"""Whether the search of a schedule has seen images that the schedule is tested on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hba.config.evaluation import EvaluationConfig
from hba.data.arrays import DATASET_NAMES
from hba.data.config import DataConfig
from hba.data.images import EvaluationData, LabelledImages
from hba.data.leakage import SeenCount, SeenImages, all_hashes, hashes_of_pixels
from hba.data.load import find_source, listing_of_search, listing_of_test, test_pool
from hba.data.splits import split
from hba.errors import HbaError, SettingsError
from hba.schedule.schedule import Schedule
from hba.utils.provenance import count_of
from hba.utils.text import first_of

SHARE_OF_THE_SAME_DATA = 0.5
"""With at least this share of the searched images, a folder of another name counts as the searched one."""
SHOWN_CLASSES = 8


@dataclass(frozen=True)
class LeakageReport:
    """What the search of a row's schedule has to do with the data of this evaluation.

    epochs_finished, epochs_planned: None where the schedule does not record them. test_images_seen: how many of the
    test_images the search has trained or validated on; None where that is not known. seen_is_estimate: known from a
    sample of the search's images. is_same_data: whether the evaluated data are those of the search. changes: how they
    have changed since.
    """

    row: str
    epochs_finished: int | None
    epochs_planned: int | None
    test_images_seen: int | None
    test_images: int | None
    seen_is_estimate: bool
    is_same_data: bool
    changes: tuple[str, ...]

    @property
    def seen(self) -> str | None:
        """`12 of the 16 test images`; None for none, and where it is not known."""
        if not self.test_images_seen:
            return None
        about = "about " if self.seen_is_estimate else ""
        return f"{about}{self.test_images_seen} of the {self.test_images} test images"

    @property
    def warning(self) -> str:
        """For a search that has seen test images."""
        return f"The search of {self.row} has seen {self.seen}: its error on them is too low"

    def notes(self, epochs: int) -> tuple[str, ...]:
        """Sentences on what does not stop an evaluation. epochs: of a training."""
        found = []
        if self.epochs_finished and self.epochs_planned and self.epochs_finished < self.epochs_planned:
            found.append(
                f"The search of {self.row} stopped after {self.epochs_finished} of {self.epochs_planned} epochs; its "
                f"schedule is stretched to {epochs}"
            )
        if self.test_images_seen is None and self.is_same_data:
            found.append(
                f"The schedule {self.row} does not record which images it was searched on: make sure that no test "
                "image is one of them"
            )
        elif self.seen is not None:
            found.append(self.warning)
        elif self.changes and self.is_same_data:
            found.append(
                f"The data have changed since the search of {self.row} ({'; '.join(self.changes)}), but it has seen "
                f"none of the test images{' of a sample' if self.seen_is_estimate else ''}"
            )
        return tuple(found)

    def check(self) -> None:
        """SettingsError where the search has seen test images."""
        if self.seen is None:
            return
        why = "; ".join(self.changes) or "copies of them are among the searched images"
        raise SettingsError(
            f"the search of {self.row} has seen {self.seen} ({why}), so its error on them would be too low: test on "
            "what it left out, with its images, classes and split seed, or add allow_seen=True"
        )


def leakage_reports(
    schedules: Mapping[str, Schedule], config: EvaluationConfig, data: EvaluationData, is_in_memory: bool
) -> tuple[LeakageReport, ...]:
    """One for each row that is a schedule. Reads no image. is_in_memory: the images were given, not read."""
    return tuple(_report(name, row.provenance, config, data, is_in_memory) for name, row in schedules.items())


def notes_on(schedule: Schedule, config: EvaluationConfig, searched: Sequence[LeakageReport]) -> tuple[str, ...]:
    """Sentences to read before the numbers. schedule: the one whose search provides settings."""
    found = [note for row in searched for note in row.notes(config.epochs)]
    classes = settings_of(schedule).get("classes")
    if classes is not None and config.classes is None and settings_of(schedule).get("data") != config.data:
        found.append(f"The list of classes {classes} belongs to the searched data: here all classes are used")
    if (note := config.baseline_note()) is not None:
        found.append(note)
    return tuple(found)


def _report(
    row: str, provenance: Mapping[str, Any], config: EvaluationConfig, data: EvaluationData, is_in_memory: bool
) -> LeakageReport:
    settings = _settings(provenance)
    seen = SeenImages.from_json(provenance.get("images_seen"))
    has_this_name = settings.get("data") == config.data
    count, share_there = None, 1.0
    if config.data in DATASET_NAMES and not is_in_memory:
        count = _count_by_settings(settings, config) if has_this_name and seen is None else None
    elif seen is not None:
        count, share_there = _count_by_images(seen, data)
    has_its_images = count is not None and seen is not None and share_there >= SHARE_OF_THE_SAME_DATA
    is_same_data = has_this_name or has_its_images or bool(count and count.n_seen)
    return LeakageReport(
        row=row,
        epochs_finished=count_of(provenance.get("epochs_finished")),
        epochs_planned=count_of(settings.get("epochs")),
        test_images_seen=None if count is None else count.n_seen,
        test_images=data.n_test,
        seen_is_estimate=count is not None and count.is_estimate,
        is_same_data=is_same_data,
        changes=_changes(provenance, settings, seen, share_there, config, data) if is_same_data else (),
    )


def _count_by_settings(settings: Mapping[str, Any], config: EvaluationConfig) -> SeenCount | None:
    """On a built-in dataset, whose images never change, by making the search's split again."""
    try:
        searched = DataConfig.make({name: settings[name] for name in DataConfig.model_fields if name in settings})
        if (searched.split_seed, searched.classes) == (config.split_seed, config.classes):
            return SeenCount(0, 0, is_estimate=False)
        source, its_source = find_source(config), find_source(searched)
        if source.test is not None:
            # A search never opens it.
            return SeenCount(0, 0, is_estimate=False)
        its_splits = split(its_source, searched.train_size, searched.val_size, searched.split_seed)
    except HbaError:
        return None
    test = listing_of_test(source, test_pool(source, split(source, None, None, config.split_seed)))
    return SeenImages.of_listing(listing_of_search(its_source, its_splits)).overlap(all_hashes(test.chosen))


def _count_by_images(seen: SeenImages, data: EvaluationData) -> tuple[SeenCount | None, float]:
    """How many test images were seen, and the share of the searched images that still exist."""
    if data.listing is not None and seen.kind == data.listing.kind:
        there = all_hashes(data.listing.everything)
        return seen.overlap(all_hashes(data.listing.chosen)), seen.share_among(there)
    if data.listing is None and isinstance(data.train, LabelledImages) and isinstance(data.test, LabelledImages):
        train, test = (list(hashes_of_pixels(part.images)) for part in (data.train, data.test))
        return (seen.overlap(test) if seen.kind == "pixels" else None), seen.share_among([*train, *test])
    return None, 1.0


def _changes(
    provenance: Mapping[str, Any],
    settings: Mapping[str, Any],
    seen: SeenImages | None,
    share_there: float,
    config: EvaluationConfig,
    data: EvaluationData,
) -> tuple[str, ...]:
    """How the data have changed since the search."""
    changes = []
    class_names = provenance.get("class_names")
    if isinstance(class_names, list) and class_names != list(data.class_names):
        changes.append(f"classes {shown_classes(data.class_names)}, in the search {shown_classes(class_names)}")
    if seen is not None and data.listing is not None:
        if seen.n_source not in (None, data.listing.n_images):
            changes.append(f"{data.listing.n_images} images, in the search {seen.n_source}")
        if share_there < 1:
            changes.append(f"{100 * (1 - share_there):.2g} % of the searched images are not there")
    seed = settings.get("split_seed")
    if seed is not None and seed != config.split_seed:
        changes.append(f"split seed {config.split_seed}, in the search {seed}")
    return tuple(changes)


def shown_classes(names: Sequence[str]) -> str:
    """`cat, dog`; of many classes, the first and how many more."""
    return first_of(list(map(str, names)), SHOWN_CLASSES)


def settings_of(schedule: Schedule) -> Mapping[str, Any]:
    """The settings of its search; empty where it does not record them."""
    return _settings(schedule.provenance)


def _settings(provenance: Mapping[str, Any]) -> Mapping[str, Any]:
    settings = provenance.get("settings")
    return settings if isinstance(settings, Mapping) else {}
