"""What fixed policies are worth over a whole training, and what rewards say of them on the way."""

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from common.records import Results, Run
from common.settings import kept_settings
from common.tasks import Further, SearchTask
from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from hba.algorithms.inner_model import NetworkLearner
from hba.algorithms.scores import AugmentedBatch
from hba.algorithms.task import ImageTask
from hba.config.evaluation import EvaluationConfig
from hba.data.batches import as_floats
from hba.data.images import Images
from hba.errors import DivergedError
from hba.policy_search.context import SearchContext
from hba.training.augmentation import Augmentation, ScheduleAugmentation
from hba.utils.seeding import generator_for
from quality.policies import POLICIES, REFERENCE, SPACE, definition_of, schedule_of
from quality.tasks import RowTask, row_task
from quality.variants import VARIANTS, Batches, Judge

REWARDS = "rewards"
"""What runs that judge policies are called; those that train with a policy have its name."""
PLACES = (0.05, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95)
"""Of a training, where policies are judged, as shares of its steps."""
AVERAGE_DECAY = 0.98
"""Of the exponential average of the weights, per step."""


@dataclass(frozen=True)
class PolicyTask(RowTask):
    """A training by a fixed policy, measured on the search's validation images."""

    @property
    def settings(self) -> dict[str, Any]:
        return kept_settings(self.config)

    @property
    def fill(self) -> tuple[float, ...]:
        return self._searched.fill or self._search.data.train.mean_color()

    def augmented(self) -> tuple[EvaluationConfig, Augmentation]:
        return self.config, ScheduleAugmentation(schedule_of(self.name, self.fill))

    def task(self) -> tuple[ImageTask, NetworkLearner]:
        """Of a search with the same images and settings, and its network before the first step."""
        setup = SearchContext.of(self._searched, self._search.data, None, SPACE, self._searched.network_start())
        return setup.task, NetworkLearner.of(setup.task, setup.networks(0))


@dataclass(frozen=True)
class CreditTask:
    """One network, trained by RandAugment's policy as a search trains its own, judges images of every policy at several
    places. training: the one by that policy.
    """

    training: PolicyTask
    further: Further

    @property
    def run(self) -> Run:
        return Run(REWARDS, self.training.label, self.training.settings, self.training.seed, self.further)

    def do(self) -> Results:
        """The seconds, and for each place in their order its share of the steps, the learning rate of the next step,
        and what `judged` found.
        """
        began = time.monotonic()
        keys = ("place", "learning_rate", "rewards")
        places = [dict(zip(keys, found, strict=True)) for found in self._places()]
        return {"places": places, "seconds": time.monotonic() - began}

    def estimated_seconds(self) -> float:
        task, learner = self.training.task()
        some = batches_of(task, task.data.train)[:1]
        judge = Judge.of(learner.network, learner.network, some, some)
        # The first derivative takes longer than all others.
        rewards_by_variant(task, judge, REFERENCE, some, task.generator())
        began = time.monotonic()
        rewards_by_variant(task, judge, REFERENCE, some, task.generator())
        n_batches = math.ceil(len(task.data.train) / len(some[0][1]))
        judging = (time.monotonic() - began) * n_batches * len(POLICIES) * len(PLACES)
        return judging + self.training.estimated_seconds()

    def _places(self) -> Iterator[tuple[float, float, dict[str, Any]]]:
        task, learner = self.training.task()
        average = get_ema_multi_avg_fn(AVERAGE_DECAY)
        averaged = AveragedModel(learner.network, multi_avg_fn=average, use_buffers=True)
        stream, generator = task.train_stream(), task.generator()
        values = values_of(REFERENCE, task)
        n_steps = task.config.epochs * stream.batches_per_pass
        val, train = (_without_augmentation(task, part) for part in (task.val, task.data.train))
        for step in range(1, n_steps + 1):
            images, labels = stream.next()
            learner.learn(task.augment_with(values, images, generator)[0], labels)
            averaged.update_parameters(learner.network)
            for place in places_at(step, n_steps):
                judge = Judge.of(learner.network, averaged.module, val, train)
                yield place, learner.learning_rate, judged(task, judge, place)


