"""Input that nobody should give."""
