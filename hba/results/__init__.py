"""Results of searches and evaluations: records, statistics, and the answers they give."""
