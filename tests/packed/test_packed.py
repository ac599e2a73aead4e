"""The compiled operations: batches of bytes and arrays against PIL, byte by byte;
floats against floats.
"""

import itertools
import multiprocessing
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

import numba
import numpy as np
import pytest
import torch
from mixed_draws import OWN, SPACES, draw_of_one, fill_of, mixed_draw, space_of_one
from numpy.typing import NDArray
from PIL import Image
from random_inputs import magnitudes_for, seeded
from torch import Tensor
from torchvision.transforms.v2 import functional as TF

from hba.errors import SettingsError
from hba.operations import OPERATIONS, Operation
from hba.operations.apply import apply_steps
from hba.operations.on_pil import apply_to_pil
from hba.packed import (
    apply_to_all,
    apply_to_images,
    images as packed_images,
)
from hba.packed.program import Program, code_of, compiled
from hba.policy.draw import BatchSample, apply_operations
from hba.policy.module import Policy
from hba.policy.player import OpSample
from hba.policy.space import SearchSpace
from hba.schedule.schedule import Schedule

N_IMAGES = 80
ALL = tuple(OPERATIONS.values())
GRAY = (0.5, 0.5, 0.5)
"""127.5 grey levels: between two, so it shows when an image is rounded."""
FILLS = {1: ((0.5,), (0.2,)), 3: (GRAY, (0.1, 0.51, 0.9))}

Bytes = NDArray[np.uint8]


def random_bytes(shape: tuple[int, ...], seed: int) -> Tensor:
    """Half of the images of any levels, half of a narrow range of them, which
    AutoContrast stretches.
    """
    levels = torch.randint(0, 256, shape, generator=seeded(seed))
    narrow = levels // 8 + torch.randint(
        0, 200, (shape[0], *[1] * (len(shape) - 1)), generator=seeded(seed + 1)
    )
    is_narrow = torch.arange(shape[0]).view(-1, *[1] * (len(shape) - 1)) % 2 == 0
    return torch.where(is_narrow, narrow, levels).to(torch.uint8)


def by_floats(
    space: SearchSpace, sample: BatchSample, images: Tensor, fill: Tensor
) -> Tensor:
    """Floats, from bytes, without any kernel."""
    return apply_steps(
        space.operations, steps_of(space, sample), images.float() / 255, fill
    )


def by_pil(
    operations: Sequence[Operation],
    steps: tuple[Tensor, ...],
    images: Tensor,
    fill: Tensor,
) -> Tensor:
    """Each image by PIL, one operation after the other."""
    results = []
    color = tuple(round(share, 6) for share in fill.tolist())
    for image, *numbers in zip(
        images, *(numbers_of_steps.tolist() for numbers_of_steps in steps), strict=True
    ):
        drawn = [
            OpSample(operations[index], *rest_of_step)
            for index, *rest_of_step in zip(*numbers, strict=True)
            if index >= 0
        ]
        results.append(
            TF.pil_to_tensor(apply_to_pil(drawn, TF.to_pil_image(image), color))
        )
    return torch.stack(results)


