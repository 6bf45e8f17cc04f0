"""Templates, submission, steps and tasks: what shall be done. Never what runs."""
