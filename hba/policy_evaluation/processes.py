"""The trainings of an evaluation side by side, in processes of their own."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool

import torch

from hba.data.images import CPU, Images, LabelledImages
from hba.data.lazy_split import LazySplit
from hba.data.load import EvaluationData
from hba.errors import RunError, SettingsError
from hba.policy_evaluation.sending import packed_training
from hba.policy_evaluation.trainings import Ended, Finished, SavesOf, Training
from hba.policy_evaluation.worker import Work, begin, train_here
from hba.utils.pool import ProcessPool

SECONDS_BETWEEN_LOOKS = 0.2
"""At what the processes have done and want, while none of them ends a training."""


def number_of_jobs(asked: int | None, n_trainings: int, data: EvaluationData, device: torch.device) -> int:
    """How many trainings run at a time: no more than there are.

    asked: None is as many as PyTorch has threads on a CPU, 1 on a GPU and for images that are streamed. Raises
    SettingsError for what cannot be.
    """
    streamed = data.is_streamed
    if asked is not None and asked < 1:
        raise SettingsError(f"jobs must be at least 1, got {asked}")
    if asked is not None and asked > 1 and streamed:
        raise SettingsError(f"images that are streamed from their files are trained on one by one: jobs 1, got {asked}")
    if asked is None:
        asked = torch.get_num_threads() if device.type == "cpu" and not streamed else 1
    return max(1, min(asked, n_trainings))


def side_by_side(
    trainings: Sequence[Training],
    data: EvaluationData,
    device: torch.device,
    n_jobs: int,
    n_threads: int,
    on_step: Callable[[], None],
    saves_of: SavesOf,
) -> Finished:
    """n_jobs processes, or none, with n_threads threads each; all have ended when this generator has, or is closed.

    The images are in memory once, shared by all processes; the test split is opened when the first training has done
    its last step. Raises what a training raised, and RunError for a process that died.
    """
    if not trainings:
        return
    tasks = [packed_training(training, saves_of(training), "use jobs=1") for training in trainings]
    work = _work(data, device)
    with ProcessPool(n_jobs, n_threads, begin, work) as pool:
        futures = dict(zip(pool.submit(train_here, tasks), trainings, strict=True))
        try:
            yield from _finished(futures, work, data.test, on_step)
        except BrokenProcessPool:
            raise _death(pool.exit_code(), has_begun=_steps(work) > 0) from None


def _finished(
    futures: Mapping[Future[Ended], Training], work: Work, test: Images | LazySplit, on_step: Callable[[], None]
) -> Finished:
    """Trainings as they end; meanwhile tells of steps, and opens the test images for those who ask."""
    n_told, waiting = 0, set(futures)
    while waiting:
        done, waiting = wait(waiting, SECONDS_BETWEEN_LOOKS, FIRST_COMPLETED)
        # Asked before the steps are counted: who wants test images has told of its last step.
        n_wanted = 0
        while work.test_wanted.acquire(block=False):
            n_wanted += 1
        for _ in range(_steps(work) - n_told):
            n_told += 1
            on_step()
        for _ in range(n_wanted):
            work.tests.put(_shared(test))
        for future in done:
            if future.exception() is None:
                yield futures[future], future.result()
        # Only now, so that what ended at the same time is kept.
        for future in done:
            future.result()


def _steps(work: Work) -> int:
    """Without the lock, which a process that was killed may hold for ever."""
    return int(work.n_steps.get_obj().value)


def _death(code: int, *, has_begun: bool) -> RunError:
    """What to tell of a process that has died. has_begun: whether any has done a step."""
    start = f"a process that trains has died (exit code {code})"
    # A code below zero is a signal's, such as that of a system without memory; no script raises it.
    if has_begun or code < 0:
        return RunError(f"{start}; what has ended is kept, and fewer jobs need less memory")
    return RunError(
        f'{start} before its first step; a script must call hba.evaluate under `if __name__ == "__main__":`, or use '
        "jobs=1"
    )


def _work(data: EvaluationData, device: torch.device) -> Work:
    context = ProcessPool.context
    return Work(
        name=data.name,
        class_names=data.class_names,
        train=_shared(data.train),
        test_image_size=data.test.image_size,
        device=device,
        n_steps=context.Value("q", 0),
        test_wanted=context.Semaphore(0),
        tests=context.SimpleQueue(),
    )


def _shared(split: Images | LazySplit) -> LabelledImages:
    """The images in memory that other processes can see; RunError where there is not enough of it."""
    images = split.opened() if isinstance(split, LazySplit) else split
    if not isinstance(images, LabelledImages):
        raise RunError("images that are streamed from their files are measured one by one: use jobs 1")
    images = images.to(CPU)
    try:
        images.images.share_memory_()
        images.labels.share_memory_()
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise RunError(f"the images do not fit into shared memory ({reason}); use jobs 1") from None
    return images
