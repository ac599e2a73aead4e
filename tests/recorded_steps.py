"""Records steps on a CPU as a GPU records them: the kernels of one run, without the Python that launched them."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_unflatten

from hba.utils.graphs import Tensors

T = TypeVar("T")


class TracingRecorder:
    """Records a step as a list of PyTorch's operations, with the tensors and generators that they change."""

    def run(self, step: Callable[..., T], inputs: Tensors) -> T:
        return step(*inputs)

    def check(self, step: Callable[..., T], inputs: Tensors) -> tuple[T, str | None]:
        from speeds.launches import Launches  # of benchmarks

        with Launches() as found:
            outputs = step(*inputs)
        return outputs, found.waits[0] if found.waits else None

    def record(self, step: Callable[..., T], inputs: Tensors) -> tuple[T, Callable[[], object]]:
        outputs: list[Any] = []

        def flat(*given: torch.Tensor) -> list[torch.Tensor]:
            leaves, form = tree_flatten(step(*given))
            outputs[:] = [leaves, form]
            return [one for one in leaves if isinstance(one, torch.Tensor)]

        # Tracing also runs the step.
        kernels = make_fx(flat)(*inputs)
        leaves, form = outputs
        places = [number for number, one in enumerate(leaves) if isinstance(one, torch.Tensor)]
        static = [leaves[number].detach() for number in places]

        def replay() -> None:
            with torch.no_grad():
                for own, new in zip(static, kernels(*inputs), strict=True):
                    own.copy_(new)

        for number, own in zip(places, static, strict=True):
            leaves[number] = own
        return tree_unflatten(leaves, form), replay
