"""A search's progress as a bar."""

from collections.abc import Mapping

from hba.policy_search.callbacks import SearchCallback
from hba.policy_search.plan import SearchPlan
from hba.utils.progress import ShowsBar
from hba.utils.text import first_of

SHOWN_REGULARIZERS = 2


class SearchProgress(ShowsBar, SearchCallback):
    """Shows a bar, as a context, in a terminal or a notebook: images that are read, then steps and the last epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.n_epochs = 0
        self.validation_error = "-"
        self.text = ""
        self.regularizers: Mapping[str, float] = {}

    def planned(self, plan: SearchPlan) -> None:
        self.begin(plan)
        for note in plan.notes:
            self.bar.say(note)

    def started(self, step: int, total_steps: int, batch_size: int, n_epochs: int) -> None:
        self.n_epochs = n_epochs
        self.bar.begin("first epoch", step, total_steps, "images", per_step=batch_size)

    def begin(self, plan: SearchPlan) -> None:
        """Know what is tuned, without saying anything."""
        self.regularizers = plan.regularizers

    def step_done(self, step: int) -> None:
        self.bar.advance_to(step)

    def policy_noted(self, epoch: int, values: Mapping[str, float]) -> None:
        self.regularizers = {name: values[name] for name in self.regularizers}

    def epoch_done(self, metrics: Mapping[str, float | None]) -> None:
        """`text` is then the same for each epoch: its training loss, the validation error as last measured, and the
        first regularizers.
        """
        epoch, error = int(metrics["epoch"] or 0), metrics["val_error_percent"]
        if error is not None:
            self.validation_error = f"{error:.2f} % (epoch {epoch})"
        self.text = (
            f"epoch {epoch}/{self.n_epochs}: train loss {metrics['train_loss']:.3f}, "
            f"validation error {self.validation_error}{self._regularizers()}"
        )
        self.bar.describe(self.text)

    def _regularizers(self) -> str:
        found = [f"{name} {value:.3g}" for name, value in self.regularizers.items()]
        return f"; {first_of(found, SHOWN_REGULARIZERS)}" if found else ""
