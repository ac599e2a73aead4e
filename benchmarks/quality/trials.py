"""Look-ahead with one thing done in another way, to see what it is worth. None of it is a setting of the tool."""

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from hba.algorithms import Lookahead
from hba.algorithms.lambda_steps import GradientState
from hba.algorithms.task import Task


class EarlySteps(Lookahead):
    """Lambda steps that are twice as large in the beginning, and fall linearly to nothing: as much in all."""

    name: ClassVar[str] = "lookahead-early-steps"

    def move_lambda(self, task: Task, state: GradientState[Any], *gradients: Tensor | None) -> None:
        share = 2 * (1 - state.step / (task.config.epochs * state.steps_per_epoch))
        mover = state.mover
        mover.optimizer.param_groups[0]["lr"] = share * self.lambda_learning_rate
        mover.strength.optimizer.param_groups[0]["lr"] = share * self.strength_learning_rate
        super().move_lambda(task, state, *gradients)  # type: ignore[arg-type]


class AugmentedValidation(Lookahead):
    """Validation images of a lambda step go through the baseline augmentation, as training images do."""

    name: ClassVar[str] = "lookahead-augmented-validation"

    def validation_loss(self, task: Any, state: GradientState[Any], predict: Callable[[Tensor], Tensor]) -> Tensor:
        losses = []
        for _ in range(self.val_batches):
            images, labels = state.mover.val_stream.next()
            losses.append(self.loss(predict(task.preprocessing.train(images, state.generator)), labels))
        return torch.stack(losses).mean()
