"""A search algorithm of one's own: two trainings that can run in parallel."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from hba.algorithms import Algorithm, ImageProblem, SearchState, UpdateSchedule
from hba.algorithms.state import NetworkModel, Networks
from hba.config.training import CommonSearchConfig
from hba.policy.space import SearchSpace
from hba.training.metrics import measure

NEVER = -30.0
"""Logit of a probability that is almost 0."""
N_PARTS = 2


@dataclass(kw_only=True)
class TwoPartsState(SearchState[NetworkModel]):
    """The state of both trainings."""

    second: NetworkModel
    """The network that is trained with augmentation."""
    policies: Tensor
    """The lambda of each part, (2, n)."""
    losses: Tensor
    """The validation loss of each part, (2,), infinite before its end."""
    part: int = -1
    """The part of the latest step."""

    @property
    def current(self) -> NetworkModel:
        return self.second if self.part == 1 else self.learner

    def to_module(self) -> nn.Module:
        return self.current.to_module(self.lam)


class TwoParts(Algorithm[TwoPartsState, ImageProblem]):
    """Trains without and with augmentation, and keeps the better policy."""

    name: ClassVar[str] = "two-parts"
    has_parallel_parts: ClassVar[bool] = True

    @property
    def update_schedule(self) -> UpdateSchedule:
        return UpdateSchedule(self.train_steps, in_a_row=0)

    def leg_epochs(
        self, config: CommonSearchConfig, space: SearchSpace
    ) -> tuple[tuple[str, int], ...]:
        return ("plain", config.epochs), ("augmented", config.epochs)

    def epochs_of_schedule(
        self, rows: Any, config: CommonSearchConfig, space: SearchSpace
    ) -> list[int]:
        return [len(rows) - 1]

    def begin(self, problem: ImageProblem, networks: Networks) -> TwoPartsState:
        augmented = self.start(problem)
        plain = augmented.clone()
        plain[problem.space.probability_columns(plain.device)] = NEVER
        return TwoPartsState.of(
            problem,
            augmented.clone(),
            NetworkModel.of(problem, networks(0)),
            second=NetworkModel.of(problem, networks(0)),
            policies=torch.stack([plain, augmented]),
            losses=torch.full((N_PARTS,), math.inf),
        )

    def step(self, problem: ImageProblem, state: TwoPartsState) -> None:
        steps_of_part = problem.config.epochs * state.steps_per_epoch
        part = state.step // steps_of_part
        self.start_part(problem, state, part)
        images, labels = state.train_stream.next()
        lam = state.policies[part].expand(len(images), -1)
        inputs = problem.augment(images, lam, state.generator)
        state.totals.add_training(*state.current.learn(inputs, labels))
        state.current.schedule.step()
        state.step += 1
        if state.step == (part + 1) * steps_of_part:
            network = state.to_module()
            measured = measure(network, problem.data.val, problem.preprocessing.measure)
            self.end_part(problem, state, part, measured.loss)

    def most_parallel_parts(self, space: SearchSpace) -> int:
        return N_PARTS

    def parallel_parts(self, problem: ImageProblem, state: TwoPartsState) -> list[int]:
        return [part for part in range(N_PARTS) if state.losses[part].isinf()]

    def start_part(
        self, problem: ImageProblem, state: TwoPartsState, part: int
    ) -> None:
        if state.part == part:
            return
        state.part = part
        state.step = part * problem.config.epochs * state.steps_per_epoch
        state.train_stream = problem.train_stream()
        state.generator = problem.generator()
        state.totals.reset()

    def result_of_part(self, state: TwoPartsState, part: int) -> float | None:
        loss = float(state.losses[part])
        return None if math.isinf(loss) else loss

    def end_part(
        self, problem: ImageProblem, state: TwoPartsState, part: int, result: float
    ) -> None:
        state.losses[part] = result
        state.lam.detach().copy_(state.policies[state.losses.argmin()])
        remaining = self.parallel_parts(problem, state)
        next_part = remaining[0] if remaining else N_PARTS
        state.step = next_part * problem.config.epochs * state.steps_per_epoch

    def findings(self, problem: ImageProblem, state: TwoPartsState) -> dict[str, Any]:
        return {"losses": state.losses.tolist()}
