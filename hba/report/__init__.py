"""What was found, told: sentences that commands print, and the report of a run."""
