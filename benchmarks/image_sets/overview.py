"""The picture of README.md: images augmented with the policies that `hba auto` chose
for them, and its test errors.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from common.records import Record, Results
from PIL import Image
from torchvision.transforms.v2 import functional as TF

from hba.data import load_image
from hba.results.answer import words_of
from hba.schedule.library import load_policy
from hba.schedule.pictures import augmented_copies, shown
from hba.schedule.recipes import RECIPES
from hba.schedule.schedule import Schedule
from image_sets.auto import AUTO, AUTO_SETS
from image_sets.runs import folder_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MINUTES = 20
N_COPIES = 6
N_COLORS = 160
STRIPS = MappingProxyType({"pbc": 3})
"""The number of the test image by the set."""
NAMES: Mapping[str, str] = MappingProxyType(
    {
        "pbc": "blood cells",
        "wbc-shift": "cells, other labs",
        "omniglot": "characters",
        "gtsrb32": "traffic signs",
        "rsscn7": "satellite scenes",
        "flowers": "flowers",
        "cifar10-uneven": "CIFAR-10",
        "digits": "digits",
    }
)
MARKS: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        "no augmentation": {
            "marker": "o",
            "facecolors": "none",
            "edgecolors": "#777777",
            "s": 110,
        },
        "RandAugment": {
            "marker": "^",
            "facecolors": "#d98c1f",
            "edgecolors": "none",
            "s": 120,
        },
        "best recipe in hindsight": {
            "marker": "D",
            "facecolors": "none",
            "edgecolors": "#1f5fbf",
            "s": 190,
        },
        "hba auto": {
            "marker": "o",
            "facecolors": "#12805c",
            "edgecolors": "none",
            "s": 80,
        },
    }
)


def draw_overview(records: Iterable[Record], work: Path, out: Path) -> None:
    """Draw the choices and errors of the runs with MINUTES."""
    # Other commands do not need matplotlib.
    import matplotlib.pyplot as plt

    runs = {
        record.run.dataset: record.results
        for record in records
        if record.run.further["minutes"] == MINUTES
    }
    heights = [*[1.4] * len(STRIPS), 0.9 + 0.3 * len(runs)]
    figure = plt.figure(figsize=(8, sum(heights)), dpi=150, layout="constrained")
    parts: Any = figure.subfigures(len(heights), 1, height_ratios=heights)
    *strips, below = parts
    for strip, (name, number) in zip(strips, STRIPS.items(), strict=True):
        schedule = load_policy(work / AUTO / f"{name}-{MINUTES}m")
        title = f"{NAMES[name].capitalize()}: {words_of(runs[name]['chosen'])}"
        strip.suptitle(title, x=0.005, ha="left", fontsize=13)
        draw_strip(
            strip.subplots(1, 1 + N_COPIES),
            schedule,
            Path(folder_of(name, work)),
            number,
        )
    draw_errors(below.subplots(), runs)
    figure.savefig(out)
    with Image.open(out) as picture:
        picture.convert("RGB").quantize(N_COLORS).save(out, optimize=True)


def draw_strip(
    row: "Sequence[Axes]", schedule: Schedule, folder: Path, number: int
) -> None:
    """An image, and copies of it with the policy that was chosen, filled with the mean
    color of the image.
    """
    path = sorted((folder / "test").glob("*/*"))[number]
    image = TF.pil_to_tensor(load_image(path))
    filled = dataclasses.replace(
        schedule, fill=tuple((image / 255).mean(dim=(1, 2)).tolist())
    )
    copies = next(augmented_copies(filled, [image], epoch=0, n_copies=N_COPIES, seed=0))
    for place, (panel, picture) in enumerate(
        zip(row, [image / 255, *(copy for copy, _ in copies)], strict=True)
    ):
        panel.imshow(shown(picture).permute(1, 2, 0).numpy())
        panel.set(xticks=[], yticks=[])
        panel.spines[:].set_color("#12805c" if place == 0 else "#cccccc")
        panel.spines[:].set_linewidth(3 if place == 0 else 1)


def draw_errors(panel: "Axes", runs: Mapping[str, Results]) -> None:
    """Mean test errors of each set."""
    names = [name for name in AUTO_SETS if name in runs]
    for height, name in enumerate(reversed(names)):
        results = runs[name]
        errors = {
            row: fmean(seed_errors) for row, seed_errors in results["errors"].items()
        }
        best = min(error for row, error in errors.items() if row in RECIPES)
        means = [errors["none"], errors["randaugment"], best, errors[results["chosen"]]]
        panel.plot(
            [min(means), max(means)], [height, height], color="#dddddd", zorder=1
        )
        for mean, (label, mark) in zip(means, MARKS.items(), strict=True):
            panel.scatter(
                mean,
                height,
                **mark,
                linewidths=2,
                zorder=2,
                label=label if height == 0 else None,
            )
    panel.set_yticks(
        range(len(names)), [NAMES[name] for name in reversed(names)], fontsize=13
    )
    panel.set_ylim(-0.6, len(names) - 0.4)
    panel.set_xlim(left=0)
    panel.tick_params(axis="x", labelsize=12)
    panel.tick_params(axis="y", length=0)
    panel.set_xlabel("test error, %", fontsize=13)
    panel.spines[["top", "right", "left"]].set_visible(False)
    panel.legend(
        loc="lower center",
        bbox_to_anchor=(0.42, 1.0),
        ncols=4,
        frameon=False,
        fontsize=12,
        handletextpad=0.2,
    )
