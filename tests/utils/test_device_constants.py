"""Constants are made once for each arguments, and compiled programs make their own."""

import torch
from torch import Tensor

from hba.utils.device_constants import device_constant


class CuriousKey(list[int]):
    """Hashable for Python; a compiler of PyTorch programs cannot trace its hash."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def test_a_constant_is_made_once_for_its_arguments() -> None:
    @device_constant
    def ones(count: int) -> Tensor:
        return torch.ones(count)

    assert ones(2) is ones(2)
    assert len(ones(3)) == 3


def test_what_others_asked_for_does_not_keep_a_program_from_being_compiled() -> None:
    @device_constant
    def ones(count: int, _: object) -> Tensor:
        return torch.ones(count)

    ones(2, CuriousKey())

    def plus_one(numbers: Tensor) -> Tensor:
        return numbers + ones(3, None)

    torch.compiler.reset()
    result = torch.compile(plus_one, fullgraph=True, backend="eager")(torch.zeros(3))
    torch.compiler.reset()
    assert result.tolist() == [1.0, 1.0, 1.0]
