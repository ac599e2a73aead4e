"""Input that nobody should give, for tests of who has to take it."""
