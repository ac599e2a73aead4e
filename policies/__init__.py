"""Schedules that ship with the package, one JSON file each; hba.load_policy takes their
names.
"""
