"""Policies that other programs found or published, as the closest schedules of hba,
with the differences.
"""

from hba.importers.sources import SOURCES, PolicySource, import_policy

__all__ = ["SOURCES", "PolicySource", "import_policy"]
