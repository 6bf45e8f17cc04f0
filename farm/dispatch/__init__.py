"""Where demand meets supply: claims, attempts, outputs, prediction, quotes, and the only door for workers."""
