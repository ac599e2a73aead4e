"""Measurements on a GPU, in stages that end within a set time."""
