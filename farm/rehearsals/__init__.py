"""Trying beforehand what a policy would have done: this farm's own past, or made-up work, in the simulator."""
