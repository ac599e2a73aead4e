"""Measure the speed of augmentation, training steps and searches."""
