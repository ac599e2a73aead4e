"""What share of a policy search is spent on augmenting images by the policy.

    python benchmarks/policy_share.py [--data digits] [--epochs 60]

Runs `hba.search` with the dataset's preset and times, inside it, drawing and applying the policy; the search's other
work is the rest. On a CPU; wall-clock seconds.
"""

import importlib
import time
from collections.abc import Callable
from typing import Any

import click
import torch

import hba

POLICY_CALLS = ("draw_with_trace", "apply_operations")


@click.command(help=__doc__)
@click.option("--data", default="digits", show_default=True, help="Dataset or folder, as for hba search.")
@click.option("--epochs", default=60, show_default=True)
def main(data: str, epochs: int) -> None:
    seconds: list[float] = []

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            result = function(*args, **kwargs)
            seconds.append(time.perf_counter() - start)
            return result

        return call

    # `hba.search` is the function; its modules are found by their paths.
    task = importlib.import_module("hba.algorithms.task")
    for name in POLICY_CALLS:
        setattr(task, name, timed(getattr(task, name)))
    total = float(hba.search(data, epochs=epochs, device="cpu").metrics[-1]["seconds"] or 0.0)
    share = f"policy {sum(seconds):.2f} s of {total:.2f} s, {100 * sum(seconds) / total:.1f} %"
    click.echo(f"{data}, {epochs} epochs, {torch.get_num_threads()} threads: {share}")


if __name__ == "__main__":
    main()
