"""Policy searches: the training loop, the history, checkpoints, a time budget, and
several seeds.
"""
