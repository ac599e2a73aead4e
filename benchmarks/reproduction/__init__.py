"""Reproduce tables 2 to 8 of the paper, its derivation, and tables of STN and
Delta-STN, at any scale.
"""
