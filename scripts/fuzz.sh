#!/bin/sh
# Fuzzes the ELF reader for some seconds (30 unless told) with limits on memory and on the time of one input.
#   scripts/fuzz.sh [SECONDS]
# Exit status: 0 nothing found, 1 found (the input is kept in fuzz/artifacts), 2 a tool is missing.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-30}

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
for file in fixtures/elf/*.so fixtures/cases/e*/*.so fixtures/fuzz/*; do
    if [ -f "$file" ] && [ "$(wc -c <"$file")" -le 20000 ]; then
        cp "$file" "$seeds/$(echo "$file" | tr / _)"
    fi
done

# The auditor has no unsafe code, so no sanitizer: it would be slower and take more memory than the limit allows.
cd fuzz
exec cargo +nightly fuzz run --sanitizer none elf_facts -- \
    -max_total_time="$seconds" -max_len=20000 -len_control=0 -rss_limit_mb=64 -malloc_limit_mb=8 -timeout=5 -print_final_stats=1
