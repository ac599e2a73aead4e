"""The augmentation policy A(x; values): its search space, what is drawn, and what that does to images."""

from hba.policy.draw import Draw, Walk, apply_operations, draw_operations, draw_walk
from hba.policy.module import GRAY, Policy
from hba.policy.space import SearchSpace

__all__ = ["GRAY", "Draw", "Policy", "SearchSpace", "Walk", "apply_operations", "draw_operations", "draw_walk"]
