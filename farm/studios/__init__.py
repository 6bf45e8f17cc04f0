"""Users, studios, projects, members and their roles, API tokens, the audit log."""
