"""Schedules for other libraries: files that need nothing of hba, and what they were checked against."""

from hba.exports.check import check
from hba.exports.compared import Checked
from hba.exports.export import export
from hba.exports.targets import TARGETS, Target, find_target

__all__ = ["TARGETS", "Checked", "Target", "check", "export", "find_target"]
