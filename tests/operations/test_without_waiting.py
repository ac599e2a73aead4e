"""On a GPU the host never waits for the device: nothing that a policy does depends on
values.

Tensors on PyTorch's device "meta" have shapes and no values, so every look at a value
raises.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from mixed_draws import SPACES, mirror
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

from hba.operations import OPERATIONS, STAGED, Operation
from hba.policy.draw import draw_with_trace
from hba.policy.module import Policy
from hba.policy.space import SearchSpace
from hba.policy.spaces import SPACES as NAMED_SPACES

# The strict operations of the others look at values, to refuse magnitudes that are not
# theirs.
FREE_SPACES = {
    "full": NAMED_SPACES["full"],
    "bilinear": SPACES["bilinear"],
    "nearest and bilinear": SPACES["nearest and bilinear"],
    "own operation": SearchSpace((Operation("Mirror", mirror), OPERATIONS["Cutout"])),
}


def on_meta(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


class NothingFromTheHost(TorchFunctionMode):
    """Refuses to make tensors of numbers in Python: on a GPU they are copied, and the
    host waits for that.
    """

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: Any = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if function in (
            torch.tensor,
            torch.as_tensor,
            torch.from_numpy,
            Tensor.new_tensor,
        ):
            raise AssertionError(f"{function.__name__} copies numbers from the host")
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", FREE_SPACES)
def test_draw_and_replay_look_at_no_values_and_later_take_none_from_the_host(
    name: str,
) -> None:
    space = FREE_SPACES[name]
    for shape in ((space.n,), (6, space.n)):
        policy = Policy(space, on_meta(shape))
        images = on_meta((6, 3, 9, 9))
        sample = policy.draw(6)
        assert sample.slots.shape == sample.magnitudes.shape == (6, len(space.steps))
        assert policy.replay(images, sample).shape == images.shape
        with NothingFromTheHost():
            policy(images)


@pytest.mark.parametrize("searches_count", [False, True])
def test_draws_around_a_row_look_at_no_values(searches_count: bool) -> None:
    space = SearchSpace(searches_count=searches_count)
    values = on_meta((6, space.n))
    spread = on_meta((6, space.n))
    draw_with_trace(space, values, 6, spread=spread)
    with NothingFromTheHost():
        sample, _ = draw_with_trace(space, values, 6, spread=spread)
    assert sample.magnitudes.device.type == "meta"


@pytest.mark.skipif(
    not torch.backends.cuda.is_built(),
    reason="this PyTorch cannot pretend to have a GPU",
)
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_all_tensors_are_on_the_device_of_the_images(
    interpolation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With tensors that pretend to be on a GPU, two devices in one operation are an
    error.
    """
    # kornia's homographies are written element by element, which pretended tensors are
    # not.
    operations = [
        operation
        for operation in (*OPERATIONS.values(), *STAGED.values())
        if operation.name != "Perspective"
    ]
    space = SearchSpace(
        tuple(operation.with_interpolation(interpolation) for operation in operations)
    )
    Policy(space, torch.zeros(space.n)).draw(1)
    # Nothing is kept for later tests as in a program that is compiled: it would pretend
    # there, too.
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    with FakeTensorMode():
        policy = Policy(space, torch.empty(space.n, device="cuda"))
        assert policy(torch.empty(5, 3, 8, 8, device="cuda")).device.type == "cuda"
        with pytest.raises(RuntimeError, match="device"):
            policy(torch.empty(5, 3, 8, 8))
