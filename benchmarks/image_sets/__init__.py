"""Image sets that need different augmentation: what helps on each, and whether a search finds it."""
