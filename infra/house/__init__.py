"""The house's own tools: system check, environments, locks, tracked files. Standard library and sh only."""
