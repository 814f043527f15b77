#!/usr/bin/env python3
"""Leaves the body of one row of the shim's table out at a time, and demands that a named test fails.

    scripts/mutate-shim.py [--suites LIST] [NAME...]     all rows unless told; prints a table, exits 1 if a row's absence goes unnoticed

One library is built for it, with `--cfg vrocm_mutants`: each entry point asks first whether it is the one that is left out, and then only calls the runtime's
own function, counting the call. A name written into a copy of that file makes the mutant. The shipped library has none of this. The suites run in the order
given, the quick ones first, until one fails; SUITE:PART runs the tests whose names have that part. Of the paths over the real runtimes only those that call
the row are tried, so that all rows take some minutes. Guards of the ledger are the list in `shim/core/mutants/`.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUITES = ["shim_alone", "shim_hsa", "shim_cards", "shim_says", "shim_lookup", "shim_paths"]
MARK = b"left out:"


def build():
    flags = os.environ.get("RUSTFLAGS", "") + " --cfg vrocm_mutants"
    command = ["cargo", "build", "--release", "-q", "-p", "vrocm-preload", "--target-dir", str(ROOT / "target/mutants")]
    subprocess.run(command, cwd=ROOT, env=dict(os.environ, RUSTFLAGS=flags), check=True)
    return (ROOT / "target/mutants/release/libvrocm.so").read_bytes()


def programs(suites):
    command = ["cargo", "test", "-p", "vrocm-tests", "--no-run", "--message-format=json", "-q"]
    out = subprocess.run(command + [word for suite in suites for word in ("--test", suite)], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    made = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return {line["target"]["name"]: line["executable"] for line in made if line.get("executable") and line["target"]["name"] in suites}


def called():
    """The entry points that the paths of shim_paths call."""
    tables = [ROOT / "tests/data" / name for name in ("paths.tsv", "doors.tsv")]
    rows = [line.split("\t")[1:] for table in tables for line in table.read_text().splitlines() if not line.startswith("#")]
    return {command.split(",")[0] for row in rows for cell in row for command in cell.split()}


def failure(tests, suite, library, row=None):
    """The first test that fails under a library; a suite that takes too long fails as well. Of shim_paths only the paths that call the row."""
    made = dict(os.environ, VROCM_SHIM_UNDER_TEST=str(library), CARGO_MANIFEST_DIR=str(ROOT / "tests"))
    skipped = []
    if row and suite.startswith("shim_paths"):
        if row in called():
            made["VROCM_ONLY"] = row
        else:
            skipped = [word for part in ("without_room", "with_room", "a_request_that") for word in ("--skip", part)]
    try:
        name, _, part = suite.partition(":")
        run = subprocess.run([tests[name], "--test-threads", "2", *part.split(), *skipped], cwd=ROOT / "tests", env=made, capture_output=True, text=True, timeout=900)
    except subprocess.TimeoutExpired:
        return "(no end)"
    failed = re.search(r"^test (\S+) \.\.\. FAILED", run.stdout, re.M)
    return None if run.returncode == 0 else failed[1] if failed else f"(exit status {run.returncode})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--suites", default=",".join(SUITES))
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    rows = [row["name"] for row in json.load(open(ROOT / "manifests/interposed.json"))["exports"]]
    rows = [row for row in rows if row not in ("dlsym", "dlvsym")]
    unknown = set(options.names) - set(rows)
    if unknown:
        sys.exit(f"no row: {', '.join(sorted(unknown))}")
    image, suites = build(), options.suites.split(",")
    if image.count(MARK) != 1:
        sys.exit(f"the library has the mark {image.count(MARK)} times")
    tests = programs(sorted({suite.partition(":")[0] for suite in suites}))
    folder = tempfile.TemporaryDirectory(dir=ROOT / "target/mutants")
    copy = pathlib.Path(folder.name) / "libvrocm.so"
    copy.write_bytes(image)
    for suite in suites:
        failed = failure(tests, suite, copy)
        if failed:
            sys.exit(f"{suite} fails without a mutant: {failed}")
    survivors = []
    print("| row left out | suite | test that fails |\n|---|---|---|", flush=True)
    for row in options.names or rows:
        at = image.index(MARK) + len(MARK)
        copy.write_bytes(image[:at] + row.encode() + b"\0" + image[at + len(row) + 1 :])
        found = next(((suite, failed) for suite in suites if (failed := failure(tests, suite, copy, row))), None)
        print(f"| {row} | {found[0]} | {found[1]} |" if found else f"| {row} | SURVIVED | |", flush=True)
        survivors += [] if found else [row]
    print(f"\n{len(survivors)} of {len(options.names or rows)} survived: {', '.join(survivors)}" if survivors else "\nnone survived")
    sys.exit(bool(survivors))


main()
