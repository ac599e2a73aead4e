"""Schedules for other libraries: files that do not need hba, and a check that compares
them.
"""

from hba.exports.check import Checked, check
from hba.exports.export import TARGETS, Target, export, find_target

__all__ = ["TARGETS", "Checked", "Target", "check", "export", "find_target"]
