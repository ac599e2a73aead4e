"""What a caller has set in PyTorch changes no pixel, and is left as it was."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from exported import augmented, module_of, pictures, schedule_of
from torchvision.transforms.v2 import functional as TF

import hba


@contextlib.contextmanager
def double_precision() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


STATES: Mapping[str, Callable[[], Any]] = {
    "device": lambda: torch.device("meta"),
    "type": double_precision,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "inference": torch.inference_mode,
    "no gradients": torch.no_grad,
}


def state() -> tuple[Any, ...]:
    return (
        torch.get_default_dtype(),
        torch.get_default_device(),
        torch.is_autocast_enabled("cpu"),
        torch.is_inference_mode_enabled(),
        torch.is_grad_enabled(),
    )


def test_transforms_and_exports_give_the_same_pixels() -> None:
    schedule = schedule_of("stages", "magnitudes")
    image = pictures()[0]
    levels = TF.pil_to_tensor(pictures()[0])
    floats = levels[None] / 255
    modules = {
        to: module_of(hba.export(schedule, to)) for to in ("torchvision", "kornia")
    }

    def all_augmented() -> list[np.ndarray]:
        transform = schedule.transform()
        exported = modules["torchvision"].transform()
        policies = (schedule.policy(0), modules["kornia"].policy())
        forms = (image, np.array(image), levels, floats[0], floats)
        results = [
            *(augmented(transform, form, 0) for form in forms),
            *(augmented(exported, form, 0) for form in (image, levels)),
            *(augmented(policy, floats, 0) for policy in policies),
        ]
        return [np.asarray(result) for result in results]

    expected = all_augmented()
    for name, enter in STATES.items():
        with enter():
            before = state()
            results = all_augmented()
            assert state() == before
        for number, (result, other) in enumerate(zip(results, expected, strict=True)):
            assert np.array_equal(result, other), (name, number)


def search_and_evaluate() -> tuple[np.ndarray, Any]:
    """The values of a schedule, and the test losses of the rows of an evaluation."""
    settings: dict[str, Any] = {
        "epochs": 1,
        "train_size": 40,
        "image_size": 8,
        "model": "wrn-10-1",
    }
    schedule: Any = hba.search("digits", space="hba", val_size=20, **settings).schedule
    evaluation = hba.evaluate(
        schedule, "digits", against=["none"], seeds=1, jobs=1, **settings
    )
    return schedule.values, [row.by_seed("test_loss") for row in evaluation.rows]


def test_searches_and_evaluations_compute_the_same() -> None:
    values, losses = search_and_evaluate()
    with STATES["device"](), STATES["type"](), STATES["inference"]():
        before = state()
        other_values, other_losses = search_and_evaluate()
        assert state() == before
    assert np.array_equal(other_values, values)
    assert other_losses == losses
