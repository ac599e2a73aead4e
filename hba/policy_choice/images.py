"""The images of a run of `hba auto`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from hba.data.config import DataConfig
from hba.data.formats import find_source
from hba.data.images import EvaluationData
from hba.data.load import AnyDataset, load_search_data
from hba.errors import DataError
from hba.policy_choice.contest import contest_data
from hba.policy_search.config import SearchConfig
from hba.tasks import task_of

ContestImages = tuple[EvaluationData, Sequence[Tensor | None]]
"""All labelled images, and for each seed those that it holds out, as contest_data
returns them.
"""


class RunImages:
    """The images of a run, which may be in files or in memory.

    Args:
        data: The path or name of the data.
        datasets: Training and test data in memory; None for images in files.
        in_color: Whether grey images become color images, as all networks but the
            user's own take them.
        on_read: Called while images are read, with how many have been read, of how
            many.
    """

    def __init__(
        self,
        data: str,
        datasets: tuple[AnyDataset, AnyDataset] | None,
        *,
        in_color: bool,
        on_read: Callable[[int, int], None],
    ) -> None:
        self.data = data
        self.datasets = datasets
        self.in_color = in_color
        self.on_read = on_read
        self._has_own_val: bool | None = None
        self._of_contest = dict[Any, ContestImages]()

    def check_unchanged(
        self, settings: Mapping[str, Any], before: Mapping[str, int]
    ) -> None:
        """Check that no images were added or removed, which would change the test
        images.

        Args:
            settings: Settings of the run.
            before: Number of images of each class when the run began.

        Raises:
            DataError: If there are others.
        """
        if self.datasets is not None:
            return
        now = counts_of(settings, self.data)
        if now != before:
            raise DataError(
                f"{self.data} must keep its images during a run: it had"
                f" {before}, and has {now}"
            )

    def has_own_val(self, config: SearchConfig) -> bool:
        """Whether the data have validation images of their own, for any settings."""
        if self._has_own_val is None:
            is_in_files = self.datasets is None
            self._has_own_val = is_in_files and find_source(config).val is not None
        return self._has_own_val

    def of_contest(self, config: SearchConfig, *, trains_on_val: bool) -> ContestImages:
        """The images of the contest, which are read once for each size.

        Args:
            config: The settings that select them.
            trains_on_val: Whether the test trains on validation images.
        """
        # To read photographs may take longer than to train on them.
        key = config.side, config.train_size, config.val_size
        if key not in self._of_contest:
            images = load_search_data(
                config, self.on_read, self.datasets and self.datasets[0]
            )
            self._of_contest[key] = contest_data(
                images.in_color() if self.in_color else images,
                trains_on_val=trains_on_val,
            )
        return self._of_contest[key]

    def forget(self) -> None:
        """Free the memory of images of other sizes."""
        self._of_contest.clear()


def counts_of(settings: Mapping[str, Any], data: str) -> dict[str, int]:
    """Number of images per class, or of all images if labels are masks, without the
    data's own validation or test split.

    Args:
        settings: Settings, of which those of the data count.
        data: The path or name of the data.

    Raises:
        DataError: For unusable data.
    """
    of_data = {
        name: value
        for name, value in settings.items()
        if name in DataConfig.model_fields
    }
    source = find_source(DataConfig.make({**of_data, "data": data}))
    labels = source.train.labels
    task = task_of(labels)
    if task.has_masks:
        # How many show a class depends on the size to which masks are fitted.
        return {"images": len(labels)}
    counts = task.counts(labels, len(source.class_names))
    return dict(zip(source.class_names, counts.tolist(), strict=True))
