"""Images of a run as parts of the page: as they are, and augmented as in the course of the schedule."""

import base64
import io

from PIL import Image
from torch import Tensor
from torchvision.transforms.v2 import functional as TF
from torchvision.utils import make_grid

from hba.report.figures import Picture, Stage
from hba.report.samples import Samples
from hba.schedule.pictures import augmented_copies
from hba.schedule.schedule import Schedule
from hba.schedule.summary import key_epochs

N_COPIES = 3
SEED = 0
MOST_SIDE = 160
"""Pixels; larger images are shown smaller."""
LARGEST_EXACT_SIDE = 64
"""Up to it as PNG, which keeps every pixel; above as JPEG."""
QUALITY = 85
WHEN = ("at the beginning", "in the middle", "at the end")


def stages(schedule: Schedule, samples: Samples) -> tuple[Stage, ...]:
    """The images as they are, and as `hba apply` augments them by the first, the middle and the last epoch."""
    schedule = _of_shown(schedule, samples)
    as_they_are = Stage("As they are", samples.note, tuple(map(_original, samples.images, samples.class_names)), 1)
    epochs = key_epochs(schedule)
    when = WHEN if len(epochs) == len(WHEN) else (WHEN[0], WHEN[-1])[: len(epochs)]
    return (as_they_are, *(_stage(schedule, samples, *one) for one in zip(epochs, when, strict=True)))


def grid(schedule: Schedule, samples: Samples) -> Tensor:
    """The same as one picture, float (C, H, W) in [0, 1]: a row for each image."""
    schedule, epochs = _of_shown(schedule, samples), key_epochs(schedule)
    copies = [list(augmented_copies(schedule, samples.images, epoch=e, n_copies=N_COPIES, seed=SEED)) for e in epochs]
    cells = [
        cell
        for number, image in enumerate(samples.images)
        for cell in (image.float() / 255, *(copy.image for of_epoch in copies for copy in of_epoch[number]))
    ]
    picture: Tensor = make_grid(cells, nrow=1 + N_COPIES * len(epochs))
    return picture


def _of_shown(schedule: Schedule, samples: Samples) -> Schedule:
    """For the channels that are shown, which operations for any number of channels treat alone."""
    if samples.n_channels is None or len(schedule.fill) == 1:
        return schedule
    return Schedule(
        schedule.space,
        schedule.values,
        schedule.fill[: len(samples.images[0])],
        schedule.provenance,
        spread=schedule.spread,
    )


def _stage(schedule: Schedule, samples: Samples, epoch: int, when: str) -> Stage:
    copies = augmented_copies(schedule, samples.images, epoch=epoch, n_copies=N_COPIES, seed=SEED)
    pictures = [
        Picture(
            data_uri(copy.image),
            f"{name}, augmented as in epoch {epoch + 1}: {', '.join(copy.made_by.splitlines())}",
            is_exact(copy.image),
            tuple(copy.made_by.splitlines()),
        )
        for name, of_image in zip(samples.class_names, copies, strict=True)
        for copy in of_image
    ]
    return Stage(f"Epoch {epoch + 1}", when, tuple(pictures), N_COPIES)


def _original(image: Tensor, name: str) -> Picture:
    return Picture(data_uri(image.float() / 255), f"{name}, as it is", is_exact(image), (name,))


def is_exact(image: Tensor) -> bool:
    """Whether it is shown with every pixel as it is."""
    return max(image.shape[1:]) <= LARGEST_EXACT_SIDE


def data_uri(image: Tensor) -> str:
    """image: float (C, H, W) in [0, 1]."""
    picture = TF.to_pil_image((image * 255).round().byte())
    kind, options = ("png", {"optimize": True}) if is_exact(image) else ("jpeg", {"quality": QUALITY})
    if max(picture.size) > MOST_SIDE:
        picture.thumbnail((MOST_SIDE, MOST_SIDE), Image.Resampling.LANCZOS)
    written = io.BytesIO()
    picture.save(written, kind, **options)
    return f"data:image/{kind};base64,{base64.b64encode(written.getvalue()).decode()}"
