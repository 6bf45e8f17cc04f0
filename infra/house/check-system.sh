#!/bin/sh
# See whether this machine has what Farmhand takes from the system's own packages, and say what to type if not.
# YES=1 installs it (as root, where there is apt-get); at a terminal, root is asked. Quiet when nothing is missing.
cd "$(dirname "$0")/../.." || exit 1

# What Blender (bpy) is linked with and does not bring: library, Debian package.
LIBRARIES="libX11.so.6 libx11-6
libXext.so.6 libxext6
libXrender.so.1 libxrender1
libXfixes.so.3 libxfixes3
libXi.so.6 libxi6
libxkbcommon.so.0 libxkbcommon0
libSM.so.6 libsm6
libICE.so.6 libice6
libGL.so.1 libgl1
libEGL.so.1 libegl1"

packages=
lacks() { # what, Debian package
    echo "  missing: $1" >&2
    packages="$packages $2"
}

find_python() {
    python=$(sh infra/house/python.sh 2>/dev/null) && return
    if [ -z "$(command -v python3)" ] && [ -z "${PYTHON:-}" ]; then
        lacks "Python" "python3 python3-venv"
    else
        sh infra/house/python.sh # says why, and that no package of ours would help
        exit 1
    fi
}

check_python() {
    [ -n "$python" ] || return
    "$python" -c 'import ensurepip, venv' 2>/dev/null && return
    case $python in
    /usr/bin/python3*) lacks "Python's venv module" "python3-venv" ;;
    *) echo "Farmhand needs Python's venv and ensurepip modules, which $python lacks." >&2 && exit 1 ;;
    esac
}

check_libraries() {
    known=$(ldconfig -p 2>/dev/null || /sbin/ldconfig -p)
    while read -r library package; do
        case $known in *"$library "*) ;; *) lacks "$library" "$package" ;; esac
    done <<END
$LIBRARIES
END
}

check_sandbox() {
    if [ -z "$(command -v bwrap)" ]; then
        lacks "bubblewrap, the sandbox for scenes" "bubblewrap"
    elif ! reason=$(bwrap --unshare-all --ro-bind / / --proc /proc --dev /dev true 2>&1); then
        echo "Scenes are rendered in a sandbox, and this machine allows none: $reason" >&2
        echo "It needs user namespaces. A kernel setting may forbid them (kernel.unprivileged_userns_clone=1," >&2
        echo "user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns=0), or the container this runs in." >&2
        exit 1
    fi
}

check_browser() { # only for the portal's stories: BROWSER=1
    [ "${BROWSER:-}" = 1 ] && [ -z "$(command -v chromium)" ] && lacks "Chromium, for the portal's stories" "chromium"
    return 0
}

ask() { # whether to install now
    [ "$(id -u)" = 0 ] && [ -n "$(command -v apt-get)" ] || return 1
    [ "${YES:-}" = 1 ] && return 0
    [ -t 0 ] && [ -t 2 ] || return 1
    printf 'Run it now? [y/N] ' >&2
    read -r answer
    [ "$answer" = y ] || [ "$answer" = Y ]
}

install() {
    # shellcheck disable=SC2086 # a list of words
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $packages >/dev/null
}

find_python
check_python
check_libraries
check_sandbox
check_browser
[ -z "$packages" ] && exit 0

sudo=$([ "$(id -u)" = 0 ] || echo "sudo ")
if [ -n "$(command -v apt-get)" ]; then
    echo "This installs it:  ${sudo}apt-get install -y --no-install-recommends$packages" >&2
else
    echo "Install these with your system's package manager; on Debian they are called:$packages" >&2
fi
if [ "${CHECKED_AGAIN:-}" != 1 ] && ask && install; then
    CHECKED_AGAIN=1 exec sh infra/house/check-system.sh
fi
exit 1
