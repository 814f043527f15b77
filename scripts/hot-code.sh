#!/bin/bash
# Remakes audit/build/hot.txt: the functions that run when the programs answer the questions whose time and memory have a budget.
#   scripts/hot-code.sh
# Needs valgrind and the real libraries (scripts/corpus.sh). Worth a run when scripts/bench.sh shows more memory than docs/measurements.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --quiet --locked
target=${CARGO_TARGET_DIR:-target}/release

. scripts/libraries.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

count=0
# Findings are expected: the status of the programs says nothing here.
record() {
    count=$((count + 1))
    valgrind --quiet --tool=callgrind --demangle=no --callgrind-out-file="$folder/$count" "$@" >"$folder/out" || [ $? -eq 1 ]
}
record "$target/vrocm-audit" coverage "$HIP" --interposed manifests/interposed-reference.json
record "$target/vrocm-audit" coverage "$HIP" --shim "$target/libvrocm.so"
record "$target/vrocm-audit" linkage "$target/libvrocm.so"
record "$target/gfx-scan" "$HSA"

# fn=(12) NAME: a function. Its crates carry hashes of the compiler's version (C s HASH _), which no other compiler has.
# Functions that the same answers run stand together, those of most answers first.
for answer in $(seq "$count"); do
    sed -nE "s/^c?fn=\([0-9]+\) (_R[^']*).*/\1/p" "$folder/$answer" | sed -E 's/Cs[0-9A-Za-z]*_([0-9])/Cs*_\1/g' | LC_ALL=C sort -u | sed "s/^/$answer /"
done | awk '{ answers[$2] = answers[$2] $1 } END { for (name in answers) print 9 - length(answers[name]), answers[name], name }' | LC_ALL=C sort >"$folder/names"
[ "$(wc -l <"$folder/names")" -gt 100 ] || { echo "hot-code: fewer than 100 functions are named; is symbol-mangling-version v0 asked for in .cargo/config.toml?" >&2; exit 2; }
{
    echo "# Functions that run in an answer, mangled (v0). Remade by scripts/hot-code.sh."
    cut -d' ' -f3 "$folder/names"
} >audit/build/hot.txt
