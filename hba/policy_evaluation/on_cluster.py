"""The trainings of an evaluation on the machines of a cluster: each gets the images once, and the test split late."""

import asyncio
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from hba.data.images import Images, LabelledImages
from hba.data.lazy_split import LazySplit
from hba.data.load import EvaluationData
from hba.distributed.cluster import Cluster, Needs
from hba.distributed.process_info import is_first
from hba.distributed.together import together
from hba.errors import ClusterWarning, RunError
from hba.policy_evaluation.sending import packed_training, unpacked_training
from hba.policy_evaluation.trainings import Ended, Finished, SavesOf, Training, trained_and_measured
from hba.training.amp import slow_note
from hba.training.checkpoint import TrainCheckpoint
from hba.utils.devices import find_device
from hba.utils.provenance import environment
from hba.utils.text import first_of

SECONDS_BETWEEN_REPORTS = 0.5
"""Of a training, on how many steps it has done."""

Arrays = tuple[np.ndarray, np.ndarray]
"""Images and labels, as machines share them: without a copy for each process."""


def over_machines(
    cluster: Cluster,
    needs: Needs,
    n_processes: int,
    trainings: Sequence[Training],
    data: EvaluationData,
    on_step: Callable[[], None],
    saves_of: SavesOf,
) -> Finished:
    """As side_by_side, on all machines of a cluster. What a lost machine was training is trained again on another.

    n_processes: of each training, which share its batches, each with what it needs. The test split is opened here, and
    sent, when the first training has done its last step. A training goes on from its save where its new machine sees
    the evaluation's folder too. Warns where machines compute on different kinds.
    """
    if not trainings:
        return
    ray = cluster.ray
    remedy = "omit cluster"
    tasks = [packed_training(training, saves_of(training), remedy) for training in trainings]
    shared = ray.put(_Shared(data.name, data.class_names, _arrays(data.train), data.test.image_size))
    board = ray.remote(num_cpus=0, scheduling_strategy=_on_this_machine(ray))(_Board).remote()
    desk = _Desk(ray, board, data.test, on_step)
    parts = [(task, number, shared, board, needs) for number, task in enumerate(tasks)]
    results = (
        cluster.results(_train_there, parts, needs, desk.look)
        if n_processes == 1
        else together(cluster, _train_shared, parts, needs, n_processes, desk.look)
    )
    device_names: set[str] = set()
    for number, (ended, device_name) in results:
        if device_names and device_name not in device_names:
            warnings.warn(
                f"trainings ran on different kinds of devices ({first_of([*device_names, device_name])}), which round "
                "otherwise: rows may differ a little by where they were trained",
                ClusterWarning,
                stacklevel=2,
            )
        device_names.add(device_name)
        yield trainings[number], ended


class Abilities(NamedTuple):
    """environment: what a machine computes with. slow_note: see hba.training.amp."""

    environment: Mapping[str, Any]
    slow_note: str | None


def abilities_on(cluster: Cluster, needs: Needs) -> Abilities:
    """Of one of the machines, the first that answers."""
    ((_, found),) = cluster.results(_abilities, [(needs,)], needs)
    return Abilities(*found)


def _abilities(needs: Needs) -> Abilities:
    torch.set_num_threads(needs.n_cpus)
    device = _device(needs)
    return Abilities(environment(device), slow_note(device))


def _device(needs: Needs) -> torch.device:
    """Of a task: Ray lets it see no other GPU than its own."""
    return find_device("cuda" if needs.n_gpus else "cpu")


@dataclass(frozen=True)
class _Shared:
    """What all trainings have in common."""

    name: str
    class_names: tuple[str, ...]
    train: Arrays
    test_image_size: int


