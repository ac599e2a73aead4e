"""The augmentation policy A(x; values): its search space, what is drawn, and what that does to images."""

from typing import TYPE_CHECKING, Any

from hba.policy.space import SearchSpace

if TYPE_CHECKING:
    from hba.policy.draw import Draw, Walk, apply_operations, draw_operations, draw_walk
    from hba.policy.module import GRAY, Policy

__all__ = ["GRAY", "Draw", "Policy", "SearchSpace", "Walk", "apply_operations", "draw_operations", "draw_walk"]


def __getattr__(name: str) -> Any:
    """What needs PyTorch, imported when it is first asked for."""
    from hba.policy import draw, module

    if name in __all__:
        return getattr(module if name in ("GRAY", "Policy") else draw, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
