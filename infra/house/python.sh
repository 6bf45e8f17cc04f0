#!/bin/sh
# Print the Python to build everything with: 3.11 or 3.13, the two that Blender exists for as a module.
# PYTHON=... decides; otherwise what .venvs was made with; otherwise the first fitting one on PATH.
version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }
fits() { case "$(version "$1")" in 3.11 | 3.13) return 0 ;; *) return 1 ;; esac; }

if [ -n "${PYTHON:-}" ]; then
    candidates=$PYTHON
else
    candidates=".venvs/boot/bin/python python3 python3.13 python3.11"
fi

found=
for candidate in $candidates; do
    if fits "$candidate"; then
        # The interpreter behind a virtual environment: the environment itself may be made anew with it.
        exec "$candidate" -c 'import sys; print(sys._base_executable)'
    fi
    seen=$(version "$candidate") && found="$found $candidate is $seen;"
done

echo "Farmhand needs Python 3.11 or 3.13, since Blender as a module exists for these two. Found:${found:- no Python at all;}" >&2
echo "install one of them (Debian 12 and 13: apt-get install python3 python3-venv), or say PYTHON=/path/to/python3.13." >&2
exit 1
