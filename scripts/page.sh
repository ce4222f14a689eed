#!/usr/bin/env bash
# The web page: built from page/ into crates/server/page/dist, which is checked in and embedded.
#
#   scripts/page.sh install   the tools that the others need, which install them too
#   scripts/page.sh build     types are checked, the page is built
#   scripts/page.sh check     the same, into a folder of its own: fails unless it is what is checked in
#   scripts/page.sh test      the page's own tests
#
# Versions are pinned in page/package-lock.json. Tools land in $FASTNESS_PEERS_DIR/page-build, or else in
# target/peers. Needs bash, flock and node >= 20 with npm.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tools=${FASTNESS_PEERS_DIR:-$root/target/peers}/page-build
dist=$root/crates/server/page/dist

is_installed() { cmp -s "$root/page/package-lock.json" "$tools/.installed"; }

install_tools() {
    is_installed && return
    mkdir -p "$(dirname "$tools")"
    (
        # As in peers.sh: several may ask at once, and strangers' scripts do not run.
        flock 9
        is_installed && exit
        echo "installing the page's tools" >&2
        rm -rf "$tools"
        mkdir -p "$tools"
        cp "$root/page/package.json" "$root/page/package-lock.json" "$tools/"
        (cd "$tools" && npm install --no-save --ignore-scripts --no-audit --no-fund --loglevel=error)
        cp "$root/page/package-lock.json" "$tools/.installed"
    ) 9>"$tools.lock" >&2
}

# Tools look for packages beside the source, so a copy of the source goes to them.
workshop() {
    local place
    place=$(mktemp -d "$tools/work.XXXXXX")
    cp -r "$root/page/src" "$root/page/test" "$root/page/build.mjs" "$root/page/tsconfig.json" "$root/page/package.json" "$place/"
    echo "$place"
}

command=${1:-}
case $command in
install | build | check | test) ;;
*)
    echo "usage: scripts/page.sh install | build | check | test" >&2
    exit 2
    ;;
esac

install_tools
[ "$command" != install ] || exit 0
place=$(workshop)
trap 'rm -rf "$place"' EXIT
case $command in
test)
    node "$place/build.mjs" --tests "$place/tests"
    node --test "$place"/tests/*.mjs
    ;;
build | check)
    "$tools/node_modules/.bin/tsc" -p "$place"
    node "$place/build.mjs" "$place/dist"
    if [ "$command" = build ]; then
        rm -rf "$dist"
        cp -r "$place/dist" "$dist"
    else
        node "$place/build.mjs" --compare "$place/dist" "$dist"
    fi
    ;;
esac
