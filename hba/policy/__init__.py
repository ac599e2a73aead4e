"""The augmentation policy A(x; values): its search space, what is drawn, and what that does to images."""

from typing import TYPE_CHECKING

from hba.utils.imports import lazy_names

if TYPE_CHECKING:
    from hba.policy.draw import Draw, Walk, apply_operations, draw_operations, draw_walk
    from hba.policy.module import GRAY, Policy
    from hba.policy.space import SearchSpace

__all__ = ["GRAY", "Draw", "Policy", "SearchSpace", "Walk", "apply_operations", "draw_operations", "draw_walk"]

if not TYPE_CHECKING:
    _DRAW = dict.fromkeys(("Draw", "Walk", "apply_operations", "draw_operations", "draw_walk"), "hba.policy.draw")
    _MODULE = dict.fromkeys(("GRAY", "Policy"), "hba.policy.module")
    __getattr__, __dir__ = lazy_names(__name__, {**_DRAW, **_MODULE, "SearchSpace": "hba.policy.space"})
