"""One row is enough to draw, apply, show, save and export an operation of one's own."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from exported import augmented, module_of, pictures
from hba.cli import main
from own_operations import GAMMA, NEGATIVE
from PIL import ImageOps
from torchvision.transforms.v2 import functional as TF

import hba
from hba.errors import SettingsError
from hba.operations import Operation, register_operation
from hba.packed.program import code_of
from hba.policy.space import SearchSpace
from hba.policy.spaces import randaugment, search_space
from hba.schedule.schedule import Schedule

N_IMAGES = 500
pytestmark = pytest.mark.usefixtures("registered")


def always(operation: Operation, *magnitude: float) -> Schedule:
    """The operation on every image."""
    register_operation(operation)
    space = SearchSpace((operation,), 1, (0.0, 1.0))
    return Schedule(space, np.array([[1.0, *magnitude]]))


def test_a_search_draws_it_as_randaugment_does_at_first() -> None:
    register_operation(NEGATIVE)
    space = search_space("hba", ["Equalize", "Negative", "Invert"])
    assert space.operations[1] is NEGATIVE
    start = dict(zip(space.names, space.decode(randaugment(space)), strict=True))
    assert start["Negative.1.probability"] == start["Equalize.1.probability"]
    assert start["Negative.1.probability"] > start["Invert.1.probability"]


def test_pil_images_tensors_and_bytes_get_it() -> None:
    schedule = always(NEGATIVE)
    transform = schedule.transform()
    policy = schedule.policy(0)
    assert code_of(NEGATIVE) is not None
    for image in pictures():
        expected = ImageOps.invert(image)
        pixels = TF.pil_to_tensor(image)
        assert transform(image).tobytes() == expected.tobytes()
        assert torch.equal(transform(pixels), 255 - pixels)
        assert torch.equal(policy(pixels[None]), 255 - pixels[None])
        torch.testing.assert_close(policy(pixels[None] / 255), 1 - pixels[None] / 255)


def test_it_is_saved_and_shown(tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    schedule = always(NEGATIVE)
    schedule.save(path)
    assert hba.load_policy(path).space.operations == (NEGATIVE,)
    shown = CliRunner().invoke(main, ["show", str(path)])
    assert shown.exit_code == 0
    assert "Negative" in shown.output


def test_each_library_gets_it() -> None:
    schedule = always(NEGATIVE)
    image = pictures()[0]
    pixels = TF.pil_to_tensor(image)[None] / 255
    transform = module_of(hba.export(schedule, "torchvision")).transform()
    assert augmented(transform, image, 0).tobytes() == ImageOps.invert(image).tobytes()
    policy = module_of(hba.export(schedule, "kornia")).policy()
    torch.testing.assert_close(augmented(policy, pixels, 0), 1 - pixels)
    assert "InvertImg" in hba.export(schedule, "albumentations")
    assert '"function": "own_operations:negative"' in hba.export(schedule, "json")


def test_another_use_of_it_draws_its_magnitude_wherever_it_is_played() -> None:
    """Exponents from U(0.5, 1.5), from the grey of each image."""
    jitter = dataclasses.replace(
        GAMMA,
        name="PowerJitter",
        magnitude_range=(0.0, 1.0),
        drawing="around",
        stage="photometric",
    )
    register_operation(jitter)
    space = SearchSpace((jitter,), count_probabilities=(1.0,))
    schedule = Schedule(space, np.array([[1.0, 0.5]]))
    pixels = torch.full((N_IMAGES, 3, 2, 2), 0.5)
    levels = torch.full((3, 2, 2), 128, dtype=torch.uint8)
    exported = module_of(hba.export(schedule, "torchvision")).transform()
    transform = schedule.transform()
    kornia = module_of(hba.export(schedule, "kornia")).policy()
    torch.manual_seed(0)
    for changed in (
        schedule.policy(0)(pixels),
        kornia(pixels),
        torch.stack([transform(levels) for _ in range(N_IMAGES)]) / 255,
        torch.stack([exported(levels) for _ in range(N_IMAGES)]) / 255,
    ):
        exponents = -changed[:, 0, 0, 0].log2()
        assert exponents.min() == pytest.approx(0.5, abs=0.03)
        assert exponents.max() == pytest.approx(1.5, abs=0.03)
        assert exponents.mean() == pytest.approx(1.0, abs=0.06)


def test_a_library_that_cannot_express_it_refuses_it_in_one_line() -> None:
    """Never as another operation."""
    schedule = always(GAMMA, 2.0)
    for target in ("torchvision", "kornia", "json"):
        assert "gamma" in hba.export(schedule, target)
    with pytest.raises(
        SettingsError, match="albumentations cannot express Power"
    ) as raised:
        hba.export(schedule, "albumentations")
    assert "\n" not in str(raised.value)
