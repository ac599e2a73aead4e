"""Policies that other programs found or published, as schedules of hba: the closest expression, and what is lost."""

from hba.importers.sources import SOURCES, PolicySource, import_policy

__all__ = ["SOURCES", "PolicySource", "import_policy"]
