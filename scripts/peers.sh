#!/usr/bin/env bash
# The real ACP clients, tool servers, language servers, tester of REST and driver of a browser that Fastness is
# tested with: installs what is missing, runs the clients.
#
#   scripts/peers.sh install [typescript|python|acpx|mcp-node|mcp-python|mcp-conformance|pylsp|tsls|schemathesis|openapi|uv|page]...
#                                                          all of them if none is named
#   scripts/peers.sh run PEER PLAN                         PLAN is the JSON the tests pass on
#   scripts/peers.sh conformance ARG...                    the conformance suite of MCP
#
# Versions are pinned in crates/cli/tests/peers. Everything lands in $FASTNESS_PEERS_DIR, or else
# in target/peers. Needs bash, flock, node >= 20 with npm, and python3 with pip.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
pins=$root/crates/cli/tests/peers
peers=${FASTNESS_PEERS_DIR:-$root/target/peers}

# The file that pins a peer's versions; a copy of it beside the installation says it is complete.
pin_of() {
    case $1 in
    typescript | acpx | mcp-node | mcp-conformance | tsls | openapi | page) echo "$pins/$1/package-lock.json" ;;
    python | mcp-python | pylsp | schemathesis | uv) echo "$pins/$1/requirements.txt" ;;
    *)
        echo "there is no peer \`$1\`; try typescript, python, acpx, mcp-node, mcp-python, mcp-conformance, pylsp, tsls, schemathesis, openapi, uv or page" >&2
        exit 2
        ;;
    esac
}

is_installed() { cmp -s "$(pin_of "$1")" "$peers/$1/.installed"; }

install_npm() {
    cp "$pins/$1/package.json" "$pins/$1/package-lock.json" "$peers/$1/"
    # Scripts of packages stay off: none of these needs one, and npm would run strangers' code.
    # Not `npm ci`: it refuses a lock that leaves out optional packages of other platforms.
    (cd "$peers/$1" && npm install --no-save --ignore-scripts --no-audit --no-fund --loglevel=error)
}

install_python() {
    python3 -m pip install --quiet --disable-pip-version-check \
        --root-user-action=ignore --no-deps --no-compile --target "$peers/$1/site" \
        --requirement "$pins/$1/requirements.txt"
    # Servers are started often, in a sandbox that cannot keep what it compiles.
    if [ "$1" = mcp-python ]; then python3 -m compileall -q -j 2 "$peers/$1/site" >/dev/null || true; fi
}

# It runs in a sandbox, which shows a directory of the search path and nothing beside it: so the
# program and what it needs lie in one.
install_pylsp() {
    install_python pylsp
    mkdir "$peers/pylsp/bin"
    mv "$peers/pylsp/site" "$peers/pylsp/bin/site"
    printf '#!/bin/sh\nPYTHONPATH=%s exec python3 -B -m pylsp "$@"\n' "$peers/pylsp/bin/site" \
        >"$peers/pylsp/bin/pylsp"
    chmod +x "$peers/pylsp/bin/pylsp"
}

# As above.
install_tsls() {
    install_npm tsls
    mkdir "$peers/tsls/bin"
    mv "$peers/tsls/node_modules" "$peers/tsls/bin/node_modules"
    printf '#!/bin/sh\nexec node %s/typescript-language-server/lib/cli.mjs "$@"\n' \
        "$peers/tsls/bin/node_modules" >"$peers/tsls/bin/typescript-language-server"
    chmod +x "$peers/tsls/bin/typescript-language-server"
}

install_peer() {
    local pin
    pin=$(pin_of "$1")
    if ! is_installed "$1"; then
        mkdir -p "$peers"
        (
            # Tests in many processes ask at once: the first installs, the others wait and look.
            flock 9
            if ! is_installed "$1"; then
                echo "installing the peer $1" >&2
                rm -rf "${peers:?}/$1"
                mkdir -p "$peers/$1"
                case $1 in
                python | mcp-python | schemathesis | uv) install_python "$1" ;;
                pylsp) install_pylsp ;;
                tsls) install_tsls ;;
                *) install_npm "$1" ;;
                esac
                cp "$pin" "$peers/$1/.installed"
            fi
        ) 9>"$peers/$1.lock" >&2
    fi
    echo "$peers/$1"
}

# Some need Node 22; their installation brings one for those who have an older.
node_for() {
    if node -e 'process.exit(Number(process.versions.node.split(".")[0]) >= 22 ? 0 : 1)'; then
        echo node
    else
        ls "$peers/$1"/node_modules/node-*/bin/node
    fi
}

run_peer() {
    install_peer "$1" >/dev/null
    # It is several files, which find the packages by this.
    if [ "$1" = page ]; then FASTNESS_PAGE_PEER=$peers/page exec node "$pins/page/peer.mjs" "$2"; fi
    # A module looks for packages beside itself, so a copy of the program goes to them.
    # It is moved into place whole, because another test may be starting the same program.
    local program
    program=$(basename "$pins/$1"/peer.*)
    cp "$pins/$1/$program" "$peers/$1/$program.$$"
    mv "$peers/$1/$program.$$" "$peers/$1/$program"
    case $1 in
    typescript) exec node "$peers/typescript/peer.mjs" "$2" ;;
    python) PYTHONPATH=$peers/python/site exec python3 -B "$peers/python/peer.py" "$2" ;;
    acpx) exec "$(node_for acpx)" "$peers/acpx/peer.mjs" "$2" ;;
    esac
}

# The conformance suite of MCP, with the arguments that it takes.
run_conformance() {
    install_peer mcp-conformance >/dev/null
    exec "$(node_for mcp-conformance)" \
        "$peers/mcp-conformance/node_modules/@modelcontextprotocol/conformance/dist/index.js" "$@"
}

case ${1:-install} in
install)
    shift || true
    if [ $# -eq 0 ]; then set -- typescript python acpx mcp-node mcp-python mcp-conformance pylsp tsls schemathesis openapi uv page; fi
    for peer in "$@"; do install_peer "$peer"; done
    ;;
run)
    [ $# -eq 3 ] || { echo "usage: scripts/peers.sh run PEER PLAN" >&2 && exit 2; }
    run_peer "$2" "$3"
    ;;
conformance)
    shift
    run_conformance "$@"
    ;;
*)
    echo "usage: scripts/peers.sh install [PEER]... | run PEER PLAN | conformance ARG..." >&2
    exit 2
    ;;
esac
