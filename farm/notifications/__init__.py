"""Who wants to hear what happened: server-sent events and a job's history. The only reader of `core`'s events."""
