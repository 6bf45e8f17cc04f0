"""The farm on one machine: a supervisor that starts its processes, watches them and ends them."""
