"""Schedules for other libraries, as files that do not need hba."""

from hba.exports.export import TARGETS, Target, export, find_target

__all__ = ["TARGETS", "Target", "export", "find_target"]
