"""Operations on images of any number of channels: each channel as if it were an image of its own."""

import pytest
import torch
from torch import Tensor

from hba.errors import SettingsError
from hba.operations import OPERATIONS, check_channels, color_for
from hba.operations.operation import Operation

FITTING = [operation for operation in OPERATIONS.values() if operation.any_channels]
UNDEFINED = ["Contrast", "Color"]
N = 6


def images_of(n_channels: int) -> Tensor:
    generator = torch.Generator().manual_seed(n_channels)
    return torch.randint(0, 256, (N, n_channels, 9, 11), generator=generator).float() / 255


def magnitudes_of(operation: Operation) -> Tensor:
    return torch.linspace(*(operation.magnitude_range or (0.0, 0.0)), N)


def test_all_but_those_that_mix_channels_take_any_number() -> None:
    assert [name for name, operation in OPERATIONS.items() if not operation.any_channels] == UNDEFINED


@pytest.mark.parametrize("n_channels", [2, 4, 7])
@pytest.mark.parametrize("operation", FITTING, ids=lambda operation: operation.name)
def test_each_channel_is_what_it_would_be_alone(operation: Operation, n_channels: int) -> None:
    images, fill = images_of(n_channels), torch.linspace(0.1, 0.9, n_channels)
    magnitude = None if operation.magnitude_range is None else magnitudes_of(operation)
    position = torch.rand(N, 2, generator=torch.Generator().manual_seed(0))
    together = operation(images, magnitude, fill=fill, position=position)
    alone = [
        operation(images[:, one : one + 1], magnitude, fill=fill[one : one + 1], position=position)
        for one in range(n_channels)
    ]
    assert torch.equal(together, torch.cat(alone, dim=1))
    assert together.shape == images.shape


@pytest.mark.parametrize("name", UNDEFINED)
def test_one_that_mixes_channels_is_refused_by_name(name: str) -> None:
    with pytest.raises(
        SettingsError, match=rf"^{name} is defined for images of 1 \(grey\) or 3 .* channels, not of 4$"
    ):
        OPERATIONS[name](images_of(4), torch.ones(N))


def test_the_refusal_says_which_operations_are_left() -> None:
    check_channels(OPERATIONS.values(), 3)
    check_channels(FITTING, 12)
    with pytest.raises(SettingsError, match=r"Contrast and Color are defined .* not of 4: choose the others") as raised:
        check_channels(OPERATIONS.values(), 4)
    listed = str(raised.value).partition("--operations ")[2].split(",")
    assert listed == [operation.name for operation in FITTING]


def test_a_fill_has_a_number_for_each_channel_or_one_for_all() -> None:
    assert color_for(4, (0.5,)) == (0.5,) * 4
    assert color_for(4, (0.1, 0.2, 0.3, 0.4)) == (0.1, 0.2, 0.3, 0.4)
    with pytest.raises(SettingsError, match="a fill of 3 numbers is for images of 3 channels, got 4"):
        color_for(4, (0.1, 0.2, 0.3))
