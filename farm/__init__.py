"""The control plane: one Django project."""
