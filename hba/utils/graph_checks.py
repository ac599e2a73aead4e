"""Finds steps that a CUDA graph would not repeat: by whose code they run, and by
comparing a replay with eager runs.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from hba.utils.snapshot import tensors_in

LIBRARIES = ("hba", "timm", "torch", "torchvision")
"""Packages whose modules and hooks keep no state in Python that changes from step to
step.
"""
LARGEST_DIFFERENCE = 1e-2
"""Between two runs of a step, relative to what the step changes."""
LARGEST_ROUNDING = 1e-6
"""Difference that is always allowed, relative to the values."""
NOISE_FACTOR = 10.0
"""How much further than a second eager run a replay may be from the first: some kernels
add in any order.
"""

T = TypeVar("T")


class Saved(NamedTuple):
    """Copies of what a step changes."""

    tensors: list[Tensor]
    """Copies of the tensors, in the order of StepState.tensors."""
    generators: list[Tensor]
    """States of the random generators."""


class StepState:
    """What steps change: tensors, and random generators.

    These are the tensors in `state` that are on the device of the generators, and the
    generators. The attribute `is_learnt` says which tensors the optimizer changes:
    bool, one for each tensor.

    Args:
        state: Everything that steps change, as tensors_in takes it.
        generators: Those that steps draw from.
        optimizer: None if steps change no weights.
    """

    def __init__(
        self,
        state: Any,
        generators: Sequence[torch.Generator],
        optimizer: Optimizer | None = None,
    ) -> None:
        self.generators = generators
        self.tensors = self.on_device(state)
        learnt = (
            []
            if optimizer is None
            else tensors_in([group["params"] for group in optimizer.param_groups])
        )
        places = {tensor.data_ptr() for tensor in (*learnt, *tensors_in(optimizer))}
        self.is_learnt = torch.tensor(
            [tensor.data_ptr() in places for tensor in self.tensors], dtype=torch.bool
        )

    def on_device(self, state: Any) -> list[Tensor]:
        device_types = {generator.device.type for generator in self.generators}
        return [
            tensor for tensor in tensors_in(state) if tensor.device.type in device_types
        ]

    def saved(self) -> Saved:
        return Saved(
            [tensor.clone() for tensor in self.tensors], self.generator_states()
        )

    def generator_states(self) -> list[Tensor]:
        return [generator.get_state() for generator in self.generators]

    def restore(self, saved: Saved) -> None:
        with torch.no_grad():
            for tensor, value in zip(self.tensors, saved.tensors, strict=True):
                tensor.copy_(value)
        for generator, generator_state in zip(
            self.generators, saved.generators, strict=True
        ):
            generator.set_state(generator_state)


def compare_runs(
    changed: StepState, run: Callable[[], T], replay: Callable[[], T]
) -> tuple[T, str | None]:
    """Run a step twice eagerly and once as a graph, all from the same state.

    The state of the first run is kept. The host waits.

    Args:
        changed: What the step changes.
        run: Runs the step eagerly.
        replay: Runs the step as a graph.

    Returns:
        The outputs of the first run, and how the other runs differ from it; None if
            they do the same up to noise.
    """
    begun = changed.saved()
    try:
        outputs = run()
        ended = changed.saved()
        first = [*ended.tensors, *changed.on_device(outputs)]

        def differences(outputs: T) -> Tensor:
            tensors = [*changed.tensors, *changed.on_device(outputs)]
            return _norms(map(_difference, tensors, first))

        n_state = len(begun.tensors)
        moved = _norms(chain(map(_difference, begun.tensors, first), first[n_state:]))
        allowed = LARGEST_DIFFERENCE * moved + LARGEST_ROUNDING * _norms(first)
        changed.restore(begun)
        noise = differences(run())
        repeats_draws = _are_equal(changed.generator_states(), ended.generators)
        changed.restore(begun)
        errors = differences(replay())
        replays_draws = _are_equal(changed.generator_states(), ended.generators)
    except BaseException:
        changed.restore(begun)
        raise
    changed.restore(ended)
    is_steady = (noise == 0) | (noise <= allowed)
    is_close = (errors == 0) | (errors <= NOISE_FACTOR * noise + allowed)
    # A gradient that is zero but for rounding differs in each run, and AdamW makes a
    # whole step of it. So most weights must repeat, not all.
    may_differ = torch.cat(
        [changed.is_learnt, torch.zeros(len(first) - n_state, dtype=torch.bool)]
    )
    weights = is_steady[may_differ & (moved > 0)]
    if not (
        repeats_draws
        and is_steady[~may_differ].all()
        and 2 * weights.sum() >= len(weights)
    ):
        reason = "two eager runs of it differ, as if its Python code kept a state"
        return outputs, reason
    if replays_draws and is_close.all():
        return outputs, None
    return outputs, "its replay differs from an eager run"


def _difference(actual: Tensor, expected: Tensor) -> Tensor:
    """Zero where both are equal, which includes infinite numbers and those that are not
    numbers.
    """
    are_equal = (actual == expected) | ((actual != actual) & (expected != expected))
    return (actual.float() - expected.float()).masked_fill_(are_equal, 0)


def _norms(tensors: Iterable[Tensor]) -> Tensor:
    """The Euclidean norms, on the CPU. One tensor at a time, because a difference takes
    memory.
    """
    norms = [torch.linalg.vector_norm(tensor.float()) for tensor in tensors]
    return torch.stack(norms).cpu() if norms else torch.zeros(0)


def _are_equal(states: list[Tensor], expected: list[Tensor]) -> bool:
    return all(map(torch.equal, states, expected))


def first_own(parts: Iterable[Any]) -> str | None:
    """The name of the first object that is not of LIBRARIES; None if all are.

    Args:
        parts: Modules, whose layers and hooks are looked at too, functions and other
            objects.
    """
    objects = [
        item
        for component in parts
        for item in (
            component.modules() if isinstance(component, nn.Module) else [component]
        )
    ]
    fields = chain(*(getattr(item, "__dict__", {}).items() for item in objects))
    by_name = [hooks for name, hooks in fields if name.endswith("_hooks")]
    hooks = chain(*map(dict.values, by_name))
    named = [
        item if hasattr(item, "__qualname__") else type(item)
        for item in (*objects, *hooks)
    ]
    return next(
        (
            item.__qualname__
            for item in named
            if item.__module__.partition(".")[0] not in LIBRARIES
        ),
        None,
    )


def random_states_of_host() -> tuple[Any, ...]:
    numpy_state: Any = np.random.get_state(legacy=True)
    return (
        random.getstate(),
        numpy_state[1].tobytes(),
        numpy_state[2:],
        torch.random.get_rng_state().numpy().tobytes(),
    )
