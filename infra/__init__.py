"""What runs and checks a farm: the house's own tools and the one-machine supervisor."""
