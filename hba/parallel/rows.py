"""Rows of a batch: those of this process, and what all processes make of theirs.

A batch of B images has them in the order of their ranks: the r-th of N processes has the r-th N-th. A batch in which
each image stands several times has first one copy of every image, then the next of every image.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

from hba.errors import SettingsError
from hba.parallel.processes import explained
from hba.parallel.world import rank, size

_copies = 1


@contextlib.contextmanager
def copies(n: int) -> Iterator[None]:
    """Here every image of the batch stands n times in what is drawn for."""
    global _copies
    before, _copies = _copies, n
    try:
        yield
    finally:
        _copies = before


def own_rows(n: int, draw: Callable[[int], Tensor], dim: int = 0) -> Tensor:
    """What `draw` draws for the n images of this process: it is given the number of images of the whole batch.

    dim: along which the images are. Every process draws for all images.
    """
    return draw(n) if size() == 1 else own(draw(n * size()), dim)


def own(rows: Tensor, dim: int = 0) -> Tensor:
    """Of rows of the whole batch along dim, those of the images of this process."""
    if size() == 1:
        return rows
    by_process = rows.unflatten(dim, (_copies, size(), -1))
    return by_process.select(dim + 1, rank()).flatten(dim, dim + 1)


def gathered(rows: Tensor) -> Tensor:
    """Rows (B / N, ...) of all processes as those of the whole batch (B, ...), without a graph."""
    if size() == 1:
        return rows
    rows = rows.detach().contiguous()
    parts = [torch.empty_like(rows) for _ in range(size())]
    with explained():
        dist.all_gather(parts, rows)
    return torch.stack([part.unflatten(0, (_copies, -1)) for part in parts], dim=1).flatten(0, 2)


def mean(tensor: Tensor) -> Tensor:
    """The mean over the processes, without a graph: of means over own rows, that over the batch."""
    return tensor if size() == 1 else total(tensor) / size()


def total(tensor: Tensor) -> Tensor:
    """The sum over the processes, without a graph."""
    if size() == 1:
        return tensor
    summed = tensor.detach().clone()
    with explained():
        dist.all_reduce(summed)
    return summed


def means(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The mean over the processes of each, in one message."""
    if size() == 1:
        return list(tensors)
    flat = mean(torch.cat([tensor.detach().flatten() for tensor in tensors]))
    parts = flat.split([tensor.numel() for tensor in tensors])
    return [part.view_as(tensor) for part, tensor in zip(parts, tensors, strict=True)]


def average_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Let each process have the gradient of the whole batch, where it has that of its own images."""
    if size() == 1:
        return
    gradients = [one.grad for one in parameters if one.grad is not None]
    for gradient, found in zip(gradients, means(gradients), strict=True):
        gradient.copy_(found)


def check_divides(setting: str, batch_size: int) -> None:
    """SettingsError for a batch that the processes cannot share evenly. setting: what its size is called."""
    if batch_size % size():
        raise SettingsError(
            f"a batch must be a multiple of the {size()} processes, got {batch_size}; start another "
            f"number of processes, or in a new run set {setting} to such a number"
        )
