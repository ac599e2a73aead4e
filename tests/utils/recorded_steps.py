"""Records steps on a CPU as a GPU records them: the kernels of one run, without the
Python that launched them.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from hba.utils.graph_checks import StepState
from hba.utils.graphs import StepGraphs, Tensors
from hba.utils.snapshot import tensors_in

T = TypeVar("T")


class TracingRecorder:
    """Records a step as a list of PyTorch's operations, with the tensors and generators
    that they change.

    state, generators: as StepGraphs takes them.
    """

    def __init__(
        self, state: Any = (), generators: Sequence[torch.Generator] = ()
    ) -> None:
        self.state = state
        self.generators = generators

    def clear(self) -> None:
        """Graphs share no memory here."""

    def run(self, step: Callable[..., T], inputs: Tensors) -> T:
        return step(*inputs)

    def check(self, step: Callable[..., T], inputs: Tensors) -> tuple[T, str | None]:
        from speeds.launches import Launches  # of benchmarks

        with Launches() as actual:
            outputs = step(*inputs)
        return outputs, actual.waits[0] if actual.waits else None

    def record(
        self, step: Callable[..., T], inputs: Tensors
    ) -> tuple[T, Callable[[], object]]:
        traced: list[T] = []

        def flat(*nested: torch.Tensor) -> list[torch.Tensor]:
            traced.append(step(*nested))
            return tensors_in(traced[0])

        changed = StepState(self.state, self.generators)
        begun = changed.saved()
        # Tracing runs the step, which recording does not.
        kernels = make_fx(flat)(*inputs)
        changed.restore(begun)
        (outputs,) = traced
        static = tensors_in(outputs)

        def replay() -> None:
            with torch.no_grad():
                for copies, new in zip(static, kernels(*inputs), strict=True):
                    copies.copy_(new)

        return outputs, replay


def tracing_graphs(
    state: Any,
    generator: torch.Generator,
    optimizer: torch.optim.Optimizer | None = None,
) -> StepGraphs:
    """Graphs of steps that change `state` and draw from the generator, or from
    PyTorch's default one.
    """
    generators = [generator, torch.default_generator]
    return StepGraphs(TracingRecorder(state, generators), optimizer, state, generators)
