"""The version of this library, written down once."""

VERSION = "0.1.0"
