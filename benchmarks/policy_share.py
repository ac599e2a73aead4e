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


class Stopwatch:
    """Seconds spent in the functions that it wraps."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - start

        return timed


@click.command()
@click.option("--data", default="digits", show_default=True, help="Dataset or folder, as for hba search.")
@click.option("--epochs", default=60, show_default=True)
def main(data: str, epochs: int) -> None:
    # `hba.search` is the function; its modules are found by their paths.
    problem = importlib.import_module("hba.algorithms.problem")
    stopwatch = Stopwatch()
    for name in ("draw_walk", "apply_operations"):
        setattr(problem, name, stopwatch.around(getattr(problem, name)))
    result = hba.search(data, epochs=epochs, device="cpu")
    total = float(result.metrics[-1]["seconds"] or 0.0)
    share = f"policy {stopwatch.seconds:.2f} s of {total:.2f} s, {100 * stopwatch.seconds / total:.1f} %"
    print(f"{data}, {epochs} epochs, {torch.get_num_threads()} threads: {share}")


if __name__ == "__main__":
    main()
