#!/bin/bash
# A longer random walk over the shim than CI takes.
#   scripts/walk.sh [ROUNDS [SEED]]
# Each round is one walk of each kind on each runtime that is there; a failure prints the seed that repeats it with ROUNDS 1.
set -euo pipefail
cd "$(dirname "$0")/.."
export VROCM_CORPUS=${VROCM_CORPUS:-$PWD/.corpus} VROCM_WALK_ROUNDS=${1:-50} VROCM_WALK_SEED=${2:-$RANDOM}
echo "$VROCM_WALK_ROUNDS rounds from seed $VROCM_WALK_SEED"
cargo test -q -p vrocm-tests --test shim_walk -- --nocapture
