#!/bin/sh
# Installs Fastness from the folder that this script lies in, or removes it again.
#
#   ./install.sh                  into /usr/local as root, else into ~/.local
#   ./install.sh --prefix DIR     into DIR
#   ./install.sh --uninstall      removes what this version installed (with the same --prefix)
#   ./install.sh --check          only looks whether it would run here
set -eu

SYSTEM=@SYSTEM@
MACHINE=@MACHINE@
GLIBC=@GLIBC@

here=$(cd "$(dirname "$0")" && pwd)
if [ "$(id -u)" -eq 0 ]; then prefix=/usr/local; else prefix=${HOME:+$HOME/.local}; fi
action=install

fail() {
    echo "error: $*" >&2
    exit 1
}

usage() { sed -n '2,8s/^# \{0,1\}//p' "$0"; }

while [ $# -gt 0 ]; do
    case $1 in
    --prefix)
        [ $# -ge 2 ] || fail "--prefix needs a directory."
        prefix=$2
        shift
        ;;
    --prefix=*) prefix=${1#--prefix=} ;;
    --uninstall) action=uninstall ;;
    --check) action=check ;;
    -h | --help)
        usage
        exit 0
        ;;
    *)
        usage >&2
        exit 2
        ;;
    esac
    shift
done
case $prefix in
/*) ;;
*) fail "the prefix \"$prefix\" is not an absolute path. Write it in full." ;;
esac

# The files that go under the prefix, one per line. The list of checksums is the list of files.
files() {
    while read -r _ file; do
        case $file in bin/* | share/*) printf '%s\n' "$file" ;; esac
    done <"$here/SHA256SUMS"
}

# Whether version $1 is at least version $2, for versions with two numbers.
at_least() {
    have_major=${1%%.*} have_minor=${1#*.} want_major=${2%%.*} want_minor=${2#*.}
    have_minor=${have_minor%%.*}
    [ "$have_major" -gt "$want_major" ] ||
        { [ "$have_major" -eq "$want_major" ] && [ "$have_minor" -ge "$want_minor" ]; }
}

check() {
    [ "$(uname -s)" = "$SYSTEM" ] && [ "$(uname -m)" = "$MACHINE" ] ||
        fail "this package is for $SYSTEM on $MACHINE, and this is $(uname -s) on $(uname -m)."
    glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null | sed 's/^glibc //') || glibc=
    [ -n "$glibc" ] || fail "this system has no glibc; the program needs glibc $GLIBC or newer."
    at_least "$glibc" "$GLIBC" ||
        fail "glibc is $glibc here; the program needs glibc $GLIBC or newer."
    (cd "$here" && sha256sum -c SHA256SUMS) >/dev/null 2>&1 ||
        fail "the files in \"$here\" are not the ones that were packed. Download the archive again."
}

install_files() {
    files | while IFS= read -r file; do
        target=$prefix/$file
        mkdir -p "$(dirname "$target")"
        # Renamed into place, because a running program cannot be overwritten.
        cp "$here/$file" "$target.new.$$"
        case $file in
        bin/*) chmod 755 "$target.new.$$" ;;
        *) chmod 644 "$target.new.$$" ;;
        esac
        mv -f "$target.new.$$" "$target"
    done
    "$prefix/bin/fastness" --version >/dev/null || fail "\"$prefix/bin/fastness\" does not start."
    echo "installed $prefix/bin/fastness"
    case :${PATH:-}: in
    *:"$prefix/bin":*) ;;
    *) echo "\"$prefix/bin\" is not in PATH; add it, or call the program by its full path." ;;
    esac
}

uninstall_files() {
    [ -n "$(files)" ] || fail "\"$here/SHA256SUMS\" does not list any files."
    files | while IFS= read -r file; do rm -f "$prefix/$file"; done
    # Only directories of our own; the others belong to the system or the user.
    rmdir "$prefix/share/doc/fastness" 2>/dev/null || true
    echo "removed fastness from $prefix; sessions and settings were kept"
}

case $action in
install)
    check
    install_files
    ;;
check)
    check
    echo "fastness runs here"
    ;;
uninstall) uninstall_files ;;
esac
