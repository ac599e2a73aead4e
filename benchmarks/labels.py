"""Run `hba auto` on images with masks and with numbers, and compare its choice with
other policies that are trained like its network.

    python benchmarks/labels.py run [--sets nuclei,camvid] [--dry-run]
    python benchmarks/labels.py table
    python benchmarks/labels.py picture

The archives of the sets are in the folder HBA_DATA. `run` runs the plan in labels.toml,
which has to be committed before, with nothing else on the machine. `table` prints the
results. `picture` draws docs/masks.png.
"""

from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
import torch
from common.options import (
    DEVICE,
    DRY_RUN,
    KEPT_IN,
    OneLineErrors,
    RunOptions,
    names_option,
    with_options,
    work,
)
from common.records import DOCS, store_of
from common.running import carry_out
from common.tables import markdown, origin
from image_sets.auto import AutoPlan, AutoTask, choice_table, facts_of_run
from image_sets.labels import LABEL_SETS, MASKS, NUMBERS, POLICIES, with_masks
from PIL import Image
from quality.plan import planned_for
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as TF
from torchvision.utils import make_grid

from hba.data import load_image
from hba.data.masks import overlay
from hba.schedule.recipes import RECIPES
from hba.tasks.segmentation import IGNORED

PLAN = Path(__file__).with_name("labels.toml")
SHOWN_SET = "nuclei"
SHOWN_IMAGE = "853a4c67900c411a"
SHOWN_RECIPE = "overhead-randaugment"
N_COPIES = 6


@click.group(help=__doc__, cls=OneLineErrors)
def main() -> None:
    pass


@main.command()
@with_options(
    names_option("--sets", LABEL_SETS), DEVICE, work("runs/labels"), KEPT_IN, DRY_RUN
)
def run(sets: tuple[str, ...], **options: Any) -> None:
    """Run hba auto as a user would, with nothing else on the machine."""
    where = RunOptions(**options, jobs=1)
    for question in (MASKS, NUMBERS):
        plan = planned_for(question, PLAN, AutoPlan)
        tasks = [
            AutoTask(
                question,
                name,
                minutes,
                plan.rows,
                plan.seeds,
                where.work,
                LABEL_SETS[name].make,
                LABEL_SETS[name].options,
                POLICIES,
            )
            for minutes in plan.budgets
            for name in sets
            if LABEL_SETS[name].question == question
        ]
        carry_out(tasks, question, where, plan, PLAN)


@main.command()
@KEPT_IN
def table(results: Path) -> None:
    """Print what each run has chosen, and the test error of each row beside none."""
    for question in (MASKS, NUMBERS):
        plan = planned_for(question, PLAN, AutoPlan)
        records = store_of(results, question).records()
        if not records:
            continue
        facts = [facts_of_run(record.run.dataset, record.results) for record in records]
        for lines in (pd.DataFrame(facts), choice_table(records, plan)):
            click.echo(f"{markdown(lines)}\n")
        click.echo(f"{origin(records)}\n")


@main.command()
@work("runs/labels")
def picture(work: Path) -> None:
    """Draw an image with its mask, and copies of both by a recipe."""
    folder = Path(with_masks(SHOWN_SET, work)) / "test"
    transform = RECIPES[SHOWN_RECIPE].make().transform(mask_fill=IGNORED)
    with Image.open(folder / "masks" / f"{SHOWN_IMAGE}.png") as file:
        mask = tv_tensors.Mask(np.array(file))
    (path,) = (folder / "images").glob(f"{SHOWN_IMAGE}.*")
    image = tv_tensors.Image(TF.pil_to_tensor(load_image(path)))
    torch.manual_seed(0)
    pairs = [(image, mask), *(transform(image, mask) for _ in range(N_COPIES))]
    grid = make_grid([overlay(*pair) for pair in pairs], len(pairs), pad_value=255)
    TF.to_pil_image(grid).save(DOCS / "masks.png", optimize=True)


if __name__ == "__main__":
    main()
