"""A pipeline of albumentations: how often slots fire, one after the other, is hba's;
and its own library reads it.
"""

import dataclasses
import inspect
import itertools
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pydantic
import pytest
import torch
from documents import blocks_of, text_of
from exported import pictures, schedule_of
from random_inputs import seeded
from torch.utils.data import DataLoader, Dataset

import hba
from hba.errors import HbaWarning
from hba.exports.albumentations_file import FORMAT, GUARDS, row_of, transforms_of
from hba.operations import OPERATIONS
from hba.policy.draw import Floats, draw_steps
from hba.policy.space import SearchSpace
from hba.policy.spaces import search_space
from hba.schedule.schedule import Schedule

N_IMAGES = 100_000


def steps_in(schedule: Schedule) -> list[tuple[float, Floats]]:
    row = row_of(schedule)
    return draw_steps(row.probabilities, row.limits)


def test_slots_fire_first_second_and_so_on_as_often_as_hba_draws_them() -> None:
    for space, spread in (("hba", "none"), ("K searched", "all"), ("one slot", "all")):
        schedule = schedule_of(space, spread).only(1)
        drawn = schedule.policy(0).draw(N_IMAGES, seeded(0)).slots
        reached = 1.0
        for number, (chance, expected) in enumerate(steps_in(schedule)):
            fired = drawn[:, number][drawn[:, number] >= 0]
            reached *= chance
            assert len(fired) / N_IMAGES == pytest.approx(reached, abs=0.006), space
            shares = np.bincount(fired.numpy(), minlength=len(expected)) / len(fired)
            errors = np.sqrt(expected * (1 - expected) / len(fired))
            assert (np.abs(shares - expected) <= 5 * errors).all(), space


def two_slots(first: float, second: float) -> Schedule:
    """Of Invert and Equalize, once each; two operations where both fire."""
    space = SearchSpace(
        tuple(OPERATIONS[name] for name in ("Invert", "Equalize")), 1, (0.0, 0.0, 1.0)
    )
    return Schedule(space, np.array([[first, second]]))


def test_two_slots_by_hand_and_as_the_library_draws_them(tmp_path: Path) -> None:
    """First Invert: 0.5 (1 - 0.2) + 0.5 x 0.2 / 2 of 0.6; second: of both fired, each
    as likely.
    """
    (first, shares), (second, shares_after) = steps_in(two_slots(0.5, 0.2))
    assert first == pytest.approx(1 - 0.5 * 0.8)
    assert shares == pytest.approx(np.array([0.45, 0.15]) / 0.6)
    assert first * second == pytest.approx(0.1)
    assert shares_after == pytest.approx([0.5, 0.5])
    pipelines = pytest.importorskip("albumentations")
    hba.export(two_slots(0.5, 0.2), "albumentations", tmp_path / "policy.json")
    loaded = pipelines.load(tmp_path / "policy.json")
    pipeline = pipelines.Compose(
        loaded.transforms[len(GUARDS) :], save_applied_params=True, seed=0
    )
    image = np.asarray(pictures()[0])
    applied = [
        [name for name, _ in pipeline(image=image)["applied_transforms"]]
        for _ in range(2000)
    ]
    assert np.mean([bool(names) for names in applied]) == pytest.approx(0.6, abs=0.035)
    assert np.mean([len(names) == 2 for names in applied]) == pytest.approx(
        0.1, abs=0.025
    )
    assert np.mean(
        [names[0] == "InvertImg" for names in applied if names]
    ) == pytest.approx(0.75, abs=0.035)


def test_a_whole_space_loads_and_augments_images_of_any_channels(
    tmp_path: Path,
) -> None:
    """Folders of grey images are read as RGB, whose mean colour has three equal
    numbers.
    """
    pipelines = pytest.importorskip("albumentations")
    schedule = dataclasses.replace(
        schedule_of("hba", "magnitudes"), fill=(0.25, 0.25, 0.25)
    ).only(2)
    text = hba.export(schedule, "albumentations", tmp_path / "policy.json")
    names = {
        leaf["__class_fullname__"] for leaf in leaves(json.loads(text)["transform"])
    }
    assert {
        "Affine",
        "ColorJitter",
        "CoarseDropout",
        "Equalize",
        "Sharpen",
        "GaussianBlur",
    } <= names
    pipeline = pipelines.load(tmp_path / "policy.json")
    grey = np.array(pictures()[0].convert("L"))
    for image in (np.asarray(pictures()[0]), grey, grey[:, :, None]):
        results = [pipeline(image=image.copy())["image"] for _ in range(60)]
        assert {result.shape for result in results} == {image.shape}
        assert len({result.tobytes() for result in results}) > 10


