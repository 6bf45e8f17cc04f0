"""The Farmhand agent: what runs on a GPU machine. Knows nothing of the farm but `protocol`."""

__version__ = "0.1.0"
