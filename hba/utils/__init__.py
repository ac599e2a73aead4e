"""What knows machines, files and terminals, and nothing of policies."""
