"""Results of searches and evaluations: records, statistics, and their answers."""
