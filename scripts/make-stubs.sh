#!/bin/bash
# Remakes fixtures/stubs from the real libraries (scripts/corpus.sh): linkage and symbols kept, code dropped.
set -euo pipefail
cd "$(dirname "$0")/.."
corpus=${VROCM_CORPUS:-$PWD/.corpus}
cargo build --quiet -p vrocm-tests --bin make-stub
for library in "$corpus"/libamdhip64-[567]_*/usr/lib/*/libamdhip64.so.*.*.* "$corpus"/libhsa-runtime64-1_*/usr/lib/*/libhsa-runtime64.so.1.*; do
    [ -f "$library" ] || continue
    package=${library#"$corpus"/}
    version=${package#*_}
    release=${version%%[-+]*}
    name=$(basename "$library")
    target/debug/make-stub "$library" "fixtures/stubs/${name%%.so*}-$release.so"
done
ls -l fixtures/stubs
