"""Where many independent tasks run: one after the other here, in processes of this
machine, or on a Ray cluster.
"""
