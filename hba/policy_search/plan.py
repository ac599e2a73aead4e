"""What a search is about to do, for those who watch it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class SearchPlan:
    """All that is known before the first step.

    test_images: how many images of the same folder or data set are kept for the test, unopened; 0 where there is a test
    part apart, None where nothing is known of one (images in memory). left_out: files that are not used. model: by
    name, or the class of a network of your own. image_size: side in pixels of the network's input. threads: of PyTorch
    on a CPU. epochs_done: of a resumed search. policy_steps, probes: over all epochs. first_policy_step: the training
    step, counted from 1, that the next policy step follows; another follows train_steps later. round_cost: of the
    policy steps that follow one training step, in training steps; None where nobody knows. notes: sentences that a
    person should read before the search goes on. operations: names of those that are tuned. regularizers: what is
    tuned beside them, by name, in natural units, as it stands now. processes: how many share every batch.
    """

    data: str
    class_names: tuple[str, ...]
    train_images: int
    val_images: int
    test_images: int | None
    left_out: int
    model: str
    n_parameters: int
    device: str
    threads: int
    image_size: int
    epochs: int
    epochs_done: int
    steps_per_epoch: int
    batch_size: int
    policy_steps: int
    first_policy_step: int
    train_steps: int
    round_cost: float | None
    probes: int
    folder: Path | None
    notes: tuple[str, ...]
    operations: tuple[str, ...] = ()
    regularizers: Mapping[str, float] = field(default_factory=dict)
    processes: int = 1
