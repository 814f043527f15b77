#!/bin/bash
# Measures what the dynamic loaders of glibc 2.31, 2.36, 2.41, 2.43, 2.44 and musl 1.2.3, 1.2.6 do with broken preload libraries.
# usage (root, Debian x86-64 with gcc, gcc-multilib for the 32-bit rows):  ./measure.sh CORPUS PACKAGES WORK
#   CORPUS    folder of unpacked packages: libc6_2.31*, libc6_2.44*, coreutils_8.32*, musl_1.2.3*
#   PACKAGES  the same for libc6_2.36*amd64, libc6_2.41*amd64, libc6_2.43*amd64, musl_1.2.6* (dpkg -x of what apt-get downloads)
#   NEWLD_DIR (environment, optional): folder with an `ld` of binutils >= 2.46 for the GLIBC_ABI_GNU2_TLS and _PLT rows
set -eu
here=$(cd "$(dirname "$0")" && pwd); corpus=$1; pkgs=$2; work=$3
mkdir -p "$work"; args=()
mk() { # name libc-package-folder
    local r=$work/root-$1 d=$2
    rm -rf "$r"; mkdir -p "$r"/{etc,bin,lib64,usr,opt,lib/x86_64-linux-gnu}
    local from=$d/usr/lib/x86_64-linux-gnu; [ -e "$from/libc.so.6" ] || from=$d/lib/x86_64-linux-gnu
    cp -a "$from"/*.so* "$r/lib/x86_64-linux-gnu/"
    ln -s ../lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 "$r/lib64/ld-linux-x86-64.so.2"
    ln -s ../lib "$r/usr/lib"
    cp "$corpus"/coreutils_8.32*/bin/true "$r/bin/"
    args+=("$1=$r")
}
one() { local f; for f in "$@"; do [ -d "$f" ] && { echo "$f"; return; }; done; echo "missing: $*" >&2; exit 1; }
mk g231 "$(one "$corpus"/libc6_2.31*)"
mk g236 "$(one "$pkgs"/libc6_2.36*amd64)"
mk g241 "$(one "$pkgs"/libc6_2.41*amd64)"
mk g243 "$(one "$pkgs"/libc6_2.43*amd64)"
mk g244 "$(one "$corpus"/libc6_2.44*)"
mu() { # name musl-package-folder
    local r=$work/root-$1; rm -rf "$r"; mkdir -p "$r"/{etc,bin,lib,usr/lib,opt}
    cp "$(find "$2" -name libc.so | head -1)" "$r/lib/ld-musl-x86_64.so.1"; args+=("$1=$r")
}
mu musl123 "$(one "$corpus"/musl_1.2.3*)"
mu musl126 "$(one "$pkgs"/musl_1.2.6*)"
cd "$here"; exec python3 measure.py "$work/build" "$here/results.json" "${args[@]}"
