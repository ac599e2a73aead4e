"""Settings of searches and evaluations, named alike in Python, in config.json and, with
dashes, in commands.
"""