def steps_of(space: SearchSpace, sample: BatchSample) -> tuple[Tensor, Tensor, Tensor]:
    chosen = torch.where(sample.slots < 0, -1, sample.slots // space.copies)
    return chosen, sample.magnitudes, sample.positions


@pytest.mark.parametrize("name", SPACES)
def test_bytes_become_what_pil_makes_and_floats_what_floats_became(name: str) -> None:
    space = SPACES[name]
    sizes = ((1, 1), (1, 8), (8, 1), (2, 5), (9, 11), (32, 32))
    for seed, (channels, size) in enumerate(itertools.product((1, 3), sizes)):
        images = random_bytes((N_IMAGES, channels, *size), seed)
        before = images.clone()
        sample = mixed_draw(space, N_IMAGES, seed)
        fill = torch.tensor(GRAY[:channels]) if seed % 2 else fill_of(images.float())
        expected = by_pil(space.operations, steps_of(space, sample), images, fill)
        assert torch.equal(apply_operations(space, sample, images, fill), expected), (
            size
        )
        of_floats = apply_operations(space, sample, images.float() / 255, fill)
        assert torch.equal(of_floats, by_floats(space, sample, images, fill)), size
        assert torch.equal(images, before)
    cut_out = random_bytes((N_IMAGES, 8, 9, 3), seed=8).permute(0, 3, 1, 2)[
        :, :, 1:, ::2
    ]
    result = apply_operations(space, sample, cut_out, torch.tensor(GRAY))
    assert torch.equal(
        result,
        apply_operations(space, sample, cut_out.contiguous(), torch.tensor(GRAY)),
    )


@pytest.mark.parametrize("channels", [1, 3])
def test_any_three_operations_one_after_the_other(channels: int) -> None:
    """Whatever an image is when a step reaches it: moved, of other levels, of values
    between them.
    """
    chosen = torch.tensor(list(itertools.product(range(len(ALL)), repeat=3)))
    magnitudes = torch.empty(chosen.shape)
    for index, operation in enumerate(ALL):
        is_chosen = chosen == index
        magnitudes[is_chosen] = magnitudes_for(
            operation, int(is_chosen.sum()), seed=index
        )
    positions = torch.rand(*chosen.shape, 2, generator=seeded(1))
    images = random_bytes((len(chosen), channels, 7, 6), seed=2)
    fill = torch.tensor(GRAY[:channels])
    steps = (chosen, magnitudes, positions)
    floats = images.float() / 255
    assert torch.equal(
        apply_to_images(ALL, steps, images, fill), by_pil(ALL, steps, images, fill)
    )
    assert torch.equal(
        apply_to_images(ALL, steps, floats, fill), apply_steps(ALL, steps, floats, fill)
    )


def test_the_same_operation_on_every_image() -> None:
    fill = torch.tensor(GRAY)
    for operation in (*ALL, *OWN):
        images = random_bytes((60, 3, 12, 9), seed=3)
        sample = draw_of_one(operation, 60, seed=4)
        drawn = [OpSample(operation, float(sample.magnitudes[0]), (0.25, 0.75))]
        expected = [
            TF.pil_to_tensor(apply_to_pil(drawn, TF.to_pil_image(image), GRAY))
            for image in images
        ]
        assert torch.equal(apply_to_all(drawn, images, fill), torch.stack(expected)), (
            operation.name
        )
        space = space_of_one(operation)
        result = apply_operations(space, sample, images, fill)
        assert torch.equal(
            result, by_pil(space.operations, steps_of(space, sample), images, fill)
        ), operation.name


def test_what_is_compiled_and_when_kernels_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the tests above would compare floats with floats."""
    assert None not in [code_of(operation) for operation in ALL]
    bilinear = [
        operation.with_interpolation("bilinear")
        for operation in ALL
        if operation.interpolation
    ]
    assert {code_of(operation) for operation in (*OWN, *bilinear)} == {None}
    types: list[torch.dtype] = []
    run = packed_images.run

    def counted(
        images: Tensor, program: Program, fill: Tensor, dtype: torch.dtype
    ) -> Tensor:
        types.append(dtype)
        return run(images, program, fill, dtype)

    monkeypatch.setattr("hba.packed.images.run", counted)
    space = SPACES["nearest"]
    fill = torch.tensor(GRAY)
    sample = mixed_draw(space, N_IMAGES, seed=5)
    images = random_bytes((N_IMAGES, 3, 4, 4), seed=6)
    for images_of_type in (
        images.float() / 255 + 1e-6,
        images.double() / 255,
        images,
        images.float() / 255,
    ):
        apply_operations(space, sample, images_of_type, fill)
    assert types == [torch.uint8, torch.float32]
    monkeypatch.setattr(packed_images, "LARGE_SIDE_PIXELS", 4)
    assert not packed_images.can_run(images), "places are more than 32 bits hold"


def test_no_pixels_and_other_channels() -> None:
    for shape in ((0, 3, 7, 5), (4, 3, 0, 5)):
        policy = Policy(SearchSpace(), torch.full((SearchSpace().n,), 0.5))
        assert policy(torch.zeros(shape, dtype=torch.uint8)).shape == shape
    space = SearchSpace(tuple(operation for operation in ALL if operation.any_channels))
    sample = mixed_draw(space, N_IMAGES, seed=12)
    images = random_bytes((N_IMAGES, 5, 6, 7), seed=13)
    fill = torch.linspace(0, 1, 5)
    result = apply_operations(space, sample, images, fill)
    channels = [
        (images[:, channel : channel + 1], fill[channel : channel + 1])
        for channel in range(5)
    ]
    expected = [
        by_pil(space.operations, steps_of(space, sample), *channel)
        for channel in channels
    ]
    assert torch.equal(result, torch.cat(expected, dim=1)), (
        "each channel as a grey image"
    )
    with pytest.raises(SettingsError, match="Color"):
        apply_operations(SearchSpace((OPERATIONS["Color"],)), sample, images, fill)


def check_planes(drawn: list[OpSample], pixels: Bytes, fill: tuple[float, ...]) -> None:
    """Gives the bytes that PIL makes, in new images."""
    before = pixels.copy()
    planes = torch.from_numpy(pixels).permute(2, 0, 1)[None]
    result = apply_to_all(drawn, planes, torch.tensor(fill))[0].permute(1, 2, 0).numpy()
    image = Image.fromarray(before[:, :, 0] if before.shape[2:] == (1,) else before)
    np.testing.assert_array_equal(
        result,
        np.array(apply_to_pil(drawn, image, fill)).reshape(pixels.shape),
        str(drawn),
    )
    np.testing.assert_array_equal(pixels, before)


def random_array(channels: int, height: int, width: int, seed: int) -> Bytes:
    array: Bytes = random_bytes((2, height, width, channels), seed)[seed % 2].numpy()
    return array


def drawn_at_random(names: tuple[int, ...], seed: int) -> list[OpSample]:
    places = np.random.default_rng(seed).random((len(names), 2)).tolist()
    magnitudes = [
        float(magnitudes_for(ALL[name], 1, seed + step))
        for step, name in enumerate(names)
    ]
    return [
        OpSample(ALL[name], magnitude, (x, y))
        for name, magnitude, (x, y) in zip(names, magnitudes, places, strict=True)
    ]


@pytest.mark.parametrize("channels", [1, 3])
def test_up_to_four_operations_on_one_image_give_what_pil_gives(channels: int) -> None:
    cases: list[tuple[int, ...]] = [
        *((name,) for name in range(len(ALL))),
        *itertools.pairwise(range(len(ALL))),
        (),
        (0, 5, 9, 13),
        (14, 4, 10, 2),
        (11, 12, 3, 7),
    ]
    for seed, names in enumerate(cases):
        for height, width in ((17, 12), (1, 1), (1, 6)):
            pixels = random_array(channels, height, width, seed)
            drawn = drawn_at_random(names, 10 * seed)
            check_planes(drawn, pixels, FILLS[channels][seed % 2])


def augmented(images: Tensor) -> Tensor:
    space = SPACES["nearest"]
    return apply_operations(
        space, mixed_draw(space, len(images), seed=2), images, torch.tensor(GRAY)
    )


def _augment_in_a_child(images: Tensor, to_parent: Connection) -> None:
    to_parent.send(augmented(images).numpy())


def test_threads_share_the_images_and_a_forked_process_has_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As DataLoader's workers are, of a process that has augmented before."""
    monkeypatch.setattr(packed_images, "THREAD_VALUES", 1000)
    images = torch.randint(
        0, 256, (N_IMAGES, 3, 40, 40), generator=seeded(1), dtype=torch.uint8
    )
    results = []
    for n_threads in (1, 3):
        monkeypatch.setattr(
            torch, "get_num_threads", lambda n_threads=n_threads: n_threads
        )
        results.append(augmented(images))
    expected = results[0]
    assert torch.equal(results[1], expected)
    assert packed_images._threads.cache_info().currsize
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_augment_in_a_child, args=(images, there))
    child.start()
    assert here.poll(1200)
    np.testing.assert_array_equal(here.recv(), expected.numpy())
    child.join()


