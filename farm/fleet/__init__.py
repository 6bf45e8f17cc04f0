"""Fleets, workers, the providers that sell machines, and the rules of scaling."""
