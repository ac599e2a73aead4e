"""Follow a search in Weights & Biases or MLflow: a logger is a callback of a few lines.

python examples/loggers.py wandb --epochs 60
python examples/loggers.py mlflow --epochs 60
"""

import argparse
import importlib
from collections.abc import Mapping
from typing import Any

import hba


class WandbLogger(hba.SearchCallback):
    def __init__(self, run: Any) -> None:
        self.run = run

    def policy_noted(self, epoch: int, values: Mapping[str, float]) -> None:
        self.run.log(dict(values), step=epoch)

    def epoch_done(self, metrics: Mapping[str, float | None]) -> None:
        self.run.log(
            {name: value for name, value in metrics.items() if value is not None},
            step=int(metrics["epoch"] or 0),
        )


class MlflowLogger(hba.SearchCallback):
    def __init__(self, mlflow: Any) -> None:
        self.mlflow = mlflow

    def policy_noted(self, epoch: int, values: Mapping[str, float]) -> None:
        self.mlflow.log_metrics(dict(values), step=epoch)

    def epoch_done(self, metrics: Mapping[str, float | None]) -> None:
        measured = {name: value for name, value in metrics.items() if value is not None}
        self.mlflow.log_metrics(measured, step=int(metrics["epoch"] or 0))


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("to", choices=["wandb", "mlflow"])
    arguments.add_argument("--epochs", type=int, default=60)
    given = arguments.parse_args()
    module = importlib.import_module(given.to)
    logger = (
        WandbLogger(module.init(project="hba"))
        if given.to == "wandb"
        else MlflowLogger(module)
    )
    print(
        hba.search(
            "digits",
            algorithm="lookahead",
            epochs=given.epochs,
            callback=logger,
            progress=True,
        )
    )


if __name__ == "__main__":
    main()
