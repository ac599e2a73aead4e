"""Policy search: Hypernetwork-Based Augmentation, and the algorithms that the paper derives it from."""
