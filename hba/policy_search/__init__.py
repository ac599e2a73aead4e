"""Policy search around an algorithm: the loop, history, checkpoints, a budget of time, and several seeds."""
