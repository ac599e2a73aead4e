"""The search algorithms, each in one file that reads like its pseudo-code in the paper."""
