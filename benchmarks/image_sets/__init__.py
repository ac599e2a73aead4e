"""Image sets that need different augmentation: which one helps on each set, and whether
a search finds it.
"""
