"""On a GPU the host never waits for the device: nothing that a policy does depends on values.

Tensors on PyTorch's device "meta" have shapes and no values, so every look at a value raises.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from mixed_draws import SPACES, mirror, space_of_one
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

from hba.operations import OPERATIONS, Operation
from hba.policy.draw import draw_operations
from hba.policy.module import Policy
from hba.policy.space import SearchSpace

# The strict operations of the others look at values, to refuse magnitudes that are not theirs.
FREE_SPACES = {name: SPACES[name] for name in ("nearest", "bilinear", "nearest and bilinear")}
FREE_SPACES["own operation"] = SearchSpace((Operation("Mirror", mirror), OPERATIONS["Cutout"]))

any_space = pytest.mark.parametrize("name", FREE_SPACES)
any_operation = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda operation: operation.name)


def on_meta(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


class NothingFromTheHost(TorchFunctionMode):
    """Refuses to make tensors of numbers in Python: on a GPU they are copied, and the host waits for that."""

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if function in (torch.tensor, torch.as_tensor, torch.from_numpy, Tensor.new_tensor):
            raise AssertionError(f"{function.__name__} copies numbers from the host")
        return function(*args, **(kwargs or {}))


@any_operation
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((5, 3, 8, 6), torch.float32),
        ((5, 1, 1, 7), torch.float64),
        ((1, 3, 2, 2), torch.float16),
        ((0, 3, 8, 8), torch.float32),
    ],
)
def test_no_operation_looks_at_values(
    operation: Operation, interpolation: str, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    space = space_of_one(operation.with_interpolation(interpolation))
    result = Policy(space, on_meta((space.n,)))(on_meta(shape, dtype))
    assert (result.shape, result.dtype, result.device.type) == (shape, dtype, "meta")


@any_space
@pytest.mark.parametrize("n_rows", [None, 6])
def test_draw_and_replay_look_at_no_values(name: str, n_rows: int | None) -> None:
    space = FREE_SPACES[name]
    policy = Policy(space, on_meta((space.n,) if n_rows is None else (n_rows, space.n)))
    draw = policy.draw(6)
    assert draw.slots.shape == draw.magnitudes.shape == (6, space.max_count)
    assert draw.positions.shape == (6, space.max_count, 2)
    assert {tensor.device.type for tensor in (draw.slots, draw.magnitudes, draw.positions)} == {"meta"}
    result = policy.replay(on_meta((6, 3, 9, 9)), draw)
    assert (result.shape, result.device.type) == ((6, 3, 9, 9), "meta")


@pytest.mark.parametrize("searches_count", [False, True])
@pytest.mark.parametrize("n_rows", [None, 6])
def test_draws_around_rows_look_at_no_values_and_take_none_from_the_host(
    searches_count: bool, n_rows: int | None
) -> None:
    space = SearchSpace(searches_count=searches_count)
    values, spread = (on_meta((space.n,) if n_rows is None else (n_rows, space.n)) for _ in range(2))
    draw_operations(space, values, 6, spread=spread)
    with NothingFromTheHost():
        draw = draw_operations(space, values, 6, spread=spread)
    assert draw.magnitudes.shape == (6, 2)
    assert draw.magnitudes.device.type == "meta"


WAYS_TO_WAIT: dict[str, Callable[[Tensor], object]] = {
    "item": lambda images: images.mean().item(),
    "list": lambda images: images.tolist(),
    "condition": lambda images: images / 2 if images.mean() > 0.5 else images,
    "mask": lambda images: images[images > 0.5],
    "nonzero": lambda images: images.nonzero(),
    "copy": lambda images: images.cpu(),
}


@pytest.mark.parametrize("way", WAYS_TO_WAIT)
def test_an_operation_that_looks_at_values_is_noticed(way: str) -> None:
    """The tests above can fail."""

    def curious(images: Tensor) -> Tensor:
        WAYS_TO_WAIT[way](images)
        return images / 2

    space = space_of_one(Operation("Curious", curious))
    with pytest.raises((RuntimeError, NotImplementedError), match=r"[mM]eta"):
        Policy(space, on_meta((1,)))(on_meta((2, 3, 4, 4)))


@any_space
def test_after_the_first_call_nothing_comes_from_the_host(name: str) -> None:
    space = FREE_SPACES[name]
    policy = Policy(space, on_meta((space.n,)))
    images = on_meta((6, 3, 9, 9))
    policy(images)
    with NothingFromTheHost():
        policy(images)


def test_numbers_from_the_host_are_noticed() -> None:
    def constant(images: Tensor) -> Tensor:
        return images * torch.tensor([0.5], device=images.device)

    policy = Policy(space_of_one(Operation("Constant", constant)), on_meta((1,)))
    policy(on_meta((2, 3, 4, 4)))
    with NothingFromTheHost(), pytest.raises(AssertionError, match="tensor copies numbers from the host"):
        policy(on_meta((2, 3, 4, 4)))


@pytest.mark.skipif(not torch.backends.cuda.is_built(), reason="this PyTorch cannot pretend to have a GPU")
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_all_tensors_are_on_the_device_of_the_images(interpolation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With tensors that pretend to be on a GPU, two devices in one operation are an error."""
    space = SearchSpace(tuple(operation.with_interpolation(interpolation) for operation in OPERATIONS.values()))
    Policy(space, torch.zeros(space.n)).draw(1)
    # Nothing is kept for later tests as in a program that is compiled: it would pretend there, too.
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    with FakeTensorMode():
        policy = Policy(space, torch.empty(space.n, device="cuda"))
        assert policy(torch.empty(5, 3, 8, 8, device="cuda")).device.type == "cuda"
        with pytest.raises(RuntimeError, match="device"):
            policy(torch.empty(5, 3, 8, 8))
