#!/usr/bin/env bash
# The tools of `cargo xtask package` and of its tests: installs what is missing.
#
#   scripts/packaging.sh packages         prints the Debian packages that are missing here
#   scripts/packaging.sh install          installs those
#   scripts/packaging.sh install release  what a release build needs too; its last line is the folder
#   scripts/packaging.sh base [--fresh] PACKAGE...
#                                         downloads these as the base of the container image, unless they
#                                         are there; prints their folder
#
# Everything but Debian packages lands in target/packaging. Versions are pinned in deploy/requirements.txt
# and below. Needs bash and flock; a release build also python3 with pip.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
place=$root/target/packaging
auditable=0.7.7

has() { command -v "$1" >/dev/null 2>&1; }

as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi; }

# A program and the Debian package that has it.
missing_packages() {
    local pair
    for pair in umoci:umoci bwrap:bubblewrap objdump:binutils dpkg-deb:dpkg python3:python3 npm:npm; do
        has "${pair%%:*}" || echo "${pair#*:}"
    done
}

install_packages() {
    local missing
    mapfile -t missing < <(missing_packages)
    [ "${#missing[@]}" -gt 0 ] || return 0
    has apt-get || { echo "install these first: ${missing[*]}" >&2 && return 1; }
    as_root apt-get update -qq
    DEBIAN_FRONTEND=noninteractive as_root apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

# Downloads into a folder of its own and renames it, so that another test never sees half of it.
download_base() (
    fresh=
    if [ "${1:-}" = --fresh ]; then fresh=yes && shift; fi
    has apt-get || { echo "the base of the image comes from Debian's packages, and apt-get is not here" >&2 && exit 1; }
    mkdir -p "$place"
    exec 9>"$place/debian.lock"
    flock 9
    if [ -z "$fresh" ] && [ "$(cat "$place/debian.list" 2>/dev/null)" = "$*" ]; then exit; fi
    apt-cache show libc6 >/dev/null 2>&1 || as_root apt-get update -qq
    new=$(mktemp -d "$place/debian.XXXXXX")
    trap 'rm -rf "$new"' EXIT
    # apt's own user may not write here; as root it says so and goes on.
    (cd "$new" && apt-get download -qq "$@" 2>"$place/debian.log") || { cat "$place/debian.log" >&2 && exit 1; }
    rm -rf "$place/debian" "$place/debian.list"
    chmod 755 "$new"
    mv "$new" "$place/debian"
    echo "$*" >"$place/debian.list"
)

is_complete() { cmp -s <(cat "$root/deploy/requirements.txt" && echo "$auditable") "$place/tools/.installed"; }

install_release_tools() (
    is_complete && exit
    mkdir -p "$place"
    exec 9>"$place/tools.lock"
    flock 9
    is_complete && exit
    rm -rf "$place/tools"
    python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps \
        --target "$place/tools/site" --requirement "$root/deploy/requirements.txt"
    cargo install --quiet --locked --root "$place/tools" "cargo-auditable@$auditable"
    (cat "$root/deploy/requirements.txt" && echo "$auditable") >"$place/tools/.installed"
)

case ${1:-} in
packages) missing_packages ;;
base)
    shift
    download_base "$@" >&2
    echo "$place/debian"
    ;;
install)
    if [ "${2:-}" = release ]; then
        install_release_tools >&2
        echo "$place/tools"
    else
        install_packages >&2
    fi
    ;;
*)
    echo "usage: scripts/packaging.sh packages | install [release] | base [--fresh] PACKAGE..." >&2
    exit 2
    ;;
esac
