"""Policy search: Hypernetwork-Based Augmentation, and the algorithms that the paper derives it from."""

from hba.search.observer import SearchObserver
from hba.search.plan import SearchPlan
from hba.search.run import SearchResult, search

__all__ = ["SearchObserver", "SearchPlan", "SearchResult", "search"]
