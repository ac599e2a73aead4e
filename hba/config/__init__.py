"""Settings of the two stages, checked when they are made.

Names are the same in Python, in config.json and, with dashes, on the command line.
"""

from typing import TYPE_CHECKING

from hba.utils.imports import lazy_names

if TYPE_CHECKING:
    from hba.config.evaluation import EvaluationConfig
    from hba.config.training import CommonSearchConfig

__all__ = ["CommonSearchConfig", "EvaluationConfig"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__, {"EvaluationConfig": "hba.config.evaluation", "CommonSearchConfig": "hba.config.training"}
    )
