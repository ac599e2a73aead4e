"""Counts the calls that launch kernels, without a GPU."""

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar
from unittest import mock

import pandas as pd
import torch
from common.records import Record, Results, Run
from common.tables import markdown
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from hba.algorithms import rewards
from hba.operations import apply
from hba.packed import images
from hba.policy.draw import apply_operations, draw_with_trace
from hba.policy_search.config import SearchConfig
from hba.policy_search.context import ImageSearchContext
from hba.schedule.library import load_policy
from hba.utils.graphs import StepGraphs
from speeds.steps import BATCHES, LEARNING_RATE, noise_data, settings_of

GPU = torch.device("cuda", 7)
"""A device that nothing else uses, because constants are kept by device."""
POLICIES = ("randaugment", "photo", "timm", "cifar10-copy")
ALGORITHMS = ("lookahead", "hba", "stn", "delta-stn")
KINDS = {
    "train_step": "training step",
    "update_weights": "training step",
    "gradient": "gradient of lambda",
}
"""By the function that a graph records."""
RESERVING = {
    "empty",
    "empty_like",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "lift_fresh",
}
"""Operations that only reserve memory."""
ASKING = {"device", "is_same_size", "_has_same_storage_numel"}
"""Operations that only ask for a property of a tensor, as derivatives in forward mode
do.
"""

INDEXING = (torch.ops.aten.index, torch.ops.aten.index_put, torch.ops.aten.index_put_)
FAKE = FakeTensorMode()
"""Makes tensors that have shapes, types and a device, but no content. One for all,
because constants are kept.
"""

T = TypeVar("T")