def test_without_numba_the_bytes_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    space = SPACES["nearest"]
    images = random_bytes((N_IMAGES, 3, 20, 20), seed=1)
    transform = Schedule(space, np.array([space.ranges]).mean(axis=2)).transform()

    def all_ways() -> list[Any]:
        torch.manual_seed(3)
        single = [transform(image).numpy() for image in images[:10]]
        arrays = [transform(image.permute(1, 2, 0).numpy()) for image in images[:10]]
        return [augmented(images).numpy(), transform(images).numpy(), *single, *arrays]

    def refuse(name: str) -> None:
        raise ImportError("Numba needs NumPy 2.3 or less")

    with_numba = all_ways()
    packed_images.kernels.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(packed_images, "find_spec", lambda name: None)
        assert packed_images.kernels() is None
        assert all(map(np.array_equal, all_ways(), with_numba))
    packed_images.kernels.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr("importlib.import_module", refuse)
        with pytest.warns(RuntimeWarning, match=r"Numba needs NumPy 2.3 or less"):
            augmented(images)
    packed_images.kernels.cache_clear()


def test_compiled_functions_need_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    njit: Any = numba.njit

    def refuse(**named: bool) -> Any:
        if named.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return njit(**named)

    monkeypatch.setattr(numba, "njit", refuse)
    assert compiled(lambda number: number + 1)(2) == 3
