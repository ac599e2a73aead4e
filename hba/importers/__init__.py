"""Policies that other programs found or published, as schedules of hba: the closest expression, and what is lost."""

from hba.importers.sources import SOURCES, Source, import_policy

__all__ = ["SOURCES", "Source", "import_policy"]
