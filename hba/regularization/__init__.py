"""Regularizers, which are tuned beside operations: at the network's input, inside of
it, and in the loss.
"""