def credit_tasks(search: SearchTask) -> list[PolicyTask | CreditTask]:
    """A training by each policy, then one that judges them all. search: whose images, seed and settings of trainings
    they have; it is not searched.
    """
    config = row_task(REFERENCE, search, tested=False).config
    trainings = [
        PolicyTask(
            *(name, search.label, config, search.config.seed, search),
            {**search.further, "policy": definition_of(name)},
            view=search.view,
        )
        for name in POLICIES
    ]
    judged_too = {"policies": {name: definition_of(name) for name in POLICIES}, "variants": list(VARIANTS)}
    of_rewards = {**search.further, **judged_too, "places": list(PLACES), "average_decay": AVERAGE_DECAY}
    return [*trainings, CreditTask(trainings[0], of_rewards)]


def places_at(step: int, n_steps: int) -> list[float]:
    """Those after that step, counted from 1; several where a training is short."""
    return [place for place in PLACES if max(1, int(place * n_steps)) == step]


def judged(task: ImageTask, judge: Judge, place: float) -> dict[str, dict[str, Any]]:
    """By variant: the mean reward of the training images as RandAugment's policy augments them, and by policy how far
    others are from it. All policies draw from the same random numbers.

    Raises DivergedError for rewards that are not finite.
    """
    images, purpose = batches_of(task, task.data.train), f"draws that are judged at {place}"
    rewards = {
        name: rewards_by_variant(task, judge, name, images, generator_for(task.config.seed, purpose, task.device))
        for name in POLICIES
    }
    if not all(torch.cat(list(by_variant.values())).isfinite().all() for by_variant in rewards.values()):
        raise DivergedError(f"rewards at {place:g} of the training are not finite; try a smaller learning rate")
    found = {}
    for variant in VARIANTS:
        reference = rewards[REFERENCE][variant]
        differences = {name: differences_of(rewards[name][variant], reference) for name in POLICIES}
        found[variant] = {"mean": _rounded(reference.mean()), "policies": differences}
    return found


def differences_of(rewards: Tensor, reference: Tensor) -> dict[str, float]:
    """Of two policies' rewards for the same images (N,): the mean difference, and its standard error."""
    difference = rewards - reference
    return {
        "difference": _rounded(difference.mean()),
        "standard_error": _rounded(difference.std() / math.sqrt(len(difference))),
    }


def _rounded(number: Tensor) -> float:
    """Of a tensor (), with as many digits as records need."""
    return float(f"{float(number):.6g}")


def rewards_by_variant(
    task: ImageTask, judge: Judge, policy: str, batches: Batches, generator: torch.Generator
) -> Mapping[str, Tensor]:
    """Of all images (N,), each augmented once. batches: as floats in [0, 1], before the policy."""
    values = values_of(policy, task)
    found: list[dict[str, Tensor]] = []
    for images, labels in batches:
        inputs, walk = task.augment_with(values, images, generator)
        found.append(judge.rewards(AugmentedBatch(inputs, labels, walk, values, torch.zeros_like(values), 0.0)))
    return {variant: torch.cat([one[variant] for one in found]) for variant in VARIANTS}


def values_of(policy: str, task: ImageTask) -> Tensor:
    """Its row (n,), on the device."""
    fill = tuple(task.fill.tolist())
    return torch.tensor(schedule_of(policy, fill).values[0], dtype=torch.float32, device=task.device)


def batches_of(task: ImageTask, images: Images) -> list[tuple[Tensor, Tensor]]:
    """All images as floats in [0, 1], in batches of the training's size, and their labels."""
    return [(as_floats(part), labels) for part, labels in images.once(task.config.batch_size)]


def _without_augmentation(task: ImageTask, images: Images) -> list[tuple[Tensor, Tensor]]:
    """As the network measures them."""
    return [(task.preprocessing.measure(part), labels) for part, labels in batches_of(task, images)]
