"""The augmentation policy A(x; values): its search space, what is drawn, and what that does to images."""
