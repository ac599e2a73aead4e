"""hba train and hba predict: train a network with a policy, and classify new images, or
their pixels, with it.
"""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import torch
from torch import Tensor

import hba
from hba.config.evaluation import INHERITED, EvaluationConfig
from hba.config.presets import EVALUATION_PRESETS
from hba.data.folder import files_in
from hba.data.reading import SkippedFile, printable
from hba.errors import DataError, SettingsError
from hba.training.metrics import measure_batch_size
from hba.training.trained_network import NETWORK_NAME

from . import masks
from .evaluate import PrintsEvaluation
from .help import SectionedCommand
from .left_out import end_with_left_out, none_can_be_read
from .options import (
    DATA,
    SCHEDULE,
    complete,
    given,
    number_option,
    path_option,
    settings_options,
)
from .terminal import (
    json_option,
    operations_file_option,
    print_json,
    print_table,
    run_folder,
    say,
    trainings_kept,
)


@click.command(
    cls=SectionedCommand,
    params=settings_options(
        EvaluationConfig,
        without=("data", "val_size", "seeds", "first_seed"),
        default_texts={
            **dict.fromkeys(INHERITED, "as in the search"),
            "with_val": "on",
        },
    ),
)
@click.argument("policy", shell_complete=SCHEDULE)
@click.argument("data", required=False, shell_complete=DATA)
@number_option(
    "--seed", "first_seed", help="Seed of the weights, batches and draws. [default: 0]"
)
@click.option(
    "--preset",
    metavar="NAME",
    shell_complete=complete(EVALUATION_PRESETS),
    help="Named settings, see `hba presets`.",
)
@path_option("--out", help="Folder of the network. [default: a new one in runs/]")
@click.option(
    "--resume",
    is_flag=True,
    help="Resume the training in --out; give all other options as before.",
)
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Train on a running Ray cluster; auto finds that of this machine.",
)
@click.option(
    "--allow-seen",
    is_flag=True,
    help="Allow test images that the search of POLICY has seen.",
)
@path_option(
    "--config",
    help="Start from the settings of an evaluation: its folder or results.json.",
)
@operations_file_option
def train(policy: str, data: str | None, out: Path | None, **options: Any) -> None:
    """Train a network with POLICY on DATA, and save it for `hba predict`.

    POLICY is a schedule file, a run folder, or the name of a recipe or of a shipped
    schedule. DATA is as for `hba search`. Training uses all images except the test
    split, on which the network is measured at the end. Settings that you do not give
    are taken from the search that made POLICY.

    The folder contains the network (network.pt, network.json), the policy for hba and
    torchvision (policy.json, pipeline.py), and the test results (results.json,
    report.html).
    """
    seed = options.pop("first_seed") or 0
    with (
        run_folder(out, "train", resume=options["resume"]) as folder,
        PrintsEvaluation() as terminal,
        trainings_kept(folder, lambda: terminal.n_done),
    ):
        network = hba.train(
            policy, data, out=folder, seed=seed, callback=terminal, **given(options)
        )
    say(
        f"Test error: {network.info.test_error_percent:.2f} % on"
        f" {network.info.test_images:,} images"
    )
    say(
        f"Network: {folder / NETWORK_NAME}; `hba predict {shlex.quote(str(folder))}"
        " IMAGE` uses it"
    )


@click.command()
@click.argument("run", type=click.Path(path_type=Path, readable=False))
@click.argument(
    "images", nargs=-1, required=True, type=click.Path(path_type=Path, readable=False)
)
@path_option("--out", help="Folder for masks, if the network predicts them.")
@json_option
def predict(
    run: Path, images: tuple[Path, ...], out: Path | None, as_json: bool
) -> None:
    """Classify IMAGES, files or folders, with the network in RUN, and print the
    probabilities, or the numbers that it predicts.

    RUN is the folder of `hba auto`, `hba train` or `hba evaluate --keep-network`. Files
    that cannot be read are left out and listed; if one of them is in IMAGES itself, the
    exit code is 2.

    A network of masks writes one for each image into --out, as a PNG whose pixels are
    numbers of classes, and a picture of the image with the classes in colors.
    """
    network = hba.load_network(run)
    if network.task.has_masks:
        masks.predict(network, images, out, as_json=as_json)
        return
    if out is not None:
        raise SettingsError(
            "--out is for masks, which this network does not predict; omit it (--json"
            " prints all predictions)"
        )
    folders = {path: files_in(path) for path in images if path.is_dir()}
    files = [
        file
        for path in images
        for file in (folders[path][0] if path in folders else [path])
    ]
    left_out = [skipped for _, broken in folders.values() for skipped in broken]
    predictions = [
        pair for pairs in _predicted(network, files, left_out) for pair in pairs
    ]
    if not predictions:
        raise none_can_be_read(files, left_out)
    cells = [(printable(str(file)), *_cells(network, row)) for file, row in predictions]
    if as_json:
        printed = [
            {"image": str(file), **_content(network, row)} for file, row in predictions
        ]
        print_json(
            {"images": printed, "left_out": [skipped._asdict() for skipped in left_out]}
        )
    else:
        headings: tuple[str, ...] = ("image", "class", "probability", "next best")
        if network.task.has_numbers:
            headings = ("image", printable(network.classes[0]))
        print_table(headings, cells)
    end_with_left_out(left_out, images, are_listed=not as_json)


def _predicted(
    network: hba.TrainedNetwork, files: Sequence[Path], left_out: list[SkippedFile]
) -> Iterator[Iterable[tuple[Path, Tensor]]]:
    """Yield files with their probabilities (classes,), batch by batch. Unreadable files
    are added to left_out.
    """
    size = measure_batch_size(network.info.image_size)
    for first in range(0, len(files), size):
        pixels: dict[Path, Tensor] = {}
        for file in files[first : first + size]:
            try:
                pixels[file] = network.read(file)
            except DataError as error:
                left_out.append(SkippedFile(str(file), str(error)))
        if pixels:
            yield zip(
                pixels, network.predict(torch.stack([*pixels.values()])), strict=True
            )


def _content(network: hba.TrainedNetwork, row: Tensor) -> dict[str, Any]:
    """The prediction of an image for JSON."""
    if network.task.has_numbers:
        return {"number": row.item()}
    name, *_ = _cells(network, row)
    probabilities = dict(zip(network.classes, row.tolist(), strict=True))
    return {"class": name, "probabilities": probabilities}


def _cells(network: hba.TrainedNetwork, row: Tensor) -> tuple[str, ...]:
    """The predicted class or labels, their probabilities, and the next best class; or
    the number.
    """
    if network.task.has_numbers:
        return (network.info.scale.text(row.item()),)
    ranked = [
        (network.classes[number], f"{row[number]:.3f}")
        for number in row.argsort(descending=True).tolist()
    ]
    n_found = network.task.n_answers(row)
    names, values = zip(*ranked[:n_found], strict=True) if n_found else ((), ())
    return (
        ", ".join(names) or "-",
        ", ".join(values) or "-",
        " ".join(next(iter(ranked[n_found:]), ("-",))),
    )
