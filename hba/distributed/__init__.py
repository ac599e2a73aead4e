"""One computation by several processes, which torchrun starts.

All processes have the same seeds, generators, batch order, weights and lambda; each
computes on its own images of every batch. Each process draws the random numbers of the
whole batch and keeps those of its images. So the draws of an image do not depend on the
number of processes, and neither do checkpoints. With one process, the functions do
nothing.
"""

from typing import TYPE_CHECKING

from hba.utils.imports import lazy_names

if TYPE_CHECKING:
    from hba.distributed.collectives import joined

__all__ = ["joined"]

if not TYPE_CHECKING:
    # It imports PyTorch, which takes seconds.
    __getattr__, __dir__ = lazy_names(
        __name__, {"joined": "hba.distributed.collectives"}
    )
