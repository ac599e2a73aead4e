"""How a search tells what it is doing, and is asked to stop."""

from collections.abc import Mapping

from hba.policy_search.plan import SearchPlan
from hba.policy_search.result import SearchResult


class SearchCallback:
    """Override what you need; the defaults do nothing. All is called from the thread that searches."""

    def images_read(self, done: int, total: int) -> None:
        """So many of the images have been read."""

    def planned(self, plan: SearchPlan) -> None:
        """All images are read and the network is made; nothing is trained yet."""

    def started(self, step: int, total_steps: int, batch_size: int, n_epochs: int) -> None:
        """The first step follows; step is above 0 for a resumed search. batch_size: images per training step."""

    def step_done(self, step: int) -> None:
        """Training step `step`, counted from 1, and the lambda steps that belong to it are done."""

    def policy_noted(self, epoch: int, values: Mapping[str, float]) -> None:
        """The schedule's row of an epoch that ends, counted from 1: values in natural units by name, as
        `Rotate.1.magnitude` or `dropout.fc1`.
        """

    def epoch_done(self, metrics: Mapping[str, float | None]) -> None:
        """An epoch ended; keys as in metrics.csv, None for what this epoch did not measure."""

    def stop_requested(self) -> bool:
        """True ends the search before its next step, with everything saved."""
        return False

    def search_ended(self, result: SearchResult) -> None:
        """After the last step, or the stop that was asked for. All is saved, the report too."""