def test_operations_differ_from_pil_s_as_documented() -> None:
    """Cutout is left out: albumentations draws its place."""
    albumentations = pytest.importorskip("albumentations")
    fill = (51, 102, 178)
    exact = set()
    for operation in (
        operation for operation in OPERATIONS.values() if not operation.n_uniforms
    ):
        largest = 0.0
        for magnitude in np.linspace(
            *(operation.magnitude_range or (0.0, 0.0)), 5
        ).tolist():
            drawn = {
                operation.draw_magnitude(magnitude, number) for number in (0.0, 1.0)
            }
            for image, signed in itertools.product(pictures(), drawn):
                color = fill if image.mode == "RGB" else fill[:1]
                ends = (signed, signed)
                leaf = {**transforms_of(operation, ends, color)[0], "p": 1.0}
                result = albumentations.from_dict(
                    {"__version__": FORMAT, "transform": leaf}
                )(image=np.array(image))
                expected = np.asarray(
                    operation.apply_to_pil(image, signed, color, (0.5, 0.5)),
                    dtype=float,
                )
                largest = max(largest, np.abs(result["image"] - expected).max())
        exact |= {operation.name} if largest == 0 else set()
        assert largest <= 2 or operation.name not in (
            "AutoContrast",
            "Color",
            "Contrast",
        )
    assert exact == {"Invert", "Solarize", "Posterize", "Brightness"}


def leaves(transform: dict[str, Any]) -> list[dict[str, Any]]:
    inner = transform.get("transforms")
    return (
        [transform]
        if inner is None
        else [leaf for child in inner for leaf in leaves(child)]
    )


def test_a_magnitude_that_is_spread_keeps_its_median_and_takes_both_signs() -> None:
    schedule = Schedule(
        search_space(operations=["Rotate"]), np.array([[1.0, 15.0, 0.0, 15.0]])
    ).with_spread(1.0)
    exported_leaves = leaves(
        json.loads(hba.export(schedule, "albumentations"))["transform"]
    )
    degrees = sorted(
        {round(leaf["rotate"][0], 3) for leaf in exported_leaves if "rotate" in leaf}
    )
    # 30 times the sigmoid of -0.967, 0 and 0.967, the normal's sixths.
    third = 30 / (1 + np.exp(0.9674))
    assert degrees == pytest.approx(
        [third - 30, -15, -third, third, 15, 30 - third], abs=1e-2
    )


def test_of_a_schedule_that_changes_it_is_the_last_epoch_and_says_so() -> None:
    schedule = schedule_of("hba", epochs=3)
    with pytest.warns(HbaWarning, match=r"--epoch N and --average"):
        text = hba.export(schedule, "albumentations")
    assert text == hba.export(schedule.only(2), "albumentations")


class Images(Dataset[torch.Tensor]):
    def __init__(self, transform: Any) -> None:
        self.transform = transform
        self.image = np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8)

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(self.transform(image=self.image)["image"].copy())


@pytest.mark.parametrize("is_persistent", [False, True])
def test_workers_and_epochs_draw_differently_as_the_documents_say(
    is_persistent: bool, tmp_path: Path
) -> None:
    albumentations = pytest.importorskip("albumentations")
    code = next(
        block
        for block in blocks_of(text_of("docs/pipelines.md"), "python")
        if "def seed_worker" in block
    )
    names: dict[str, Any] = {}
    exec(
        code[: code.index("class Animals")]
        + code[code.index("def seed_worker") : code.index("loader =")],
        names,
    )
    hba.export(
        schedule_of("hba").averaged(), "albumentations", tmp_path / "policy.json"
    )
    policy = albumentations.Compose([albumentations.load(tmp_path / "policy.json")])
    options: dict[str, Any] = {"num_workers": 2, "persistent_workers": is_persistent}
    loader = DataLoader(
        Images(policy), batch_size=16, worker_init_fn=names["seed_worker"], **options
    )
    batches = [batch.numpy().tobytes() for _ in range(3) for batch in loader]
    assert len({*batches}) == 12, "no batch is that of another worker or epoch"


