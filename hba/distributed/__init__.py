"""One computation by several processes, which torchrun starts: who they are, what each has of a batch, what they share.

All have the same seeds, generators, orders, weights and lambda. Only pixels differ: each has its own images of every
batch. Random numbers are drawn for the whole batch by each, which then takes the rows of its images. So what is drawn
for an image does not depend on how many processes there are, and a checkpoint holds nothing of one of them. In one
process, nothing here does anything.
"""

from typing import TYPE_CHECKING

from hba.utils.imports import lazy_names

if TYPE_CHECKING:
    from hba.distributed.collectives import joined

__all__ = ["joined"]

if not TYPE_CHECKING:
    # It imports PyTorch, which takes seconds.
    __getattr__, __dir__ = lazy_names(__name__, {"joined": "hba.distributed.collectives"})
