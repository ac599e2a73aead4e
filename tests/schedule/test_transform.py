"""PolicyTransform: what goes in comes out in the same form, augmented by the row that
was chosen.
"""

import copy
import itertools
import math
import os
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from random_inputs import seeded
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as TF

from hba.errors import ScheduleError, SettingsError
from hba.operations import OPERATIONS
from hba.policy.annotations import exchanged
from hba.policy.space import SearchSpace
from hba.schedule.library import load_policy
from hba.schedule.recipes import RECIPES, recipe_of
from hba.schedule.schedule import Schedule
from hba.schedule.transform import PolicyTransform

ALWAYS_ONE = (0.0, 1.0)
"""count_probabilities: every image gets exactly one operation, if any fires."""
FACTORS = (0.2, 1.0, 0.6, 0.4)


def inverting(*probabilities: float) -> Schedule:
    """One row per probability of inverting an image, which is all that can happen to
    it.
    """
    space = SearchSpace(
        (OPERATIONS["Invert"],), copies=1, count_probabilities=ALWAYS_ONE
    )
    return Schedule(space, np.array(probabilities)[:, None])


def dimming(*factors: float) -> Schedule:
    """One row per factor, by which every image is multiplied."""
    space = SearchSpace(
        (OPERATIONS["Brightness"],), copies=1, count_probabilities=ALWAYS_ONE
    )
    return Schedule(space, np.array([[1.0, factor] for factor in factors]))


def full_schedule() -> Schedule:
    """One row: all 15 operations, each of probability 0.7 and far from no effect."""
    low, high = np.array(SearchSpace().ranges).T
    return Schedule(SearchSpace(), (0.3 * low + 0.7 * high)[None])


