"""A search's progress as a bar."""

from collections.abc import Mapping

from hba.policy_search.observer import SearchObserver
from hba.policy_search.plan import SearchPlan
from hba.runtime.progress import ShowsBar


class SearchProgress(ShowsBar, SearchObserver):
    """Shows a bar, as a context, in a terminal or a notebook: images that are read, then steps and the last epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.n_epochs = 0
        self.validation_error = "-"
        self.text = ""

    def planned(self, plan: SearchPlan) -> None:
        for note in plan.notes:
            self.bar.say(note)

    def started(self, step: int, total_steps: int, batch_size: int, n_epochs: int) -> None:
        self.n_epochs = n_epochs
        self.bar.begin("first epoch", step, total_steps, "images", per_step=batch_size)

    def step_done(self, step: int) -> None:
        self.bar.advance_to(step)

    def epoch_done(self, metrics: Mapping[str, float | None]) -> None:
        """`text` is then the same for each epoch: its training loss, and the validation error as last measured."""
        epoch, error = int(metrics["epoch"] or 0), metrics["val_error_percent"]
        if error is not None:
            self.validation_error = f"{error:.2f} % (epoch {epoch})"
        self.text = (
            f"epoch {epoch}/{self.n_epochs}: train loss {metrics['train_loss']:.3f}, "
            f"validation error {self.validation_error}"
        )
        self.bar.describe(self.text)
