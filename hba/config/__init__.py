"""Settings of the two stages, checked when they are made.

Names are the same in Python, in config.json and, with dashes, on the command line.
"""

from hba.config.evaluation import EvaluationConfig
from hba.config.search import CommonSearchConfig

__all__ = ["CommonSearchConfig", "EvaluationConfig"]