def host_read(
    function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> str | None:
    """The name of an operation that needs values or tensors on the host, and why; None
    for all others.
    """
    if function.overloadpacket in INDEXING:
        # A mask selects as many numbers as it has true values; the shape of other
        # results is known.
        by_content = any(
            isinstance(argument, Tensor) and argument.dtype in (torch.bool, torch.uint8)
            for argument in args[1]
        )
    else:
        by_content = bool(
            {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
            & {*function.tags}
        )
    if by_content:
        return f"{function} needs values"
    devices = {
        leaf.device for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)
    }
    devices |= (
        {torch.device(kwargs["device"])}
        if kwargs.get("device") is not None and devices
        else set()
    )
    # Derivatives in forward mode make tensors without content, on the device `meta`.
    kinds = {device.type for device in devices} - {"meta"}
    return (
        f"{function} copies from {' to '.join(sorted(kinds))}"
        if len(kinds) > 1
        else None
    )


class Launches(TorchDispatchMode):
    """Counts calls that launch kernels.

    Attributes:
        names: The operations that launch a kernel, in their order.
        waits: The operations for which the host would wait.
    """

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.waits: list[str] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = function.overloadpacket.__name__
        if (wait := host_read(function, args, kwargs or {})) is not None:
            self.waits.append(wait)
        if not (function.is_view or name in RESERVING | ASKING):
            self.names.append(name)
        return function(*args, **(kwargs or {}))


def of_policy(name: str, batch_size: int = 128, side: int = 32) -> Launches:
    """A call of the policy of a recipe, after a first call that makes its constants."""
    schedule = load_policy(name)
    space = schedule.space
    candidates = schedule.space.candidates(schedule.values)
    with FAKE:
        values = torch.zeros(space.n, device=GPU)
        batch = torch.zeros(batch_size, 3, side, side, device=GPU)
        for _ in range(2):
            with Launches() as counted:
                draw, _ = draw_with_trace(space, values, batch_size)
                apply_operations(
                    space, draw, batch, apply.fill_for(batch, schedule.fill), candidates
                )
    return counted


def of_compiled_policy(name: str, batch_size: int = 128, side: int = 32) -> int:
    """Kernels of a compiled call: those that Inductor generates, here for a CPU, and
    PyTorch's that it calls.
    """
    from torch._inductor import metrics
    from torch._inductor.utils import run_and_get_code

    torch.compiler.reset()
    metrics.reset()
    policy = torch.compile(load_policy(name).policy(0), fullgraph=True, dynamic=False)
    _, (code,) = run_and_get_code(policy, torch.zeros(batch_size, 3, side, side))
    called = re.findall(
        r"^ +(?:buf\d+ = torch\.ops\.)?aten\.\w+\.\w+\(", code, re.MULTILINE
    )
    return metrics.generated_kernel_count + len(called)


class CountingGraphs(StepGraphs):
    """Runs steps, and counts what each launches, by the name of its function."""

    def __init__(self) -> None:
        super().__init__()
        self.counted: dict[str, Launches] = {}

    def run(self, key: Hashable, step: Callable[..., T], *inputs: Tensor) -> T:
        function: Any = step
        while hasattr(function, "func"):
            function = function.func
        with Launches() as launches:
            outputs = step(*inputs)
        self.counted[function.__name__] = launches
        return outputs


def of_algorithm(
    name: str, model: str = "wrn-40-2", side: int = 8, batch_size: int = 4
) -> dict[str, Launches]:
    """The steps of a search, by the function that a graph records, on a CPU, but with
    operations and parts as on a GPU.

    What they launch does not depend on the sizes. PyTorch without CUDA has no backward
    pass for fake tensors on a GPU.
    """
    settings = {
        "data": "noise",
        "algorithm": name,
        **settings_of(model, side, batch_size, "cpu"),
    }
    more_settings = (
        {"reward_derivative": "exact"} if name == "lookahead" else {"warm_up_epochs": 0}
    )
    config = SearchConfig.make(
        {**settings, **more_settings, "learning_rate": LEARNING_RATE}
    ).resolved()
    context = ImageSearchContext.of(
        config, noise_data(side, BATCHES * batch_size, BATCHES * batch_size)
    )
    algorithm = config.algorithm
    graphs = CountingGraphs()
    state = algorithm.begin(context.problem, context.networks)
    state.graphs = graphs
    with (
        mock.patch.object(apply, "needs_fixed_shapes", return_value=True),
        mock.patch.object(images, "can_run", return_value=False),
        mock.patch.object(rewards, "n_parts_of", return_value=1),
    ):
        for _ in range(2 * algorithm.train_steps):
            algorithm.step(context.problem, state)
    return graphs.counted


def record_of_launches(made_by: Mapping[str, Any]) -> Record:
    policies = {name: of_policy(name) for name in POLICIES}
    steps = {
        name: {KINDS[step]: counted for step, counted in of_algorithm(name).items()}
        for name in ALGORITHMS
    }
    all_launches = [
        *policies.values(),
        *(
            launches
            for launches_by_step in steps.values()
            for launches in launches_by_step.values()
        ),
    ]
    results: Results = {
        "policies": {name: len(launches.names) for name, launches in policies.items()},
        "compiled": {name: of_compiled_policy(name) for name in POLICIES},
        "steps": {
            name: {
                step_kind: len(launches.names)
                for step_kind, launches in launches_by_step.items()
            }
            for name, launches_by_step in steps.items()
        },
        "waits": sorted({wait for launches in all_launches for wait in launches.waits}),
    }
    size = {"model": "wrn-40-2", "image_size": 32, "batch_size": 128}
    return Record(Run("launches", "noise", size, seed=0), results, made_by)


def launch_table(records: Sequence[Record]) -> str:
    """Markdown tables of the calls that launch something."""
    results = records[-1].results
    calls = {"a call": results["policies"], "a call, compiled": results["compiled"]}
    policy_table = pd.DataFrame(
        [
            {"": call, **{name: str(count) for name, count in counts.items()}}
            for call, counts in calls.items()
        ]
    )
    step_rows = [
        {"": name, **{step_kind: f"{count:,}" for step_kind, count in counts.items()}}
        for name, counts in results["steps"].items()
    ]
    return f"{markdown(policy_table)}\n\n{markdown(pd.DataFrame(step_rows))}"
