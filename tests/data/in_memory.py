"""Settings of data whose images become 8x8, and loaded images as tensors."""

from pathlib import Path
from typing import Any

from hba.data import LabelledImages
from hba.data.config import DataConfig
from hba.data.images import Images, LazySplit


def config_of(data: Path, **settings: Any) -> DataConfig:
    return DataConfig.make({"data": str(data), "image_size": 8, **settings})


def in_memory(data: Images | LazySplit) -> LabelledImages:
    images = data.opened()
    assert isinstance(images, LabelledImages)
    return images
