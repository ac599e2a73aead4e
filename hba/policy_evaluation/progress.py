"""An evaluation's progress as a bar."""

from hba.policy_evaluation.callbacks import EvaluationCallback
from hba.policy_evaluation.plan import EvaluationPlan
from hba.utils.progress import ShowsBar


class EvaluationProgress(ShowsBar, EvaluationCallback):
    """Shows a bar, as a context, in a terminal or a notebook: images that are read, then steps and the last result."""

    def __init__(self) -> None:
        super().__init__()
        self.n_steps = self.n_done = self.n_trainings = 0

    def planned(self, plan: EvaluationPlan) -> None:
        for note in plan.notes:
            self.bar.say(note)
        self.begin(plan)

    def begin(self, plan: EvaluationPlan) -> None:
        """Show the bar of the trainings that are to be done."""
        self.n_trainings = plan.n_trainings
        total = plan.n_trainings * plan.steps_per_training
        self.bar.begin(f"training 1/{plan.n_trainings}", 0, total, "images", per_step=plan.config.batch_size)

    def step_done(self) -> None:
        self.n_steps += 1
        self.bar.advance_to(self.n_steps)

    def training_done(self, name: str, seed: int, test_error_percent: float) -> None:
        self.n_done += 1
        current = min(self.n_done + 1, self.n_trainings)
        self.bar.describe(f"training {current}/{self.n_trainings} ({training_text(name, seed, test_error_percent)})")


def training_text(name: str, seed: int, test_error_percent: float) -> str:
    """`none, seed 0: test error 3.20 %`."""
    return f"{name}, seed {seed}: test error {test_error_percent:.2f} %"
