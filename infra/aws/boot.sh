#!/bin/sh
# What a rented machine runs first, as root: be ended in time whatever happens, then be a worker of the farm.
# Its values stand above this line; the one-time boot secret is all that is secret here, and is worth nothing once
# every machine of this launch has registered. README.md beside this file says what the image must contain.
set -eu
umask 077

RUN=${FARMHAND_RUN:-/run/farmhand}
WORK=${FARMHAND_WORK:-/var/lib/farmhand}
AGENT=${FARMHAND_AGENT:-/opt/farmhand/bin/farmhand-agent}
AGENT_USER=${FARMHAND_USER:-farmhand}
METADATA=${FARMHAND_SPOT_URL:-http://169.254.169.254}
POWER_OFF=${FARMHAND_POWER_OFF:-systemctl poweroff --force}

# The two timers come before anything that can fail. Power off means terminate: the launch template says so.
mkdir -p "$RUN"
(
    sleep "$BOOT_TIMEOUT_S"
    [ -e "$RUN/registered" ] || $POWER_OFF
) >/dev/null 2>&1 &
(
    sleep "$MAX_LIFE_S"
    $POWER_OFF
) >/dev/null 2>&1 &

# From here on, whatever ends this script ends the machine.
trap '$POWER_OFF' EXIT

ask() { # a path of the metadata service, version 2
    curl -fsS --noproxy '*' --max-time 5 --retry 3 --retry-all-errors -H "X-aws-ec2-metadata-token: $token" "$METADATA/latest/$1"
}

token=$(curl -fsS --noproxy '*' --max-time 5 --retry 3 --retry-all-errors -X PUT \
    -H 'X-aws-ec2-metadata-token-ttl-seconds: 300' "$METADATA/latest/api/token")
machine=$(ask meta-data/instance-id)
market=$(ask meta-data/instance-life-cycle)

mkdir -p "$WORK"
printf '%s' "$BOOT_SECRET" >"$RUN/secret"
unset BOOT_SECRET
chown -R "$AGENT_USER" "$RUN" "$WORK"
(
    until [ -e "$RUN/registered" ]; do sleep 1; done
    rm -f "$RUN/secret"
) >/dev/null 2>&1 &

set -- --farm "$FARM_URL" --machine-id "$machine" --secret-file "$RUN/secret" --registered-file "$RUN/registered" \
    --work "$WORK" --max-lifetime "$((MAX_LIFE_S > 1200 ? MAX_LIFE_S - 900 : MAX_LIFE_S))"
[ "$market" = spot ] && set -- "$@" --spot ec2 --spot-url "$METADATA"

# Not exec: when the agent ends, for whatever reason, the machine ends.
setpriv --reuid="$(id -u "$AGENT_USER")" --regid="$(id -g "$AGENT_USER")" --init-groups "$AGENT" "$@" || true
