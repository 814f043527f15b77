#!/bin/bash
# What action.yml runs: the gate with annotations, and a SARIF file where one is asked for.
#   CONFIG=vrocm-gate.jsonc [SINCE=OLD_SHIM] [SARIF=FILE] scripts/gate.sh
# Exit status: that of the gate.
set -euo pipefail
since=()
[ -z "${SINCE:-}" ] || since=(--since "$SINCE")
if [ -n "${SARIF:-}" ]; then
    # Its findings are the same; the run below decides. 2 is no audit, and then there is no report to upload.
    status=0
    vrocm-audit gate "$CONFIG" --format sarif >"$SARIF" || status=$?
    [ "$status" -le 1 ] || rm -f "$SARIF"
fi
exec vrocm-audit gate "$CONFIG" "${since[@]}" --format github
