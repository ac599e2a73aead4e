"""The schedule: one policy for each epoch, its file, its pictures, and its transform."""

from typing import TYPE_CHECKING

from hba.utils.imports import lazy_names

if TYPE_CHECKING:
    from hba.schedule.schedule import Schedule
    from hba.schedule.transform import PolicyTransform

__all__ = ["PolicyTransform", "Schedule"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__, {"PolicyTransform": "hba.schedule.transform", "Schedule": "hba.schedule.schedule"}
    )
