"""The version, which caches, models on disk and the command line name."""

__version__ = "0.1.0"
