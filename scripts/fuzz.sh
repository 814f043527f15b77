#!/bin/sh
# Fuzzes the ELF reader and the readers of packages and images, half of some seconds each (30 together unless told), with limits on memory and on the
# time of one input. With a target, that one has all the time.
#   scripts/fuzz.sh [SECONDS] [elf_facts|archives]
# Exit status: 0 nothing found, 1 found (the input is kept in fuzz/artifacts), 2 a tool is missing.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-30}
target=${2:-both}

if ! cargo +nightly --version >/dev/null 2>&1; then
    echo "fuzz.sh: libFuzzer needs a nightly compiler: rustup toolchain install nightly --profile minimal" >&2
    exit 2
fi
if ! cargo fuzz --version >/dev/null 2>&1; then
    echo "fuzz.sh: cargo-fuzz is missing: cargo install --locked cargo-fuzz" >&2
    exit 2
fi

# Seeds: small libraries of several machines, and every input that found something once.
seeds=fuzz/corpus/elf_facts
mkdir -p "$seeds"
for file in fixtures/elf/*.so fixtures/cases/e*/*.so fixtures/fuzz/*.bin; do
    if [ -f "$file" ] && [ "$(wc -c <"$file")" -le 20000 ]; then
        cp "$file" "$seeds/$(echo "$file" | tr / _)"
    fi
done
# A runtime in miniature, with what the reading of machine code looks for.
if command -v g++ >/dev/null; then
    g++ -w -shared -fPIC -Os -s -o "$seeds/runtime.so" fixtures/evidence/runtime.cpp
fi

# Small containers of each format, as far as there is a program that makes it.
packed=$PWD/fuzz/corpus/archives
mkdir -p "$packed"
inside=$(mktemp -d)
trap 'rm -rf "$inside"' EXIT
mkdir -p "$inside/usr/lib"
printf '\177ELF and what follows' >"$inside/usr/lib/libx.so"
printf 'import ctypes\n' >"$inside/usr/lib/x.py"
printf '{"imageLayoutVersion":"1.0.0"}' >"$inside/oci-layout"
printf '[{"Layers":["layer.tar"]}]' >"$inside/manifest.json"
tar -C "$inside" -cf "$packed/plain.tar" usr
cp "$packed/plain.tar" "$inside/layer.tar"
tar -C "$inside" -cf "$packed/image.tar" manifest.json layer.tar
gzip -nc "$packed/plain.tar" >"$packed/plain.tar.gz"
if command -v xz >/dev/null; then xz -c "$packed/plain.tar" >"$packed/plain.tar.xz"; fi
if command -v zstd >/dev/null; then zstd -qc "$packed/plain.tar" >"$packed/plain.tar.zst"; fi
if command -v zip >/dev/null; then (cd "$inside" && zip -qr "$packed/plain.whl" usr); fi
size=$(wc -c <"$packed/plain.tar.gz")
{
    printf '!<arch>\n%-16s%-12s%-6s%-6s%-8s%-10s`\n2.0\n' debian-binary 0 0 0 100644 4
    printf '%-16s%-12s%-6s%-6s%-8s%-10s`\n' data.tar.gz 0 0 0 100644 "$size"
    cat "$packed/plain.tar.gz"
} >"$packed/plain.deb"
for file in fixtures/fuzz/archives/*; do
    if [ -f "$file" ]; then cp "$file" "$packed/"; fi
done

# The auditor has no unsafe code, so no sanitizer: it would be slower and take more memory than the limit allows.
cd fuzz
run() {
    cargo +nightly fuzz run --sanitizer none "$@" -max_len=20000 -len_control=0 -timeout=5 -print_final_stats=1
}
case $target in
both) half=$((seconds / 2)) ;;
*) half=$seconds ;;
esac
# What the fuzzer keeps of its inputs counts as well, and grows as long as it finds something new.
room=$((64 + half / 8))
if [ "$room" -gt 512 ]; then room=512; fi
if [ "$target" != archives ]; then
    run elf_facts -- -max_total_time="$half" -rss_limit_mb="$room" -malloc_limit_mb=8
fi
# A stream may ask for a window of 192 MiB, as xz -9 and zstd --ultra do.
if [ "$target" != elf_facts ]; then
    run archives -- -max_total_time="$half" -rss_limit_mb=512 -malloc_limit_mb=200
fi
