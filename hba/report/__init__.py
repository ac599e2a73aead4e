"""The page of a run, and the sentences about a schedule that commands print too."""
