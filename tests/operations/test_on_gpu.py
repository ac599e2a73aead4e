"""On a GPU: the pixels of the CPU and of PIL, and a host that never waits."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from mixed_draws import (
    SPACES,
    draw_of_one,
    fill_of,
    mixed_draw,
    random_values,
    space_of_one,
)
from random_inputs import eight_bit_images
from torch import Tensor

from hba.operations import OPERATIONS, Operation
from hba.policy.draw import BatchSample, apply_operations, draw_with_trace
from hba.policy.module import Policy
from hba.policy.space import SearchSpace
from hba.policy.spaces import SPACES as NAMED_SPACES

pytestmark = pytest.mark.gpu

GPU = torch.device("cuda")
ENHANCERS = ("Contrast", "Color", "Brightness", "Sharpness")
N_IMAGES = 150

any_operation = pytest.mark.parametrize(
    "operation", OPERATIONS.values(), ids=lambda operation: operation.name
)


def moved(draw: BatchSample) -> BatchSample:
    return BatchSample(
        *(numbers.to(GPU) for numbers in (draw.slots, draw.magnitudes, draw.positions))
    )


def replayed_on_gpu(space: SearchSpace, draw: BatchSample, images: Tensor) -> Tensor:
    """The pixels, back on the CPU."""
    images = images.to(GPU)
    result = apply_operations(space, moved(draw), images, fill_of(images))
    assert result.device == images.device
    return result.cpu()


def levels(images: Tensor) -> Tensor:
    return images.mul(255).round()


@contextmanager
def waiting_is_an_error() -> Iterator[None]:
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@any_operation
@pytest.mark.parametrize("channels", [1, 3])
def test_a_draw_gives_the_cpu_s_pixels(operation: Operation, channels: int) -> None:
    space = space_of_one(operation)
    images = eight_bit_images((N_IMAGES, channels, 33, 20), seed=1)
    draw = draw_of_one(operation, N_IMAGES, seed=2)
    expected = apply_operations(space, draw, images, fill_of(images))
    result = replayed_on_gpu(space, draw, images)
    if operation.name in ENHANCERS:
        torch.testing.assert_close(result, expected, atol=1 / 255, rtol=0)
    elif operation.uses_fill:
        assert torch.equal(result, expected)
    else:
        # A GPU divides a level by 255 as a product with 1 / 255, so the last bit may
        # differ.
        assert torch.equal(levels(result), levels(expected))
        torch.testing.assert_close(result, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", ["recipe", "full"])
def test_all_stages_give_the_cpu_s_pixels(name: str) -> None:
    space = NAMED_SPACES[name]
    images = eight_bit_images((N_IMAGES, 3, 16, 16), seed=5)
    draw = draw_with_trace(space, random_values(space, N_IMAGES, 6), N_IMAGES)[0]
    expected = apply_operations(space, draw, images, fill_of(images))
    differs = (replayed_on_gpu(space, draw, images) - expected).abs() > 1.5 / 255
    assert float(differs.float().mean()) < 5e-3


@pytest.mark.parametrize("name", SPACES)
def test_a_mixed_draw_gives_the_cpu_s_pixels(name: str) -> None:
    """A difference in the last bit may turn a grey level in the second step, in very
    few pixels.
    """
    space = SPACES[name]
    images = eight_bit_images((N_IMAGES, 3, 16, 16), seed=3)
    draw = mixed_draw(space, N_IMAGES, seed=4)
    expected = apply_operations(space, draw, images, fill_of(images))
    differs = (replayed_on_gpu(space, draw, images) - expected).abs() > 1.5 / 255
    assert float(differs.float().mean()) < 1e-3


@pytest.mark.parametrize("name", ["nearest", "bilinear", "recipe", "full"])
@pytest.mark.parametrize("n_rows", [None, N_IMAGES])
def test_a_policy_call_never_waits_for_the_gpu(name: str, n_rows: int | None) -> None:
    policy = policy_on_gpu(
        SPACES[name] if name in SPACES else NAMED_SPACES[name], n_rows
    )
    images = eight_bit_images((N_IMAGES, 3, 16, 16), seed=7).to(GPU)
    generator = torch.Generator(GPU).manual_seed(8)
    for any_generator in (None, generator):
        policy(images, any_generator)
        torch.cuda.synchronize()
        with waiting_is_an_error():
            policy(images, any_generator)


@pytest.mark.parametrize("name", ["nearest", "bilinear"])
def test_replays_of_a_cuda_graph_draw_anew(name: str) -> None:
    policy = policy_on_gpu(SPACES[name], None)
    images = eight_bit_images((N_IMAGES, 3, 16, 16), seed=9).to(GPU)
    graph, draw, result = captured(policy, images)
    replays = []
    for _ in range(2):
        graph.replay()
        torch.cuda.synchronize()
        copy = BatchSample(
            draw.slots.clone(), draw.magnitudes.clone(), draw.positions.clone()
        )
        replays.append((copy, result.clone()))
        # What the graph drew, done without the graph.
        assert torch.equal(policy.replay(images, copy), result)
        assert result.min() >= 0
        assert result.max() <= 1
    (first, first_pixels), (second, second_pixels) = replays
    assert not torch.equal(first.slots, second.slots)
    assert not torch.equal(first.positions, second.positions)
    assert not torch.equal(first_pixels, second_pixels)


def policy_on_gpu(space: SearchSpace, n_rows: int | None) -> Policy:
    values = space.decode(
        torch.zeros(space.n) if n_rows is None else torch.zeros(n_rows, space.n)
    )
    return Policy(space, values, fill=(0.2, 0.4, 0.6)).to(GPU)


def captured(
    policy: Policy, images: Tensor
) -> tuple[torch.cuda.CUDAGraph, BatchSample, Tensor]:
    """A graph of one call, and where its replays put the draw and the pixels."""
    generator = torch.Generator(GPU).manual_seed(10)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        # Constants travel to the device in the first call.
        policy(images, generator)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        draw = policy.draw(len(images), generator)
        result = policy.replay(images, draw)
    return graph, draw, result
