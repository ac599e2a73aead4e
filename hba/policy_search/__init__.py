"""Policy search: Hypernetwork-Based Augmentation, and the algorithms that the paper derives it from."""

from hba.policy_search.callbacks import SearchCallback
from hba.policy_search.plan import SearchPlan
from hba.policy_search.result import SearchResult
from hba.policy_search.run import search

__all__ = ["SearchCallback", "SearchPlan", "SearchResult", "search"]
