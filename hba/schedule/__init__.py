"""The schedule: one policy for each epoch, its file, its pictures, and its transform."""

from hba.schedule.schedule import Schedule
from hba.schedule.transform import PolicyTransform

__all__ = ["PolicyTransform", "Schedule"]
