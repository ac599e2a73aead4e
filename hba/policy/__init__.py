"""The augmentation policy A(x; values): its search space, its random draws, and how
they change images.
"""
