"""Settings of searches and evaluations, checked when they are made.

Names are the same in Python, in config.json and, with dashes, on the command line.
"""