def levels(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(0, 256, shape, generator=seeded(seed), dtype=torch.uint8)


def array(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def pixels_of(image: Any) -> Tensor:
    """Any form of image as levels (..., C, H, W), float64."""
    if isinstance(image, Image.Image | np.ndarray):
        pixels = np.array(image)
        return torch.from_numpy(
            pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
        ).double()
    plain: Tensor = image.as_subclass(Tensor)
    return plain.double() * (255 if plain.is_floating_point() else 1)


FORMS: dict[str, Any] = {
    "PIL RGB": Image.fromarray(array(6, 9, 3)),
    "PIL L": Image.fromarray(array(6, 9)),
    "PIL without a pixel": Image.new("RGB", (0, 4)),
    "NumPy RGB": array(6, 9, 3),
    "NumPy RGB, its channels reversed": array(6, 9, 3)[:, :, ::-1],
    "NumPy gray, transposed": array(6, 9).T,
    "NumPy of one channel": array(6, 9, 1),
    "NumPy read-only": (
        np.frombuffer(array(6, 9, 3).tobytes(), np.uint8).reshape(6, 9, 3)
    ),
    "NumPy without height": np.zeros((0, 4, 3), dtype=np.uint8),
    "tv_tensors.Image uint8": tv_tensors.Image(levels(3, 6, 9)),
    "tv_tensors.Image float": tv_tensors.Image(levels(2, 3, 6, 9) / 255),
    "uint8": levels(3, 6, 9),
    "uint8, one channel": levels(1, 6, 9),
    "uint8, batches of batches": levels(2, 4, 3, 6, 9),
    "float32": levels(3, 6, 9) / 255,
    "float32, batch of one channel": levels(5, 1, 6, 9) / 255,
    "float64, batch": levels(5, 3, 6, 9).double() / 255,
    "float16": (levels(3, 6, 9) / 255).half(),
    "empty batch": levels(0, 3, 6, 9),
    "batch without width": torch.zeros(2, 3, 4, 0),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_image_comes_back_in_the_form_it_had(name: str) -> None:
    image = FORMS[name]
    before = pixels_of(image).clone()
    changed = 0
    transform = PolicyTransform(full_schedule())
    # Half floats are 8-bit levels to within a tenth of a level.
    assert torch.allclose(
        pixels_of(PolicyTransform(inverting(1.0))(image)), 255 - before, atol=0.1
    )
    torch.manual_seed(0)
    for _ in range(20):
        result = transform(image)
        form = (
            ("mode", "size")
            if isinstance(image, Image.Image)
            else ("dtype", "shape", "__class__")
        )
        assert [getattr(result, attribute) for attribute in form] == [
            getattr(image, attribute) for attribute in form
        ]
        assert ((pixels_of(result) >= 0) & (pixels_of(result) <= 255.001)).all()
        changed += not torch.equal(pixels_of(result), before)
    assert changed > 10 or not before.numel()
    assert torch.equal(pixels_of(image), before), "the image given is left alone"


def test_the_same_draw_gives_the_same_pixels_in_every_form() -> None:
    transform = PolicyTransform(full_schedule())
    for channels in (1, 3):
        pixels = levels(channels, 16, 16)
        distinct = set()
        halves = (pixels / 255).half()
        as_array = pixels.permute(1, 2, 0).numpy()
        for seed in range(20):

            def drawn(form: Any, seed: int = seed) -> Any:
                torch.manual_seed(seed)
                return transform(form)

            results = [
                pixels_of(drawn(form))
                for form in (pixels, tv_tensors.Image(pixels), pixels[None])
            ]
            assert all(
                torch.equal(pixels_of_form.reshape(pixels.shape), results[0])
                for pixels_of_form in results
            )
            floats = [
                pixels_of(drawn(form))
                for form in (pixels / 255, tv_tensors.Image(pixels / 255))
            ]
            assert torch.equal(*floats)
            assert torch.equal(drawn(halves), drawn(halves.float()).half()), (
                "computed in single precision"
            )
            if channels == 3:
                for form in (as_array, Image.fromarray(as_array)):
                    assert torch.equal(pixels_of(drawn(form)), results[0])
            distinct.add(results[0].numpy().tobytes())
        assert len(distinct) > 10


def test_recipes_give_tensors_and_arrays_the_pixels_that_pil_makes() -> None:
    """Smooth images, whose levels Posterize, Contrast and Solarize make differ widely
    if any was rounded otherwise.
    """
    y, x = torch.meshgrid(torch.arange(24), torch.arange(32), indexing="ij")
    transforms = {name: load_policy(name).transform() for name in [*RECIPES, "digits"]}
    for (name, transform), seed in itertools.product(transforms.items(), range(6)):
        waves = (
            torch.sin(x / 3 + seed) * torch.tensor([60, 30, 12])[:, None, None]
            + 40 * torch.cos(y / 4)
            + 127
        )
        for tensor in (
            waves.round().to(torch.uint8),
            waves[:1].round().to(torch.uint8),
        ):
            pixels = tensor.permute(1, 2, 0).numpy()
            results = []
            for form in (TF.to_pil_image(tensor), pixels, tensor, tensor[None]):
                torch.manual_seed(seed)
                results.append(pixels_of(transform(form)).reshape(tensor.shape))
            assert all(
                torch.equal(pixels_of_form, results[0]) for pixels_of_form in results
            ), (name, seed)


def test_images_of_a_batch_get_draws_of_their_own_and_those_of_a_sample_one() -> None:
    torch.manual_seed(0)
    transform = PolicyTransform(inverting(0.5))
    result = transform(torch.full((20, 20, 1, 2, 2), 10, dtype=torch.uint8))
    assert set(result.unique().tolist()) == {10, 245}
    # A binomial of 400 and 0.5 has a standard deviation of 10.
    assert 150 < (result == 245)[..., 0, 0].sum() < 250
    pairs = [
        transform(tv_tensors.Image(levels(3, 4, 4)), tv_tensors.Image(levels(3, 4, 4)))
        for _ in range(30)
    ]
    assert all(torch.equal(image, other) for image, other in pairs)
    assert len({int(image[0, 0, 0]) for image, _ in pairs}) == 2


def test_what_is_no_image_passes_through_beside_one() -> None:
    transform = PolicyTransform(inverting(1.0))
    labels = [
        7,
        3.5,
        "a cat",
        None,
        [1, 2],
        np.arange(4),
        np.eye(3),
        torch.tensor(7),
        torch.zeros(4),
        torch.eye(5),
    ]
    for image in (
        array(6, 5, 3),
        tv_tensors.Image(levels(3, 6, 5)),
        Image.fromarray(array(6, 5)),
    ):
        for label in labels:
            result, same = transform((image, label))
            nested = transform([label, {"nested": image}])[1]["nested"]
            assert torch.equal(pixels_of(result), 255 - pixels_of(image))
            assert torch.equal(pixels_of(nested), 255 - pixels_of(image))
            assert same is label or same == label
    features = torch.rand(2, 3, 4)
    assert transform(Image.fromarray(array(6, 5)), features)[1] is features


def test_samples_without_one_image_are_refused() -> None:
    transform = PolicyTransform(inverting(1.0))
    picture = Image.fromarray(array(6, 5, 3))
    mask = Image.fromarray(array(6, 5))
    floats = np.zeros((4, 4, 3), np.float32)
    four = array(4, 4, 4)
    for sample in (
        {"label": 3},
        {},
        torch.zeros(4),
        (torch.zeros(4, 4), 1),
        floats,
        four,
        array(2, 8, 8, 3),
    ):
        with pytest.raises(TypeError, match="must hold one image, got 0"):
            transform(sample)
    image = tv_tensors.Image(levels(3, 6, 5))
    for first, other in (
        (picture, mask),
        (picture, array(6, 5)),
        (image, mask),
        (levels(3, 6, 5), array(6, 5)),
    ):
        with pytest.raises(TypeError, match="must hold one image, got 2"):
            transform({"image": first, "others": [other, 3]})


def test_images_of_other_kinds_are_refused() -> None:
    transform = PolicyTransform(inverting(1.0))
    for mode in ("RGBA", "P", "LA", "1", "CMYK", "I;16", "I", "F"):
        with pytest.raises(TypeError, match=f"got {mode}"):
            transform(Image.new(mode, (8, 8)))
    for image in (
        levels(3, 4, 4).long(),
        levels(3, 4, 4).bool(),
        levels(2, 4, 4),
        levels(5, 4, 8, 8),
    ):
        with pytest.raises(TypeError, match=f"got {image.dtype} of shape"):
            transform(image)
    for value in (-0.6, 1.6, 255.0, math.nan, math.inf):
        image = torch.full((3, 4, 4), 0.5)
        image[0, 1, 2] = value
        with pytest.raises(SettingsError, match="before the normalisation"):
            transform(image)
    for value in (-0.05, 1 + 2.4e-7, 1.05):
        image = torch.full((3, 4, 4), value)
        assert torch.equal(PolicyTransform(inverting(0.0))(image), image.clamp(0, 1)), (
            "as resizing makes them"
        )


@pytest.mark.gpu
def test_on_a_gpu_the_first_batch_is_read_and_no_other_makes_the_host_wait() -> None:
    images = torch.rand(4, 3, 8, 8).cuda()
    for augment in (PolicyTransform(full_schedule()), full_schedule().policy(0).cuda()):
        with pytest.raises(SettingsError, match="before the normalisation"):
            augment(3 * images - 1)
        augment(images)
        torch.cuda.set_sync_debug_mode("error")
        try:
            augment(images)
        finally:
            torch.cuda.set_sync_debug_mode("default")


def factor_in_use(transform: PolicyTransform) -> float:
    """By what a dimming schedule multiplies an image just now."""
    return float(transform(torch.full((1, 1, 1), 0.5)).item() / 0.5)


def test_epoch_and_progress_choose_the_row() -> None:
    transform = PolicyTransform(dimming(*FACTORS))
    assert factor_in_use(transform) == pytest.approx(FACTORS[-1]), (
        "before any call, the last row"
    )
    assert repr(transform) == "PolicyTransform(epochs=4, position=3)"
    with pytest.warns(UserWarning, match=r"set_epoch\(epoch, epochs\)") as seen:
        transform.set_epoch(0)
    assert [warning.filename for warning in seen] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for epoch in (*range(4), np.int64(1), np.uint8(1), torch.tensor(1)):
            transform.set_epoch(epoch, 4)
            assert factor_in_use(transform) == pytest.approx(FACTORS[epoch])
        for epochs in (2, 3, 4, 7, 11):
            fractions = np.linspace(0, 1, epochs)
            expected = np.interp(3 * fractions, np.arange(4), FACTORS)
            stretched = PolicyTransform(
                pickle.loads(pickle.dumps(dimming(*FACTORS).stretched(epochs)))
            )
            for epoch, (fraction, factor) in enumerate(
                zip(fractions, expected, strict=True)
            ):
                transform.set_epoch(epoch, epochs)
                assert factor_in_use(transform) == pytest.approx(factor, rel=1e-5)
                transform.set_progress(fraction)
                assert factor_in_use(transform) == pytest.approx(factor, rel=1e-5)
                stretched.set_epoch(epoch)
                assert factor_in_use(stretched) == pytest.approx(factor, rel=1e-5)
        middle = PolicyTransform(dimming(0.2, 0.9, 0.4))
        middle.set_epoch(0, 1)
        assert factor_in_use(middle) == pytest.approx(0.9)
        PolicyTransform(dimming(0.3)).set_epoch(0)


def test_places_outside_the_schedule_are_refused_and_the_place_stays() -> None:
    schedule = dimming(*FACTORS).stretched(4)
    transform = schedule.transform()
    transform.set_epoch(2)
    for arguments in ((-1,), (4,), (3, 3), (5, 1), (0, 0), (0, -2)):
        with pytest.raises(SettingsError, match="must"):
            transform.set_epoch(*arguments)
    for fraction in (-0.01, 1.01, math.nan):
        with pytest.raises(ScheduleError, match=r"must lie in \[0, 1\]"):
            transform.set_progress(fraction)
    no_numbers: tuple[Any, ...] = (
        1.5,
        True,
        "1",
        None,
        np.float64(1),
        np.True_,
        torch.tensor(1.0),
    )
    for epoch in no_numbers:
        for refused in (transform.set_epoch, schedule.policy, schedule.stretched):
            with pytest.raises(SettingsError, match="must be a whole number"):
                refused(epoch)
    assert transform.position == 2


def pickled(transform: PolicyTransform) -> PolicyTransform:
    restored: PolicyTransform = pickle.loads(pickle.dumps(transform))
    return restored


class Dimmed(Dataset[tuple[float, int]]):
    """Factors by which images are multiplied in the process that asks, with the number
    of that process.
    """

    def __init__(self, transform: PolicyTransform) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[float, int]:
        return factor_in_use(self.transform), os.getpid()


@pytest.fixture
def sharing_strategy() -> Iterator[Callable[[str], None]]:
    before = torch.multiprocessing.get_sharing_strategy()
    yield torch.multiprocessing.set_sharing_strategy
    torch.multiprocessing.set_sharing_strategy(before)


@pytest.mark.parametrize(
    ("context", "n_workers", "strategy", "duplicate"),
    [
        ("fork", 2, "file_descriptor", copy.copy),
        ("fork", 2, "file_system", pickled),
        ("forkserver", 1, "file_system", copy.copy),
        pytest.param("spawn", 2, "file_descriptor", copy.copy, marks=pytest.mark.slow),
    ],
)
def test_the_place_reaches_persistent_workers(
    context: str,
    n_workers: int,
    strategy: str,
    duplicate: Callable[[Any], Any],
    sharing_strategy: Callable[[str], None],
) -> None:
    sharing_strategy(strategy)
    transform = duplicate(PolicyTransform(dimming(0.2, 0.9, 0.4)))
    loader = DataLoader(
        Dimmed(transform),
        batch_size=1,
        num_workers=n_workers,
        persistent_workers=True,
        multiprocessing_context=context,
    )

    def in_workers() -> tuple[set[float], set[int]]:
        batches = [
            (round(float(factor), 4), int(process)) for factor, process in loader
        ]
        return {factor for factor, _ in batches}, {process for _, process in batches}

    used, processes = in_workers()
    assert used == {0.4}
    assert len(processes - {os.getpid()}) == n_workers
    for progress, factor in ((0.0, 0.2), (0.5, 0.9), (0.25, 0.55), (1.0, 0.4)):
        transform.set_progress(progress)
        assert in_workers() == ({factor}, processes)


def test_every_image_draws_around_the_row_by_the_spread_of_the_place() -> None:
    torch.manual_seed(0)
    even = dimming(1.0, 1.0).with_spread(1.0, probabilities=False).transform()
    batch = torch.full((64, 1, 2, 2), 0.5)
    assert len(even(batch)[:, 0, 0, 0].unique()) > 50
    growing = dimming(0.5, 0.5, 0.5)
    growing = Schedule(
        growing.space, growing.values, spread=np.array([[0.0], [0.0], [1.0]])
    )
    # Brightness has a range of 0.1 to 1.9; half of normal numbers lie within 0.6745.
    quartiles = [0.1 + 1.8 / (1 + math.exp(end)) for end in (0.6745, -0.6745)]
    for image in (
        Image.new("L", (2, 2), 100),
        np.full((2, 2), 100, np.uint8),
        torch.full((1, 2, 2), 100).byte(),
    ):

        def factors(
            transform: PolicyTransform, n: int, image: Any = image
        ) -> list[float]:
            return sorted(
                float(np.asarray(transform(image)).flat[0]) / 100 for _ in range(n)
            )

        in_order = factors(even, 400)
        assert [in_order[100], in_order[300]] == pytest.approx(quartiles, abs=0.08)
        transform = growing.transform()
        widths = []
        for progress in (0.5, 0.75, 1.0):
            transform.set_progress(progress)
            widths.append(float(np.std(factors(transform, 100))))
        assert widths[0] == 0
        assert 0 < 1.3 * widths[1] < widths[2]


def test_a_pickle_does_not_depend_on_calls() -> None:
    """Hugging Face datasets know by it if the result of a map is in their cache."""
    for transform, image in (
        (full_schedule().with_spread(0.5).transform(), array(8, 8, 3)),
        (full_schedule().transform(), levels(4, 3, 8, 8)),
    ):
        before = pickle.dumps(transform)
        transform(image)
        assert pickle.dumps(transform) == before
        transform.set_epoch(0, 2)
        assert transform(image).shape == image.shape


def test_deep_copies_follow_the_epoch() -> None:
    transform = PolicyTransform(dimming(*FACTORS))
    copied: list[Any] = copy.deepcopy([transform, {"again": transform}])
    transform.set_epoch(0, 4)
    assert (
        factor_in_use(copied[0])
        == factor_in_use(copied[1]["again"])
        == pytest.approx(FACTORS[0])
    )
    copied[0].set_epoch(3, 4)
    assert factor_in_use(transform) == pytest.approx(FACTORS[3])


@pytest.mark.skipif(
    not hasattr(tv_tensors, "KeyPoints"), reason="torchvision has no keypoints"
)
@pytest.mark.parametrize(
    ("names", "is_mirrored"),
    [
        (["HorizontalFlip"], True),
        (["VerticalFlip"], True),
        (["HorizontalFlip", "VerticalFlip"], False),
        (["QuarterTurn"], False),
        (["HorizontalFlip", "QuarterTurn"], True),
    ],
)
def test_pairs_of_keypoints_are_exchanged_in_mirror_images(
    names: list[str], is_mirrored: bool
) -> None:
    """A nose, and two eyes, one of them green."""
    policy = recipe_of("all", {name: (1.0, None) for name in names})
    image = torch.zeros(3, 16, 16, dtype=torch.uint8)
    places = torch.tensor([[8.5, 10.5], [4.5, 5.5], [11.5, 5.5]])
    for (x, y), channel in zip(places.long().tolist(), (0, 1, 2), strict=True):
        image[channel, y, x] = 255
    points = tv_tensors.KeyPoints(places, canvas_size=(16, 16))
    transform = policy.transform(keypoint_pairs=[(1, 2)])
    torch.manual_seed(0)
    moved, moved_points = transform(tv_tensors.Image(image), points)
    expected = []
    for channel in (0, 2, 1) if is_mirrored else (0, 1, 2):
        ((y, x),) = (moved[channel] == 255).nonzero().tolist()
        expected.append([x + 0.5, y + 0.5])
    assert moved_points.tolist() == expected
    with pytest.raises(ValueError, match="keypoint_pairs"):
        exchanged(points, [(1, 3)])
    for pairs in (5, [(0, -1)], [(1, 1)], [(1, 2), (2, 3)], [(1.5, 2)]):
        with pytest.raises(SettingsError, match="keypoint_pairs"):
            policy.transform(keypoint_pairs=pairs)  # type: ignore[arg-type]
