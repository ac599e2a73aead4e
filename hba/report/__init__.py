"""Reports: the sentences that commands print, and the HTML page of a run."""
