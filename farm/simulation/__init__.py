"""A farm of events around the product's own pure rules, to try a policy before money is spent on it. No Django."""
