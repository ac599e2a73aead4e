"""Loaded images as tensors."""

from hba.data import LabelledImages
from hba.data.held_back import HeldBack
from hba.data.images import Images


def in_memory(data: Images | HeldBack) -> LabelledImages:
    images = data.opened() if isinstance(data, HeldBack) else data
    assert isinstance(images, LabelledImages)
    return images
