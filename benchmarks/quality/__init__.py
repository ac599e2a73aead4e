"""Compare settings of a search: planted answers, validation errors, and trainings with
the schedules found.
"""