def substitute(albumentations: Any, name: str, arguments: dict[str, str]) -> Any:
    """A class as AlbumentationsX has it: with other names of its arguments, by their
    names in albumentations.
    """
    original = getattr(albumentations, name)
    defaults = {
        new_name: inspect.signature(original).parameters[other].default
        for new_name, other in arguments.items()
    }
    fields: dict[str, Any] = {new_name: (Any, ...) for new_name in arguments}

    def make(self: Any, **arguments_given: Any) -> None:
        p = arguments_given.pop("p")
        original.__init__(
            self,
            **{
                arguments[name_given]: value
                for name_given, value in arguments_given.items()
            },
            p=p,
        )

    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    for new_name, default in {**defaults, "p": 0.5}.items():
        parameters.append(
            inspect.Parameter(new_name, inspect.Parameter.KEYWORD_ONLY, default=default)
        )
    make.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    schema = pydantic.create_model(
        "InitSchema", __base__=albumentations.BasicTransform.InitSchema, **fields
    )
    return type(original)(
        f"{name}Renamed", (original,), {"__init__": make, "InitSchema": schema}
    )


def test_a_library_with_renamed_arguments_augments_the_same_or_refuses(
    monkeypatch: Any, tmp_path: Path
) -> None:
    albumentations = pytest.importorskip("albumentations")
    registry = albumentations.core.serialization.SERIALIZABLE_REGISTRY
    renamed = {
        "ColorJitter": {
            f"{quantity}_range": quantity
            for quantity in ("brightness", "contrast", "saturation", "hue")
        },
        "Sharpen": {
            "alpha_range": "alpha",
            "lightness_range": "lightness",
            "method": "method",
        },
        "GaussianBlur": {"blur_range": "blur_limit", "sigma_range": "sigma_limit"},
        "RandomGamma": {"gamma_range": "gamma_limit"},
    }
    file = tmp_path / "policy.json"
    policies = [
        schedule_of("hba", "magnitudes"),
        schedule_of("stages").without("Perspective", "Elastic", "Blur"),
    ]
    for policy in policies:
        hba.export(policy.averaged(), "albumentations", file)
        results = []
        for is_renamed in (False, True):
            with monkeypatch.context() as patch:
                for name, arguments in renamed.items() if is_renamed else ():
                    patch.setitem(
                        registry, name, substitute(albumentations, name, arguments)
                    )
                pipeline = albumentations.load(file)
            pipeline.set_random_state(np.random.default_rng(0), random.Random(0))
            results.append(
                [
                    pipeline(image=np.array(pictures()[0]))["image"].tobytes()
                    for _ in range(30)
                ]
            )
        assert results[0] == results[1]
        affine = substitute(albumentations, "Affine", {"angle": "rotate"})
        with monkeypatch.context() as patch:
            patch.setitem(registry, "Affine", affine)
            with pytest.raises(ValueError, match="AffineRenamed"):
                albumentations.load(file)


def test_pixels_of_masks_that_are_uncovered_have_the_given_value(
    tmp_path: Path,
) -> None:
    """Others are those of a mask with zeros; erased areas keep their classes."""
    albumentations = pytest.importorskip("albumentations")
    schedule = hba.load_policy("overhead").averaged()
    masks = []
    for mask_fill in (0, 255):
        file = tmp_path / f"{mask_fill}.json"
        hba.export(schedule, "albumentations", file, mask_fill=mask_fill)
        pipeline = albumentations.load(file)
        pipeline.set_random_state(np.random.default_rng(0), random.Random(0))
        image = np.zeros((32, 32, 3), np.uint8)
        mask = np.full((32, 32), 7, np.uint8)
        masks.append(
            np.stack([pipeline(image=image, mask=mask)["mask"] for _ in range(50)])
        )
    assert {*np.unique(masks[1])} == {7, 255}
    assert np.array_equal(masks[1] == 255, masks[0] == 0)
