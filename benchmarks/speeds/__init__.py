"""How fast augmentation, training steps and searches are."""
