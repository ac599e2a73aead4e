"""What a search is about to do, and what it returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor, nn

from hba.hypernet import HyperNetwork
from hba.schedule.schedule import Schedule


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is known of every search before its first step.

    model: its name, or the class of your own network. epochs_done: of a resumed search. batch_size: images, or words,
    of a training step. policy_steps: over all epochs. notes: sentences to read before the search begins. regularizers:
    what is tuned besides operations, by name, with the current values in natural units.
    """

    model: str
    n_parameters: int
    device: str
    epochs: int
    epochs_done: int
    steps_per_epoch: int
    batch_size: int
    policy_steps: int
    folder: Path | None
    notes: tuple[str, ...]
    regularizers: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class SearchPlan(Plan):
    """test_images: how many images of the same folder or data set are kept for the test, unopened; 0 if the test images
    are apart, None if nothing is known of any (images in memory). left_out: files that are not used. threads: of
    PyTorch on a CPU. processes: how many share every batch. image_size: side in pixels of the network's input.
    """

    data: str
    class_names: tuple[str, ...]
    train_images: int
    val_images: int
    test_images: int | None
    left_out: int
    threads: int
    processes: int
    image_size: int
    operations: tuple[str, ...]


@dataclass(frozen=True)
class SearchResult:
    """schedule: one row for each finished epoch, None before the first. metrics: one mapping for each finished epoch.
    finished: False if a callback stopped the search. lam (n,): the final hyperparameters, as logits. network: the
    trained network that belongs to lam. hypernetwork: hypernetwork.to_module(lam) returns the network of any other lam;
    None for algorithms without one, such as `lookahead` and `population`. notes: the sentences of SearchPlan.notes, and
    one if the network did not overfit. report: the HTML page in the folder; None without a folder, before the end of
    the first epoch, and if it could not be written.
    """

    schedule: Schedule | None = field(repr=False)
    metrics: tuple[Mapping[str, float | None], ...] = field(repr=False)
    finished: bool
    network: nn.Module = field(repr=False)
    hypernetwork: HyperNetwork | None = field(repr=False)
    lam: Tensor = field(repr=False)
    folder: Path | None
    notes: tuple[str, ...] = field(default=(), repr=False)
    report: Path | None = None
