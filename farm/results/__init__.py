"""What is derived from verified outputs: movies and quality checks."""
