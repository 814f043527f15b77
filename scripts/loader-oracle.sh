#!/bin/bash
# Holds the static loader against the real ones: objects and bindings of every program below the given directories, random layouts and random libraries
# on each glibc at hand.
#   scripts/loader-oracle.sh [LAYOUTS] [SEED] [DIRECTORIES, separated by colons] [PROCESSES of random libraries]
# VROCM_CORPUS, where set, gives glibc 2.31 and 2.44 beside this machine's. Record the lines it prints in docs/measurements/loader-oracle.md.
set -euo pipefail
cd "$(dirname "$0")/.."
export VROCM_LOADER_LAYOUTS=${1:-2000} VROCM_LOADER_SEED=${2:-1000} VROCM_LOADER_PATHS=${3:-/usr:/opt}
export VROCM_BINDING_CASES=${4:-400}
cargo test --locked -p vrocm-audit --test loader -- --nocapture the_programs_of_this_machine random_layouts
cargo test --locked -p vrocm-audit --test bindings -- --nocapture the_programs_of_this_machine random_libraries
