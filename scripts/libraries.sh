# shellcheck shell=bash
# The runtimes that scripts measure with: HIP and HSA of ROCm 7.2.4, out of the corpus. Sourced, at the top of the repository.
corpus=${VROCM_CORPUS:-$PWD/.corpus}
find_library() { find "$corpus" -path "*$1*" -name "$2" -type f | head -n 1; }
HIP=$(find_library libamdhip64-7_7.2.4 'libamdhip64.so.7.*')
HSA=$(find_library libhsa-runtime64-1_7.2.4 'libhsa-runtime64.so.1.*')
[ -n "$HIP" ] && [ -n "$HSA" ] || { echo "${0##*/}: HIP and ROCr 7.2.4 are not in $corpus (scripts/corpus.sh)" >&2; exit 2; }
