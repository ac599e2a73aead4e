"""Which files images are read from."""

from pathlib import Path
from typing import Any

import pytest
from PIL import Image


def record_images(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A list that fills with the files that Pillow is given from now on; of an open
    one, its name in the system.
    """
    opened: list[Path] = []
    open_image = Image.open

    def record(file: Any, *arguments: Any, **options: Any) -> Any:
        is_open = hasattr(file, "fileno")
        opened.append(
            Path(f"/proc/self/fd/{file.fileno()}").resolve() if is_open else Path(file)
        )
        return open_image(file, *arguments, **options)

    monkeypatch.setattr(Image, "open", record)
    return opened
