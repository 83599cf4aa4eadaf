#!/bin/sh
# What the tests need beside Python packages: Chromium and Node, from the system's packages.
set -eu

missing=""
command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || missing="chromium"
command -v node >/dev/null 2>&1 || missing="$missing nodejs"
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "tests/prepare.sh: please install: $missing" >&2
    exit 1
fi
as_root=""
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null 2>&1 || { echo "tests/prepare.sh: as root: apt-get install $missing" >&2; exit 1; }
    as_root="sudo"
fi
$as_root apt-get update -qq
# shellcheck disable=SC2086 # a list of packages
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
