"""Farmhand's Python SDK and command line: everything here goes through the farm's public API."""

__version__ = "0.1.0"
