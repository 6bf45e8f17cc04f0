#!/usr/bin/env python
"""Run a management command of the farm."""

import os
import sys

if __name__ == "__main__":
    if "FARM_SECRET_KEY" not in os.environ:
        sys.exit("The farm's settings are not in this shell's environment. With the farm up:  eval \"$(make env)\"")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "farm.settings")
    from django.core.management import execute_from_command_line

    import farm.celery  # noqa: F401  (makes it the current app)

    execute_from_command_line(sys.argv)