class _Board:
    """An actor, between the trainings and the process that gives them out."""

    def __init__(self) -> None:
        self.steps: dict[int, int] = {}
        self.wanted = False
        self.tests: asyncio.Future[list[Any]] | None = None

    def _future(self) -> "asyncio.Future[list[Any]]":
        if self.tests is None:
            self.tests = asyncio.get_running_loop().create_future()
        return self.tests

    async def report(self, number: int, n_steps: int) -> None:
        """A training that is begun again reports fewer than before."""
        self.steps[number] = n_steps

    async def seen(self) -> tuple[int, bool]:
        """How many steps are done, and whether anyone waits for the test images."""
        return sum(self.steps.values()), self.wanted and not self._future().done()

    async def bring(self, tests: list[Any]) -> None:
        self._future().set_result(tests)

    async def test(self) -> list[Any]:
        """A reference to the images, in a list so that they do not come here themselves."""
        self.wanted = True
        return await self._future()


@dataclass
class _Desk:
    """Tells of steps, and opens the test images for those who ask."""

    ray: Any
    board: Any
    test: Images | LazySplit
    on_step: Callable[[], None]
    n_told: int = 0

    def look(self) -> None:
        n_steps, wanted = self.ray.get(self.board.seen.remote())
        for _ in range(n_steps - self.n_told):
            self.n_told += 1
            self.on_step()
        if wanted:
            self.ray.get(self.board.bring.remote([self.ray.put(_arrays(self.test))]))


def _train_there(content: bytes, number: int, shared: _Shared, board: Any, needs: Needs) -> tuple[Ended, str]:
    """On a machine of the cluster: what a packed Training comes to, and the name of the device that did it."""
    import ray

    torch.set_num_threads(needs.n_cpus)
    device = _device(needs)
    training, saves = unpacked_training(content)
    if saves.path is not None and not saves.path.parent.parent.is_dir():
        # This machine does not see the evaluation's folder.
        saves = TrainCheckpoint(None, saves.identity)
    # All processes of a training do the same steps.
    reports = _Reports(lambda n_steps: board.report.remote(number, n_steps) if is_first() else None)

    def ask() -> LabelledImages:
        reports.send_and_wait()
        (reference,) = ray.get(board.test.remote())
        return _images(ray.get(reference))

    test = LazySplit(ask, None, shared.test_image_size, device)
    data = EvaluationData(shared.name, shared.class_names, _images(shared.train).to(device), test)
    ended = trained_and_measured(training, data, reports.step_done, saves)
    reports.send_and_wait()
    return ended, str(environment(device)["device_name"])


def _train_shared(content: bytes, number: int, shared: Any, board: Any, needs: Needs) -> tuple[Ended, str]:
    """shared: a reference, because these parts were not the task's own arguments."""
    import ray

    return _train_there(content, number, ray.get(shared), board, needs)


@dataclass
class _Reports:
    """Of the steps of a training, now and then."""

    report: Callable[[int], Any]
    n_steps: int = 0
    last: float = 0.0

    def step_done(self) -> None:
        self.n_steps += 1
        if time.monotonic() - self.last > SECONDS_BETWEEN_REPORTS:
            self.send()

    def send(self) -> Any:
        self.last = time.monotonic()
        return self.report(self.n_steps)

    def send_and_wait(self) -> None:
        """So that the last steps are told of before what comes behind them."""
        import ray

        if (told := self.send()) is not None:
            ray.get(told)


def _arrays(split: Images | LazySplit) -> Arrays:
    images = split.opened() if isinstance(split, LazySplit) else split
    if not isinstance(images, LabelledImages):
        raise RunError("images that are streamed from their files are measured one by one: omit cluster")
    return images.images.cpu().numpy(), images.labels.cpu().numpy()


def _images(arrays: Arrays) -> LabelledImages:
    images, labels = arrays
    return LabelledImages(_tensor(images), _tensor(labels))


def _tensor(array: np.ndarray) -> Tensor:
    """Of an array that nobody may write to, nor does."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(array)


def _on_this_machine(ray: Any) -> Any:
    """So that what is asked of the board is lost only where the evaluation is lost too."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
