#!/bin/bash
# Holds the static loader against the real ones: objects and bindings of every program and library below the given directories, random layouts and random
# libraries on each glibc at hand, and how long a program of a hundred objects takes. Writes what came of it between the marks of
# docs/measurements/loader-oracle.md.
#   scripts/loader-oracle.sh [LAYOUTS] [SEED] [DIRECTORIES, separated by colons] [PROCESSES of random libraries]
# VROCM_CORPUS, where set, gives glibc 2.31 and 2.44 beside this machine's.
set -euo pipefail
cd "$(dirname "$0")/.."
export VROCM_LOADER_LAYOUTS=${1:-2000} VROCM_LOADER_SEED=${2:-1000} VROCM_LOADER_PATHS=${3:-/usr:/opt}
export VROCM_BINDING_CASES=${4:-400}
page=docs/measurements/loader-oracle.md
log=$(mktemp)
trap 'rm -f "$log" "$log.page"' EXIT
cargo test --locked -p vrocm-audit --test loader -- --nocapture \
    of_this_machine random_layouts random_roots a_hundred_objects | tee "$log"
cargo test --locked -p vrocm-audit --test bindings -- --nocapture the_programs_of_this_machine random_libraries | tee -a "$log"
figures=$(grep -E '^[0-9]+ (programs|libraries|objects)|^glibc ' "$log" | sort -u)
{
    sed '/<!-- figures -->/q' "$page"
    # shellcheck disable=SC2016  # the backquotes are Markdown
    printf '```text\n%s, below %s:\n%s\n```\n' "$(date +%F)" "$VROCM_LOADER_PATHS" "$figures"
    sed -n '/<!-- end of figures -->/,$p' "$page"
} >"$log.page"
cp "$log.page" "$page"
