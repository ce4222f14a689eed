#!/usr/bin/env bash
# Shows that `cargo xtask test` needs nothing but Rust, git and a C compiler: makes a Debian without the
# other packages and runs a command in it, on a clone of this repository's last commit. By hand, as root;
# needs debootstrap and the network.
#
#   scripts/clean-root.sh DIR [COMMAND]...     `cargo xtask test` if no command is given
#
# DIR is made the first time and kept. The machine's Rust is shown read-only, its certificates and crates
# are copied, and the network is the same. pivot_root and not chroot: in a chroot the kernel refuses the
# user namespaces that bubblewrap makes.
set -euo pipefail

suite=trixie
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
[ $# -ge 1 ] || { echo "usage: scripts/clean-root.sh DIR [COMMAND]..." >&2 && exit 2; }
mkdir -p "$1"
dir=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- cargo xtask test

if [ ! -e "$dir/.made" ]; then
    debootstrap --variant=minbase --include=ca-certificates,git,build-essential "$suite" "$dir"
    touch "$dir/.made"
fi
if [ ! -e "$dir/work" ]; then
    cp -L --remove-destination /etc/ssl/certs/ca-certificates.crt "$dir/etc/ssl/certs/"
    mkdir -p "$dir/clean/.cargo" "$dir/opt/rust"
    cp -r "${CARGO_HOME:-$HOME/.cargo}/registry" "$dir/clean/.cargo/" || true
    git clone --quiet --no-hardlinks "$root" "$dir/work"
fi
cp -L /etc/resolv.conf /etc/hosts "$dir/etc/"

# What says how to reach the network, and nothing else of the environment.
settings=()
while IFS= read -r setting; do settings+=("$setting"); done < <(env | grep -iE '^(https?_proxy|no_proxy|all_proxy|SSL_CERT_[A-Z]+|NODE_EXTRA_CA_CERTS|PIP_CERT|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|GIT_SSL_CAINFO)=')
sysroot=$(cd "$root" && rustc --print sysroot)

export dir sysroot
exec unshare --mount --pid --fork --propagation private bash -euc '
    mount --bind "$dir" "$dir"
    cd "$dir"
    mount --bind "$sysroot" opt/rust
    mount -o remount,bind,ro opt/rust
    mount -t proc proc proc
    mount --rbind /sys sys
    mount --rbind /dev dev
    mount -t tmpfs tmpfs tmp
    mkdir -p old
    pivot_root . old
    umount -l /old
    cd /work
    exec env -i "$@"' clean-root \
    "${settings[@]}" HOME=/clean LANG=C.UTF-8 \
    PATH=/clean/.cargo/bin:/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    "$@"
