#!/bin/bash
# Everything that has to hold: format, lints, tests on the real libraries and the real loader, a short run of the fuzzer.
#   scripts/test.sh
# AMD's libraries are unpacked into .corpus first (scripts/corpus.sh). A package that Debian no longer has is named, and so is what was not tested without it.
set -euo pipefail
cd "$(dirname "$0")/.."
export VROCM_CORPUS=${VROCM_CORPUS:-$PWD/.corpus}

# One run builds each program once; what a next build could reuse would double the place it takes.
export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}

step() { printf '\n== %s\n' "$*"; }

# Packages and libraries 1.5 GB, debug and release builds 2.5 GB, the fuzzer 1 GB.
free=$(df --output=avail -k . | tail -1)
if [ "$free" -lt $((6 * 1024 * 1024)) ]; then
    echo "$((free / 1024)) MB are free under $PWD, and this run takes about 5 GB: make room first, or the compiler stops with a message of its own" >&2
    exit 1
fi

step "the real libraries"
# Where a folder with all of them is given, all of them are demanded.
scripts/corpus.sh --require "$([ -n "${VROCM_DEBS:-}" ] && echo all || echo stable)"

step "format and lints"
cargo fmt --all --check
cargo clippy --workspace --all-targets --locked -- -D warnings
if command -v shellcheck >/dev/null; then
    git ls-files -z '*.sh' .ci/run | xargs -0 shellcheck -S warning
else
    echo "not checked: shell scripts (shellcheck is not installed)"
fi

step "mutants that survive are mutants that there are"
scripts/mutate-audit.py --check

step "programs"
cargo build --release --locked

step "the Debian package"
if cargo deb --version >/dev/null 2>&1; then
    package=$(scripts/deb.sh | tail -1)
    unpacked=$(mktemp -d)
    dpkg-deb -x "$package" "$unpacked"
    "$unpacked/usr/bin/vrocm-audit" coverage --shim target/release/libvrocm.so --accept manifests/accepted.json >/dev/null
    rm -r "$unpacked"
    if command -v lintian >/dev/null; then
        lintian --tag-display-limit 0 --fail-on error,warning "$package"
    else
        echo "not checked: what Debian's policy says of the package (lintian is not installed)"
    fi
else
    echo "not packed: cargo-deb is missing (cargo install --locked cargo-deb)"
fi

step "tests"
cargo test --workspace --locked

step "fuzzing, 30 seconds"
if cargo +nightly --version >/dev/null 2>&1 && cargo fuzz --version >/dev/null 2>&1; then
    scripts/fuzz.sh 30
else
    echo "not fuzzed: a nightly compiler or cargo-fuzz is missing (scripts/fuzz.sh says how to get them); fixtures/fuzz was replayed by the tests"
fi
