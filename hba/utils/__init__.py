"""Utilities for machines, files and terminals. Nothing here knows about policies."""
