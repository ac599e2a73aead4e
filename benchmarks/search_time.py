"""How long a search takes, by number and size of images, with the settings that docs/searching.md recommends for a CPU.

    python benchmarks/search_time.py

Prints the table in Markdown. Training steps with their share of the policy steps are timed, a pass over the validation
images too, and counted up to the epochs of a whole search, as --budget does. What images show does not matter to that,
so they are noise. Run it on an otherwise idle machine.
"""

import time

import click
import torch

from hba.data import LabelledImages, SearchData
from hba.policy.spaces import as_markdown
from hba.policy_search.budget import Budget, measured
from hba.policy_search.config import SearchConfig
from hba.policy_search.context import SearchContext
from hba.utils.provenance import environment

EPOCHS = {200: 300, 1_000: 120, 5_000: 40}
"""By number of training images: those of the beds in docs/search-quality.md, and fewer where there are more images."""
SIZES = (16, 32, 64)
MODEL = "wrn-10-1"
N_CLASSES = 10
TIMED_SECONDS = 200.0
"""A budget of which a twentieth is spent on timing steps."""


def noise(n_images: int, size: int, seed: int) -> LabelledImages:
    pixels = torch.randint(
        0, 256, (n_images, 3, size, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed)
    )
    return LabelledImages(pixels, torch.arange(n_images) % N_CLASSES)


def search_time(n_images: int, size: int) -> tuple[float, int]:
    """Seconds of a whole search, and its policy steps."""
    names = tuple(map(str, range(N_CLASSES)))
    data = SearchData("noise", names, noise(n_images, size, 0), noise(n_images // 4, size, 1))
    config = SearchConfig.from_preset(
        {"data": "noise", "model": MODEL, "image_size": size, "epochs": EPOCHS[n_images], "device": "cpu"}
    ).resolved()
    setup = SearchContext.of(config, data, None, None, None)
    pace = config.algorithm.update_schedule.at(setup.task.train_stream().batches_per_pass)
    pieces = measured(setup, None, Budget.of(TIMED_SECONDS), time.monotonic)
    return pieces.of_epochs(config.epochs, pace, config.measured_every), pace.policy_steps(config.epochs)


def table() -> str:
    rows = []
    for n_images, epochs in EPOCHS.items():
        found = [search_time(n_images, size) for size in SIZES]
        times = [f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min" for seconds, _ in found]
        rows.append([f"{n_images:,}", f"`--epochs {epochs}`", f"{found[0][1]:,}", *times])
    return as_markdown(["training images", "settings", "policy steps", *(f"{size} pixels" for size in SIZES)], rows)


@click.command(help=__doc__)
def main() -> None:
    click.echo(table())
    made_on = environment(torch.device("cpu"))
    click.echo(f"{made_on['device_name']}, {torch.get_num_threads()} threads, PyTorch {torch.__version__}")


if __name__ == "__main__":
    main()
