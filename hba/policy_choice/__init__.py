"""One call that finds and tests an augmentation: search, contest, test, and a trained
network.
"""

from hba.policy_choice.auto import AutoResult, auto
from hba.policy_choice.callbacks import AutoCallback

__all__ = ["AutoCallback", "AutoResult", "auto"]
