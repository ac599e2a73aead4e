"""What the processes of one search send each other in a step.

    python benchmarks/messages.py run [--model resnet-50] [--algorithms lookahead,hba] [--classes 1000]
    python benchmarks/messages.py page

Two processes make a search of a few steps on images of noise, and the first one counts the messages that it has a part
in and their bytes, apart for training steps and for the lambda steps behind some of them. What is sent does not depend
on the size of images or batches, nor on how many processes there are, but for the rewards of a batch. Results are kept
in benchmarks/results/messages.jsonl, and `page` writes the table of docs/scale.md.
"""

import pickle
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
import pandas as pd
import torch
import torch.distributed as dist
from common.pages import fill_page
from common.records import DOCS, Record, Run, made_by, store_of
from common.tables import markdown
from quality.options import KEPT_IN
from torch.multiprocessing.spawn import spawn

import hba
from hba.data import LabelledImages, SearchData
from hba.distributed.collectives import joined, process_group
from hba.models import build_model
from hba.policy_search.config import SearchConfig

QUESTION, MARK = "messages", "messages"
SIDE, BATCH_SIZE, N_PROCESSES = 32, 8, 2
COUNTED = ("all_reduce", "all_gather", "broadcast")
Sent = Counter[str]
"""messages and bytes, so far."""


@click.group(help=__doc__)
def main() -> None:
    """Commands."""


@main.command(help="Count them.")
@click.option("--model", default="resnet-50", show_default=True)
@click.option("--algorithms", default="lookahead,hba,joint", show_default=True)
@click.option("--classes", type=click.IntRange(2), default=1000, show_default=True)
@KEPT_IN
def run(model: str, algorithms: str, classes: int, results: Path) -> None:
    store = store_of(results, QUESTION)
    parameters = sum(one.numel() for one in build_model(model, classes, 0, SIDE, None, 3).parameters())
    for algorithm in algorithms.split(","):
        settings = {"model": model, "algorithm": algorithm, "classes": classes, "batch_size": BATCH_SIZE}
        with tempfile.TemporaryDirectory() as folder:
            spawn(_counted, (settings, folder), N_PROCESSES)
            found = {"parameters": parameters, **pickle.loads(Path(folder, "found").read_bytes())}
        click.echo(f"{algorithm}: {found}")
        store.add(Record(Run(algorithm, "noise", settings, 0), found, made_by(torch.device("cpu"))))


def _counted(number: int, settings: Mapping[str, Any], folder: str) -> None:
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    chosen = {name: value for name, value in settings.items() if name != "classes"}
    if settings["algorithm"] == "joint":
        chosen["tune"] = "augmentation,weight-decay"
    group = process_group("gloo", init_method=store, rank=number, world_size=N_PROCESSES)
    with group, joined(), counting() as sent:
        steps = Steps(sent, SearchConfig.make({**chosen, "data": "digits"}).algorithm.update_schedule.train_steps)
        hba.search(noise(settings["classes"]), epochs=1, device="cpu", callback=steps, seed=0, **chosen)
    if number == 0:
        Path(folder, "found").write_bytes(pickle.dumps(steps.found()))


def noise(n_classes: int) -> SearchData:
    """For training and validation a thousand images each, or one of each class."""
    labels = torch.arange(max(n_classes, 1000)) % n_classes
    pixels = np.random.default_rng(0).integers(0, 256, (len(labels), 3, SIDE, SIDE), dtype=np.uint8)
    images = LabelledImages(torch.from_numpy(pixels), labels)
    return SearchData("noise", tuple(map(str, range(n_classes))), train=images, val=images)


@contextmanager
def counting() -> Iterator[Sent]:
    """Of what PyTorch sends for this process."""
    sent: Sent = Counter()
    before = {name: getattr(dist, name) for name in COUNTED}

    def counted(send: Callable[..., Any]) -> Callable[..., Any]:
        def call(first: Any, *others: Any, **named: Any) -> Any:
            tensor = others[0] if isinstance(first, list) else first
            sent.update({"messages": 1, "bytes": tensor.numel() * tensor.element_size()})
            return send(first, *others, **named)

        return call

    for name, send in before.items():
        setattr(dist, name, counted(send))
    try:
        yield sent
    finally:
        for name, send in before.items():
            setattr(dist, name, send)


class Steps(hba.SearchCallback):
    """Notes what was sent in each step, and ends after twelve, among which are lambda steps of every algorithm."""

    N_STEPS = 12

    def __init__(self, sent: Sent, train_steps: int) -> None:
        self.sent, self.seen, self.train_steps = sent, Sent(), train_steps
        self.steps: dict[int, Mapping[str, int]] = {}

    def started(self, step: int, total_steps: int, batch_size: int, n_epochs: int) -> None:
        self.seen = Sent(self.sent)

    def step_done(self, step: int) -> None:
        self.steps[step] = {name: self.sent[name] - self.seen[name] for name in ("messages", "bytes")}
        self.seen = Sent(self.sent)

    def stop_requested(self) -> bool:
        return len(self.steps) >= self.N_STEPS

    def found(self) -> dict[str, int]:
        """Of a training step, and of what a lambda step adds."""
        plain = [sent for step, sent in self.steps.items() if step % self.train_steps]
        with_lambda = [sent for step, sent in self.steps.items() if not step % self.train_steps]
        found: dict[str, int] = {}
        for name in ("messages", "bytes"):
            training = int(median(step[name] for step in plain))
            found[f"training_{name}"] = training
            found[f"lambda_{name}"] = int(median(step[name] for step in with_lambda)) - training
        return found


@main.command(help="Write the table of docs/scale.md.")
@KEPT_IN
def page(results: Path) -> None:
    fill_page("scale", MARK, DOCS, table_of(list(store_of(results, QUESTION).by_key().values())))


def table_of(records: Sequence[Record]) -> str:
    """Markdown: of each algorithm what is sent."""
    lines = [
        {
            "algorithm": f"`{record.run.name}`",
            "network": f"{record.run.settings['model']}, {record.results['parameters'] / 1e6:.1f} M parameters",
            "training step: messages": str(record.results["training_messages"]),
            "MB": f"{record.results['training_bytes'] / 1e6:.1f}",
            "lambda step: messages": str(record.results["lambda_messages"]),
            "MB ": f"{record.results['lambda_bytes'] / 1e6:.1f}",
        }
        for record in records
    ]
    return markdown(pd.DataFrame(lines)) if lines else "Nothing was run."


if __name__ == "__main__":
    main()
