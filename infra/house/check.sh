#!/bin/sh
# Everything that is checked without running the farm. Each step is one line; what failed shows why at once.
cd "$(dirname "$0")/../.." || exit 1
dev=.venvs/dev/bin
failed=0

step() { # name, command...
    printf '  %-20s' "$1"
    shift
    if said=$("$@" 2>&1); then
        echo ok
    else
        failed=1
        printf 'FAILED\n%s\n' "$said"
    fi
}

# The Django plugin of mypy reads the settings, and they want addresses; nothing is connected to.
export FARM_SECRET_KEY=check FARM_DATABASE_URL=postgresql://check@127.0.0.1/check FARM_BROKER_URL=redis://127.0.0.1

step "lint" "$dev/ruff" check --quiet .
step "layout" "$dev/ruff" format --quiet --check .
step "types" "$dev/mypy" --show-traceback
step "import directions" "$dev/lint-imports" --no-cache
step "locks" "$dev/python" -m infra.house.locks --check
step "portal" "$dev/python" -m infra.house.portal check
step "tracked files" "$dev/python" -m infra.house.tracked
exit $failed
