#!/bin/sh
# See whether this machine has what Farmhand takes from the system's own packages, and say what to type if not.
# YES=1 installs it (as root, where there is apt-get); at a terminal, root is asked.
exec sh "$(dirname "$0")/python.sh" >/dev/null
