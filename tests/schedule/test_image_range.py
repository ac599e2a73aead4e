"""Normalised images are refused on every device, and only the first batch makes the host wait."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from test_transform import full_schedule
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from hba.errors import SettingsError
from hba.policy.module import RangeCheck
from hba.schedule.transform import PolicyTransform

NORMALISED = 2 * torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
IN_RANGE = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))


class CountReads(TorchDispatchMode):
    """How often the host asks for the extremes of a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.n_reads = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.n_reads += function in (torch.ops.aten.min.default, torch.ops.aten.aminmax.default)
        return function(*args, **(kwargs or {}))


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU whose values take as long to read as a GPU's."""
    monkeypatch.setattr("hba.policy.module.READ_AT_ONCE", ())


def transform() -> Callable[[Tensor], Any]:
    return PolicyTransform(full_schedule())


def policy() -> Callable[[Tensor], Any]:
    return full_schedule().policy(0)


either = pytest.mark.parametrize("make", [transform, policy])


@either
def test_where_reading_waits_the_first_batch_is_read_and_no_other(
    make: Callable[[], Callable[[Tensor], Any]], waiting: None
) -> None:
    augment = make()
    with CountReads() as first:
        augment(IN_RANGE)
    assert first.n_reads == 1
    with CountReads() as later:
        for _ in range(5):
            augment(IN_RANGE)
    assert later.n_reads == 0


@either
def test_where_reading_waits_normalised_images_are_refused_as_often_as_they_come_first(
    make: Callable[[], Callable[[Tensor], Any]], waiting: None
) -> None:
    augment = make()
    for _ in range(3):
        with pytest.raises(SettingsError, match=r"must lie in \[0, 1\], got \[-.*place the policy before"):
            augment(NORMALISED)
    augment(IN_RANGE)


@either
def test_on_a_cpu_every_batch_is_read(make: Callable[[], Callable[[Tensor], Any]]) -> None:
    augment = make()
    augment(IN_RANGE)
    with pytest.raises(SettingsError, match="place the policy before the normalisation"):
        augment(NORMALISED)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_compiled_transform_refuses_normalised_images_too() -> None:
    torch._dynamo.reset()
    augment = torch.compile(PolicyTransform(full_schedule()), backend="eager")
    assert augment(IN_RANGE).shape == IN_RANGE.shape
    with pytest.raises(SettingsError, match="place the policy before the normalisation"):
        augment(NORMALISED)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), -0.6, 1.6])
def test_one_value_out_of_range_is_enough(value: float) -> None:
    images = IN_RANGE.clone()
    images[2, 1, 3, 5] = value
    with pytest.raises(SettingsError, match="must lie in"):
        RangeCheck()(images)


def test_what_has_no_values_is_let_through() -> None:
    for images in (torch.empty(2, 3, 4, 4, device="meta"), torch.empty(0, 3, 4, 4), torch.full((3, 2, 2), 255).byte()):
        RangeCheck()(images)


@pytest.mark.gpu
@either
def test_on_a_gpu_the_first_batch_is_read_and_no_other_makes_the_host_wait(
    make: Callable[[], Callable[[Tensor], Any]],
) -> None:
    augment = make()
    augment = augment.cuda() if isinstance(augment, torch.nn.Module) else augment
    with pytest.raises(SettingsError, match="place the policy before the normalisation"):
        augment(NORMALISED.cuda())
    images = IN_RANGE.cuda()
    augment(images)
    torch.cuda.set_sync_debug_mode("error")
    try:
        augment(images)
    finally:
        torch.cuda.set_sync_debug_mode("default")
