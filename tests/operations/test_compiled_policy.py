"""A compiled policy gives what the policy gives, without a break in its graph."""

import dataclasses
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from mixed_draws import BILINEAR, TWO_INTERPOLATIONS, mirror, random_values
from random_inputs import eight_bit_images, seeded
from torch import Tensor

import hba
from hba.operations import OPERATIONS, Operation
from hba.policy.module import Policy
from hba.policy.space import SearchSpace

HALF = Operation("Half", lambda images, share: images * share[:, None, None, None], (0.5, 1.0))
OF_ALL_KINDS = "nearest and bilinear, own operations"
SPACES = {
    "nearest": SearchSpace(),
    "bilinear": SearchSpace(BILINEAR),
    OF_ALL_KINDS: SearchSpace((*TWO_INTERPOLATIONS, HALF, Operation("Mirror", mirror))),
}
PLAIN = (("nearest", None, 3), ("bilinear", None, 3))
N_IMAGES = 40


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    """Programs of other tests count towards a limit."""
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.fixture(autouse=True)
def no_warnings_of_hba() -> Iterator[None]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    package = Path(hba.__file__).parent
    assert [str(warning.message) for warning in caught if Path(warning.filename).is_relative_to(package)] == []


def compiled(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    result: Callable[..., Tensor] = torch.compile(function, fullgraph=True, backend="eager")
    return result


def policy_for(space: SearchSpace, n_rows: int | None) -> Policy:
    """Shared values, or a row for each image. A new space, for which nothing has been computed yet."""
    values = random_values(space, n_rows or 1, seed=1)
    return Policy(dataclasses.replace(space), values[0] if n_rows is None else values, fill=(0.2, 0.4, 0.6))


def with_default_generator(seed: int, function: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return function(images)


@pytest.mark.parametrize(
    ("name", "n_rows", "channels"),
    [
        (OF_ALL_KINDS, None, 3),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in (*PLAIN, ("nearest", N_IMAGES, 1))),
    ],
)
def test_a_compiled_policy_gives_the_same_for_the_same_seed(name: str, n_rows: int | None, channels: int) -> None:
    policy = policy_for(SPACES[name], n_rows)
    fast = compiled(policy)
    images = eight_bit_images((N_IMAGES, channels, 9, 14), seed=2)
    for seed in (3, 4):
        result = with_default_generator(seed, fast, images)
        assert torch.equal(result, with_default_generator(seed, policy, images))
        assert not torch.equal(result, images)


@pytest.mark.parametrize("n_rows", [pytest.param(None, marks=pytest.mark.slow), N_IMAGES])
def test_a_compiled_policy_with_a_spread_and_a_searched_k_draws_the_same(n_rows: int | None) -> None:
    space = SearchSpace(count_probabilities=(0.2, 0.3, 0.4, 0.1), searches_count=True)
    values = random_values(space, n_rows or 1, seed=1)
    values = values[0] if n_rows is None else values
    policy = Policy(space, values, spread=torch.full_like(values, 0.75))
    images = eight_bit_images((N_IMAGES, 3, 9, 14), seed=2)
    result = with_default_generator(3, compiled(policy), images)
    assert torch.equal(result, with_default_generator(3, policy, images))
    assert not torch.equal(result, with_default_generator(3, Policy(space, values), images))


@pytest.mark.slow
def test_batches_of_other_sizes_give_the_same_too() -> None:
    """The last batch of an epoch is smaller; the program is compiled again, or takes any size."""
    policy = policy_for(SPACES[OF_ALL_KINDS], None)
    fast = compiled(policy)
    for n_images in (N_IMAGES, 7, 1):
        images = eight_bit_images((n_images, 3, 8, 8), seed=5)
        assert torch.equal(with_default_generator(6, fast, images), with_default_generator(6, policy, images))


@pytest.mark.parametrize("name", ["nearest", OF_ALL_KINDS])
def test_a_compiled_replay_gives_the_pixels_of_the_draw(name: str) -> None:
    policy = policy_for(SPACES[name], None)
    replay = compiled(policy.replay)
    images = eight_bit_images((N_IMAGES, 3, 12, 7), seed=7)
    for seed in (8, 9):
        draw = policy.draw(N_IMAGES, seeded(seed))
        assert torch.equal(replay(images, draw), policy.replay(images, draw))


def test_an_operation_that_breaks_the_graph_is_refused() -> None:
    """The tests above can fail."""
    curious = Operation("Curious", lambda images: images / 2 if images.mean() > 0.5 else images)
    policy = Policy(SearchSpace((OPERATIONS["Rotate"], curious)), torch.zeros(6))
    with pytest.raises(torch._dynamo.exc.Unsupported):
        compiled(policy)(torch.zeros(2, 3, 4, 4))
