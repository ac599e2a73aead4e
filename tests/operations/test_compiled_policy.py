"""A compiled policy gives what the policy gives, without a break in its graph."""

import dataclasses
import functools
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from mixed_draws import TWO_INTERPOLATIONS, mirror, random_values
from random_inputs import eight_bit_images, seeded
from torch import Tensor

import hba
from hba.operations import Operation
from hba.policy.module import Policy, compiled_application
from hba.policy.space import SearchSpace
from hba.schedule.library import load_policy

HALF = Operation(
    "Half", lambda images, share: images * share[:, None, None, None], (0.5, 1.0)
)
OF_ALL_KINDS = SearchSpace((*TWO_INTERPOLATIONS[:2], HALF, Operation("Mirror", mirror)))
COUNTED = SearchSpace(OF_ALL_KINDS.operations, 2, (0.2, 0.4, 0.4), searches_count=True)
N_IMAGES = 40


@pytest.fixture(autouse=True)
def fresh_compiler_and_no_warnings_of_hba() -> Iterator[None]:
    """Programs of other tests count towards a limit."""
    torch.compiler.reset()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    torch.compiler.reset()
    package = Path(hba.__file__).parent
    assert [
        str(warning.message)
        for warning in caught
        if Path(warning.filename).is_relative_to(package)
    ] == []


def compiled(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    result: Callable[..., Tensor] = torch.compile(
        function, fullgraph=True, backend="eager"
    )
    return result


def with_default_generator(
    seed: int, function: Callable[[Tensor], Tensor], images: Tensor
) -> Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return function(images)


def policy_for(space: SearchSpace, n_rows: int | None, spread: float = 0.0) -> Policy:
    """Shared values, or a row for each image. A new space, for which nothing has been
    computed yet.
    """
    values = random_values(space, n_rows or 1, seed=1)
    values = values[0] if n_rows is None else values
    return Policy(
        dataclasses.replace(space),
        values,
        (0.2, 0.4, 0.6),
        torch.full_like(values, spread),
    )


def assert_compiles(policy: Policy, sizes: tuple[int, ...] = (N_IMAGES,)) -> None:
    fast = compiled(policy)
    replay = compiled(policy.replay)
    for seed, n_images in enumerate(sizes):
        images = eight_bit_images((n_images, 3, 9, 14), seed=2)
        result = with_default_generator(seed, fast, images)
        assert torch.equal(result, with_default_generator(seed, policy, images))
        assert not torch.equal(result, images)
    sample = policy.draw(n_images, seeded(8))
    assert torch.equal(replay(images, sample), policy.replay(images, sample))


def test_a_compiled_policy_gives_the_same_for_the_same_seed() -> None:
    """Nearest and bilinear, operations of one's own, a spread and a searched K."""
    assert_compiles(policy_for(COUNTED, None, spread=0.75))


def test_a_policy_can_compile_only_what_is_after_the_draw(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It then draws the same numbers from the same generator."""
    monkeypatch.setattr(
        torch, "compile", functools.partial(torch.compile, backend="eager")
    )
    compiled_application.cache_clear()
    space = SearchSpace((HALF, Operation("Mirror", mirror)))
    eager = policy_for(space, None, spread=0.75)
    counted = torch._dynamo.utils.counters["stats"]
    policy = Policy(eager.space, eager.values, eager.fill, eager.spread, compiled=True)
    counted.clear()
    images = eight_bit_images((N_IMAGES, 3, 9, 14), seed=2)
    generator = seeded(3)
    expected = seeded(3)
    for _ in range(2):
        assert torch.equal(policy(images, generator), eager(images, expected))
    assert torch.equal(generator.get_state(), expected.get_state())
    assert counted["unique_graphs"] == 1
    compiled_application.cache_clear()


@pytest.mark.slow
def test_rows_of_each_image_the_whole_space_and_other_sizes_give_the_same_too() -> None:
    """The last batch of an epoch is smaller; the program is compiled again, or takes
    any size.
    """
    assert_compiles(policy_for(SearchSpace(), None), (N_IMAGES, 7, 1))
    assert_compiles(policy_for(COUNTED, N_IMAGES, spread=0.75))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs a C++ compiler")
@pytest.mark.parametrize("name", ["photo", "timm"])
def test_inductor_gives_the_same_pixels_to_rounding(name: str) -> None:
    policy = load_policy(name).policy(0)
    images = eight_bit_images((N_IMAGES, 3, 32, 32), seed=2)
    sample = policy.draw(N_IMAGES, seeded(8))
    replay: Callable[..., Tensor] = torch.compile(
        policy.replay, fullgraph=True, dynamic=False
    )
    difference = (replay(images, sample) - policy.replay(images, sample)).abs()
    assert difference.max() < 1.01 / 255
    assert (difference > 1e-5).float().mean() < 1e-4
