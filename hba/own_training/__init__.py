"""Chooses the augmentation of a training of your own, of any kind, and tests it."""

from hba.own_training.ledger import Training
from hba.own_training.result import ContestResult
from hba.own_training.run import contest

__all__ = ["ContestResult", "Training", "contest"]
