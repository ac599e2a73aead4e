"""The command line: parsing and printing only, the work is done by the library."""

from .main import main

__all__ = ["main"]
