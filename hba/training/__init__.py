"""Ordinary training, which search and evaluation share."""
