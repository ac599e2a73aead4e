"""Loaded images as tensors."""

from hba.data import LabelledImages
from hba.data.images import Images, LazySplit


def in_memory(data: Images | LazySplit) -> LabelledImages:
    images = data.opened()
    assert isinstance(images, LabelledImages)
    return images
