"""hba predict with a network of masks: writes a mask and a picture for each image."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torchvision.transforms.v2 import functional as TF

import hba
from hba.data.folder import files_in
from hba.data.masks import as_picture, overlay
from hba.data.reading import SkippedFile, load_image, printable
from hba.errors import DataError, SettingsError
from hba.utils.files import write_atomically

from .left_out import end_with_left_out, none_can_be_read
from .terminal import print_json, print_table

PICTURE_ENDING = ".overlay.jpg"
"""Ending of the pictures of images with their classes in colors."""


def predict(
    network: hba.TrainedNetwork,
    images: Sequence[Path],
    out: Path | None,
    *,
    as_json: bool,
) -> None:
    """Write a mask and a picture for each image, and print the shares of the classes.

    Args:
        network: The network.
        images: Files and folders.
        out: The folder to write into.
        as_json: Whether to print JSON.

    Raises:
        SettingsError: Without a folder.
        DataError: If no image can be read, and for two images of one name.
    """
    if out is None:
        raise SettingsError("the network predicts masks; give a folder for them: --out")
    targets = _targets(images)
    inputs = {file.resolve() for file in targets}
    for target in targets.values():
        written = (out / target).resolve()
        if inputs & {written, written.with_suffix(PICTURE_ENDING)}:
            raise SettingsError(
                f"the masks would replace images, such as {written}; choose another"
                " --out"
            )
    shares: dict[Path, np.ndarray] = {}
    left_out: list[SkippedFile] = []
    for file, target in targets.items():
        try:
            shares[file] = _write(network, file, out / target)
        except DataError as error:
            left_out.append(SkippedFile(str(file), str(error)))
    if not shares:
        raise none_can_be_read([*targets], left_out)
    if as_json:
        printed = [
            {
                "image": str(file),
                "mask": str(out / targets[file]),
                "shares": dict(zip(network.classes, row.tolist(), strict=True)),
            }
            for file, row in shares.items()
        ]
        print_json(
            {"images": printed, "left_out": [skipped._asdict() for skipped in left_out]}
        )
    else:
        cells = [
            (printable(str(out / targets[file])), _in_words(network, row))
            for file, row in shares.items()
        ]
        print_table(("mask", "share of the pixels"), cells)
    end_with_left_out(left_out, images, are_listed=not as_json)


def _targets(images: Sequence[Path]) -> dict[Path, Path]:
    """The name of each image's mask in the folder of masks, by image."""
    targets: dict[Path, Path] = {}
    for path in images:
        files = files_in(path)[0] if path.is_dir() else [path]
        for file in files:
            name = file.relative_to(path) if path.is_dir() else Path(file.name)
            targets[file] = name.with_suffix(".png")
    by_target = {target: file for file, target in targets.items()}
    for file, target in targets.items():
        if by_target[target] != file:
            raise DataError(
                f"{file} and {by_target[target]} would have the same mask {target};"
                " predict them one after the other"
            )
    return targets


def _write(network: hba.TrainedNetwork, file: Path, target: Path) -> np.ndarray:
    """Write the mask of an image, and return the share of each class (classes,)."""
    mask = network.mask(file)
    image = TF.pil_to_tensor(load_image(file, levels=network.info.levels))
    picture = TF.to_pil_image(overlay(image, torch.from_numpy(mask)))
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, lambda to: as_picture(mask).save(to, format="PNG"))
    write_atomically(
        target.with_suffix(PICTURE_ENDING), lambda to: picture.save(to, format="JPEG")
    )
    counts = np.bincount(mask.flatten(), minlength=len(network.classes))
    shares: np.ndarray = counts / mask.size
    return shares


def _in_words(network: hba.TrainedNetwork, shares: np.ndarray) -> str:
    return ", ".join(
        f"{printable(network.classes[number])} {100 * shares[number]:.1f} %"
        for number in shares.argsort()[::-1]
        if shares[number] > 0
    )
