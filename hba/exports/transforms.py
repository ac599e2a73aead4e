"""What a user of an exported file calls, by the library that the file is for.

Like torchvision_code.py, it is written out. OPERATIONS and TABLES are the file's own.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torchvision.transforms import v2

from hba.exports.torchvision_code import ScheduleTransform

if TYPE_CHECKING:
    from hba.exports.kornia_code import SchedulePolicy
    from hba.exports.torchvision_code import Tables

    OPERATIONS: Mapping[str, Any]
    TABLES: Tables
    FILL: Mapping[Any, tuple[Any, ...]]


def transform() -> ScheduleTransform:
    """The schedule as a transform; before set_epoch and set_progress, its last epoch."""
    return ScheduleTransform(OPERATIONS, TABLES, FILL)  # noqa: F821


def timm_transform(policy: ScheduleTransform, **settings: Any) -> v2.Compose:
    """timm's training transform with the policy after cropping and flipping, and before the normalisation.

    settings: of timm.data.create_transform. Give what this returns to a loader: loader.dataset.transform = ...
    Raises ValueError for a second policy.
    """
    from timm.data.transforms_factory import create_transform

    if settings.get("auto_augment"):
        raise ValueError("auto_augment is a second policy; leave it out")
    # Without a policy of its own, timm jitters colours by default.
    settings = {"color_jitter": None, **settings, "is_training": True, "separate": True}
    crop_and_flip, jitter, to_tensor = create_transform(**settings)
    return v2.Compose([crop_and_flip, policy, jitter, to_tensor])


def policy(same_on_batch: bool = False, keepdim: bool = False) -> "SchedulePolicy":
    """The schedule as an augmentation of kornia; before set_epoch and set_progress, its last epoch."""
    return SchedulePolicy(OPERATIONS, TABLES, FILL, same_on_batch, keepdim)  # noqa: F821
