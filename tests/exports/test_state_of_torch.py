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
        *(
            torch.get_default_dtype(),
            torch.get_default_device(),
            torch.is_autocast_enabled("cpu"),
        ),
        *(torch.is_inference_mode_enabled(), torch.is_grad_enabled()),
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
        found = [
            augmented(transform, one, 0)
            for one in (image, np.array(image), levels, floats[0], floats)
        ]
        found += [augmented(exported, one, 0) for one in (image, levels)]
        found += [
            augmented(one, floats, 0)
            for one in (schedule.policy(0), modules["kornia"].policy())
        ]
        return [np.asarray(one) for one in found]

    expected = all_augmented()
    for name, made in STATES.items():
        with made():
            before = state()
            found = all_augmented()
            assert state() == before
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert np.array_equal(one, other), (name, number)


def test_searches_and_evaluations_compute_the_same() -> None:
    settings: dict[str, Any] = {
        "epochs": 1,
        "train_size": 40,
        "image_size": 8,
        "model": "wrn-10-1",
    }

    def computed() -> tuple[np.ndarray, Any]:
        schedule: Any = hba.search(
            "digits", space="hba", val_size=20, **settings
        ).schedule
        found = hba.evaluate(
            schedule, "digits", against=["none"], seeds=1, jobs=1, **settings
        )
        return schedule.values, [row.by_seed("test_loss") for row in found.rows]

    values, losses = computed()
    for name in ("device", "type", "inference"):
        with STATES[name]():
            before, (others, other_losses) = state(), computed()
            assert state() == before
        assert np.array_equal(values, others), name
        assert losses == other_losses, name
