"""An own operation is tried when it is registered: its mistakes are told there, not during a search."""

from pathlib import Path
from typing import Any

import pytest
import torch
from own_operations import GAMMA_FILE
from torch import Tensor

from hba.errors import SettingsError
from hba.operations import Operation, register_operation, registered_operations
from hba.operations.registration import load_operations_file

pytestmark = pytest.mark.usefixtures("registered")

SEEN = "(2, 3, 32, 32)"


def fails(images: Tensor) -> Tensor:
    raise RuntimeError("not\n  today")


def takes_nothing() -> Tensor:
    return torch.zeros(1)


def gives_nothing(images: Tensor) -> None:
    pass


def gives_an_array(images: Tensor) -> Any:
    return images.numpy()


def cuts_a_row(images: Tensor) -> Tensor:
    return images[:, :, 1:]


def one_channel(images: Tensor) -> Tensor:
    return images.mean(1, keepdim=True)


def one_image(images: Tensor) -> Tensor:
    return images[0]


def doubles_the_bits(images: Tensor) -> Tensor:
    return images.double()


def grey_levels(images: Tensor) -> Tensor:
    return (images * 255).to(torch.uint8)


def works_in_place(images: Tensor) -> Tensor:
    return images.mul_(0.5)


def brightens(images: Tensor) -> Tensor:
    return images + 0.5


def goes_below(images: Tensor) -> Tensor:
    return images - 0.1


def divides(images: Tensor) -> Tensor:
    return images * float("nan")


def stays(images: Tensor) -> Tensor:
    return images


WRONG: list[tuple[Any, str]] = [
    (fails, f"Mine fails on images {SEEN}: RuntimeError: not today"),
    (takes_nothing, f"Mine fails on images {SEEN}: TypeError: takes_nothing() takes 0 positional arguments but 1 was "),
    (gives_nothing, f"Mine must return images like those it gets, torch.float32 {SEEN}, got NoneType"),
    (gives_an_array, f"Mine must return images like those it gets, torch.float32 {SEEN}, got ndarray"),
    (cuts_a_row, f"Mine must return images like those it gets, torch.float32 {SEEN}, got torch.float32 (2, 3, 31, 32)"),
    (
        one_channel,
        f"Mine must return images like those it gets, torch.float32 {SEEN}, got torch.float32 (2, 1, 32, 32)",
    ),
    (one_image, f"Mine must return images like those it gets, torch.float32 {SEEN}, got torch.float32 (3, 32, 32)"),
    (doubles_the_bits, f"Mine must return images like those it gets, torch.float32 {SEEN}, got torch.float64 {SEEN}"),
    (grey_levels, f"Mine must return images like those it gets, torch.float32 {SEEN}, got torch.uint8 {SEEN}"),
    (works_in_place, "Mine must not change the images that it gets; return new ones"),
    (brightens, "Mine must return values in [0, 1], got [0.5, 1.5] at magnitude 0; .clamp(0, 1) helps"),
    (goes_below, "Mine must return values in [0, 1], got [-0.1, 0.9] at magnitude 0; .clamp(0, 1) helps"),
    (divides, "Mine must return values in [0, 1], got [nan, nan] at magnitude 0; .clamp(0, 1) helps"),
]


@pytest.mark.parametrize(("function", "message"), WRONG, ids=[function.__name__ for function, _ in WRONG])
def test_what_a_function_does_wrong_is_told_when_it_is_registered(function: Any, message: str) -> None:
    with pytest.raises(SettingsError) as raised:
        register_operation(Operation("Mine", function))
    assert str(raised.value).startswith(message)
    assert len(str(raised.value).splitlines()) == 1
    assert registered_operations() == ()


def multiplies(images: Tensor, factor: Tensor) -> Tensor:
    return images * factor[:, None, None, None]


@pytest.mark.parametrize("magnitude_range", [(0.0, 0.5), (0.5, 0.0)])
def test_the_other_side_of_a_signed_range_is_tried(magnitude_range: tuple[float, float]) -> None:
    def brighter(images: Tensor, amount: Tensor) -> Tensor:
        return (images + amount[:, None, None, None]).clamp(max=1)

    with pytest.raises(SettingsError, match=r"got \[-0.5, 0.5\] at magnitude -0.5; "):
        register_operation(Operation("Mine", brighter, magnitude_range, "share", signed=True))
    register_operation(Operation("Unsigned", brighter, magnitude_range, "share"))


@pytest.mark.parametrize("magnitude_range", [(0.5, 2.0), (2.0, 0.5)])
def test_both_ends_of_the_range_are_tried(magnitude_range: tuple[float, float]) -> None:
    with pytest.raises(SettingsError) as raised:
        register_operation(Operation("Mine", multiplies, magnitude_range))
    assert str(raised.value).startswith("Mine must return values in [0, 1], got [0, 2] at magnitude 2; ")
    register_operation(Operation("Mine", multiplies, (0.5, 1.0)))


@pytest.mark.parametrize(
    ("options", "takes"),
    [
        ({}, ()),
        ({"magnitude_range": (0.25, 0.75)}, ((2,),)),
        ({"uses_fill": True}, ((3,),)),
        ({"uses_position": True}, ((2, 2),)),
        ({"magnitude_range": (0.25, 0.75), "uses_fill": True, "uses_position": True}, ((2,), (3,), (2, 2))),
    ],
)
def test_a_function_is_tried_with_what_it_is_said_to_take(options: Any, takes: tuple[tuple[int, ...], ...]) -> None:
    seen: list[tuple[tuple[int, ...], ...]] = []
    magnitudes: list[float] = []

    def note(images: Tensor, *others: Tensor) -> Tensor:
        assert images.dtype == torch.float32
        assert images.min() == 0
        assert images.max() == 1
        seen.append(tuple(tuple(other.shape) for other in others))
        if "magnitude_range" in options:
            magnitudes.extend(others[0].tolist())
        return images.clone()

    register_operation(Operation("Note", note, **options))
    assert set(seen) == {takes}
    assert set(magnitudes) == set(options.get("magnitude_range", ()))


def test_an_operation_that_changes_nothing_may_return_what_it_got() -> None:
    assert register_operation(Operation("Stays", stays)) in registered_operations()


def test_rounding_beyond_the_ends_is_no_mistake() -> None:
    def slightly(images: Tensor) -> Tensor:
        return (images - 0.5) * 1.000_01 + 0.5

    register_operation(Operation("Slightly", slightly))


def test_a_second_registration_that_fails_leaves_the_first() -> None:
    first = register_operation(Operation("Mine", stays))
    with pytest.raises(SettingsError):
        register_operation(Operation("Mine", brightens))
    assert registered_operations() == (first,)


def test_random_numbers_are_left_alone() -> None:
    before = torch.get_rng_state()
    register_operation(Operation("Mine", stays))
    assert torch.equal(torch.get_rng_state(), before)


def test_in_a_file_the_line_is_that_of_the_registration(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(GAMMA_FILE.replace("images **", "4 * images **"))
    with pytest.raises(SettingsError) as raised:
        load_operations_file(tmp_path / "mine.py")
    assert str(raised.value) == (
        f"{tmp_path / 'mine.py'} failed: SettingsError: Gamma must return values in [0, 1], got [0, 4] at magnitude "
        "0.5; .clamp(0, 1) helps (line 8)"
    )
