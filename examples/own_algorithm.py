"""Write your own search algorithm: here the policy learns to make training images hard.

Look-ahead rewards a draw by how far a step on the augmented image lowers the validation
loss. Adversarial AutoAugment (Zhang et al. 2020, eq. 4) rewards a draw by the training
loss of the augmented image. Only the reward changes: the schedule, its file and the
other commands stay the same.

    python examples/own_algorithm.py --epochs 20 --out runs/adversarial
"""

import argparse
from typing import ClassVar

import torch
from torch import Tensor

import hba
from hba.algorithms import Lookahead
from hba.algorithms.scores import AugmentedBatch
from hba.algorithms.state import NetworkModel
from hba.tasks import task_of


class Adversarial(Lookahead):
    """Your own settings are added to look-ahead's here, each with a default and a
    description.
    """

    name: ClassVar[str] = "adversarial"

    hardness: float = 1.0
    """1 rewards a high training loss, -1 a low one."""

    def rewards(
        self, learner: NetworkModel, batch: AugmentedBatch, loss: Tensor
    ) -> Tensor:
        """The reward of the draw of each image, (B,)."""
        with torch.no_grad():
            logits = learner.network(batch.images)
            losses = task_of(batch.labels).losses(logits, batch.labels)
        return self.hardness * losses


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--epochs", type=int, default=20)
    arguments.add_argument("--hardness", type=float, default=1.0)
    arguments.add_argument("--out", help="folder of the run")
    arguments.add_argument(
        "--resume", action="store_true", help="resume the run in --out"
    )
    given = arguments.parse_args()
    algorithm = Adversarial(hardness=given.hardness)
    result = hba.search(
        "digits",
        algorithm=algorithm,
        epochs=given.epochs,
        out=given.out,
        resume=given.resume,
    )
    assert result.schedule is not None
    space, values = result.schedule.space, result.schedule.values
    probabilities = [slot.probability for slot in space.slots]
    first, last = values[0, probabilities].mean(), values[-1, probabilities].mean()
    print(
        f"mean probability of an operation: {first:.3f} after epoch 1, {last:.3f} after"
        f" epoch {given.epochs}"
    )


if __name__ == "__main__":
    main()
