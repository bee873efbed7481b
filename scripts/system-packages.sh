#!/bin/sh
# Installs the system packages of a group when it may; prints the exact command when it may not.
# Groups: venv (to create .venv), gui (the window), web (the pages), extras (environment families),
# test, browser (which not every release has, so that it is asked for alone), slurm (a cluster
# of the tests' own; nothing of it is started by itself).
set -eu

case "${1:-}" in
    venv) packages="python3.11-venv" ;;
    gui) packages="libegl1 libgl1 libxcb-cursor0 libxkbcommon-x11-0 libxcb-icccm4 libxcb-keysyms1
        libdbus-1-3 libnss3 libasound2 libxcomposite1 libxdamage1 libxrandr2 libxtst6 libxkbfile1
        libgbm1" ;;
    extras) packages="libegl1 libgl1 libosmesa6 libqt5core5a libqt5gui5" ;;
    web) packages="npm" ;;
    test) packages="xvfb xauth git procps openssh-client openssh-server" ;;
    browser) packages="chromium" ;;
    slurm) packages="slurmctld slurmd slurm-client munge" ;;
    *) echo "usage: $0 venv|gui|web|extras|test|browser|slurm" >&2; exit 2 ;;
esac

if [ "$1" = venv ]; then
    # Only Debian's own Python comes without the module; others bring it along.
    "${PYTHON:-python3}" -c 'import ensurepip' 2>/dev/null && exit 0
fi

command -v dpkg-query >/dev/null 2>&1 || exit 0

missing=""
for package in $packages; do
    # Newer releases rename libraries for their 64-bit time: libasound2 is libasound2t64 there.
    for name in "$package" "${package}t64"; do
        status=$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null || true)
        [ "$status" = installed ] && continue 2
    done
    missing="$missing $package"
done
[ -z "$missing" ] && exit 0

install="apt-get install -y --no-install-recommends$missing"
if [ "$(id -u)" = 0 ]; then
    sudo=""
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    sudo="sudo"
else
    echo "These system packages are missing:$missing" >&2
    echo "Install them with:  sudo apt-get update && sudo $install" >&2
    [ "$1" = venv ] && exit 1
    exit 0
fi
echo "installing system packages:$missing"
log=$(mktemp)
if ! { $sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $sudo $install; } >"$log" 2>&1; then
    tail -n 15 "$log" >&2
    echo "Install them by hand:  apt-get update && $install" >&2
    rm -f "$log"
    [ "$1" = venv ] && exit 1
    exit 0
fi
rm -f "$log"
