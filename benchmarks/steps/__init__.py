"""What a step of each search algorithm costs beside its own floor."""
