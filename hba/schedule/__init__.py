"""Schedules: one policy for each epoch, with files, pictures, and transforms."""
