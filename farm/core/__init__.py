"""What every room needs and no trade knows: errors, moves, storage, events, wake-ups, tenant tables."""
