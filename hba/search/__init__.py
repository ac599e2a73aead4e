"""Policy search: Hypernetwork-Based Augmentation (Algorithm 2 of the paper)."""

from hba.search.observer import SearchObserver
from hba.search.run import SearchResult, search

__all__ = ["SearchObserver", "SearchResult", "search"]
