"""Seconds of a training step with masks, beside loops with segmentation-models-pytorch.

This package is not a dependency of hba.
"""

import importlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd
import torch
from common.records import Record, Results, Run
from common.tables import hardware_of, markdown, ratio_text, spread_text
from common.timing import StepClock, in_turns, training_seconds_per_step
from torch import Tensor, nn

from hba.config.evaluation import EvaluationConfig
from hba.data import EvaluationData, LabelledImages
from hba.errors import RunError
from hba.models import build_model
from hba.models.unet import encoder_of
from hba.tasks.segmentation import IGNORED
from hba.training.optim import OPTIMIZERS
from hba.utils.devices import find_device
from speeds.steps import BATCHES, LEARNING_RATE, SIZE, noise

N_CLASSES = 11
SAME = "same network"
PEER = "U-Net of segmentation-models-pytorch"
HBA = "hba"


def peer_library() -> Any:
    """segmentation-models-pytorch.

    Raises:
        RunError: If it is not installed.
    """
    try:
        return importlib.import_module("segmentation_models_pytorch")
    except ImportError as error:
        raise RunError(
            "Timing steps with masks needs segmentation-models-pytorch: pip install"
            " segmentation-models-pytorch"
        ) from error


def noise_with_masks(n_images: int, side: int, device: torch.device) -> LabelledImages:
    """Noise as images and as masks, without ignored pixels."""
    generator = torch.Generator().manual_seed(0)
    masks = torch.randint(
        0, N_CLASSES, (n_images, side, side), dtype=torch.uint8, generator=generator
    )
    images = noise(n_images, side, 0).images
    return LabelledImages(images.to(device), masks.to(device))


def plain_seconds_per_step(
    network: nn.Module, data: LabelledImages, batch_size: int, measured: int
) -> float:
    """Seconds per step of a loop with the losses of segmentation-models-pytorch, which
    takes random batches from memory and normalizes them.
    """
    device = data.images.device
    cross_entropy = nn.CrossEntropyLoss(ignore_index=IGNORED)
    dice = peer_library().losses.DiceLoss("multiclass", ignore_index=IGNORED)
    optimizer = OPTIMIZERS["sgd"](network.parameters(), lr=LEARNING_RATE)
    network.to(device).train()
    clock = StepClock(measured, 1, device)
    clock.started(0, 0, 0, 0)
    for step in range(1, measured + 1):
        chosen = torch.randint(len(data.images), (batch_size,), device=device)
        images: Tensor = (data.images[chosen].float() / 255 - 0.5) / 0.25
        masks = data.labels[chosen].long()
        logits = network(images)
        loss = cross_entropy(logits, masks) + dice(logits, masks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        clock.step_done(step)
    return clock.seconds_per_step


def record_of_masks(
    shared: Mapping[str, Any], steps: int, rounds: int, made_by: Mapping[str, Any]
) -> Record:
    """Times a step of hba, and of loops with the same network and with the U-Net of
    segmentation-models-pytorch and the same encoder.
    """
    model, side, batch_size = (shared[name] for name in SIZE)
    device = find_device(shared["device"])
    images = noise_with_masks(BATCHES * batch_size, side, device)
    names = tuple(map(str, range(N_CLASSES)))
    data = EvaluationData("noise", names, images, images)
    config = EvaluationConfig.make(
        {**shared, "data": "noise", "learning_rate": LEARNING_RATE}
    )
    encoder = encoder_of(model).removeprefix("timm:").replace("-", "_")
    peer = peer_library().Unet(f"tu-{encoder}", encoder_weights=None, classes=N_CLASSES)
    same = build_model(model, N_CLASSES, 0, side)
    timed = {
        HBA: partial(training_seconds_per_step, config, data, steps),
        SAME: partial(plain_seconds_per_step, same, images, batch_size, steps),
        PEER: partial(plain_seconds_per_step, peer, images, batch_size, steps),
    }
    results: Results = {**in_turns(timed, rounds)}
    settings = {**shared, "steps": steps, "rounds": rounds}
    return Record(Run("masks", "noise", settings, seed=0), results, made_by)


def mask_table(records: Sequence[Record]) -> str:
    """A Markdown table of the seconds of a step, and of the ratios to both loops within
    a round.
    """
    lines = []
    for record in records:
        seconds = record.results
        line = {
            "network, pixels, batch": ", ".join(
                str(record.run.settings[setting]) for setting in SIZE
            ),
            "a step of hba": spread_text(seconds[HBA], 4),
        }
        for loop in (SAME, PEER):
            line[f"a loop: {loop}"] = spread_text(seconds[loop], 4)
            line[f"hba / {loop}"] = ratio_text(seconds[HBA], seconds[loop])
        line["rounds"] = str(len(seconds[HBA]))
        line["hardware, commit"] = (
            f"{hardware_of(record.made_by)}, `{record.made_by['commit']}`"
        )
        lines.append(line)
    return markdown(pd.DataFrame(lines))
