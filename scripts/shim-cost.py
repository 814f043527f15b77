#!/usr/bin/env python3
"""What libvrocm.so costs: nanoseconds added to a pair of hipMalloc and hipFree, and to the start of /bin/true.

    scripts/shim-cost.py [--shim LIB]... [--runs N]     prints a table; builds nothing but the probe (cargo test -p vrocm-tests --no-run first)

Over the stand-in runtime, whose own pair is some tens of ns, and over the real 5.2.3 and the mock HSA; below them, what two record locks cost. Runs with and without a shim take turns; of each
kind the least counts, as others on the machine only add. Threads and processes share what processors there are: `added` is processor time per pair.
"""

import argparse
import glob
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def newest(pattern):
    found = sorted(glob.glob(str(ROOT / pattern)), key=os.path.getmtime)
    if not found:
        sys.exit(f"{pattern}: cargo test -p vrocm-tests --no-run makes it")
    return found[-1]


def run(program, environment, arguments, processes):
    started = [
        subprocess.Popen([program, *map(str, arguments)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(processes)
    ]
    ends = [process.communicate() for process in started]
    for process, (_, error) in zip(started, ends):
        if process.returncode:
            sys.exit(f"{program} {arguments}: {process.returncode}: {error.decode()}")
    return max(float(out) for out, _ in ends)


def environment(shim, folder, path):
    made = dict(os.environ, LD_LIBRARY_PATH=path, VROCM_DEVICE_MEMORY_LIMIT="512", VROCM_LEDGER_PATH=f"{folder}/ledger")
    if shim:
        made["LD_PRELOAD"] = shim
    return made


def pairs(program, shims, runs):
    mock = newest("target/*/build/vrocm-tests-*/out/mock/libhsa-runtime64.so.1")
    real = newest("target/*/build/vrocm-tests-*/out/runtimes/5.2.3-????????????????")
    alone = newest("target/*/build/vrocm-tests-*/out/alone/libamdhip64.so.7")
    kinds = [("stand-in, HIP layer", alone, "", 200_000, 64), ("5.2.3 over the mock, both layers", f"{real}/libamdhip64.so.5", f"{pathlib.Path(mock).parent}:{real}", 8_000, 65536)]
    for name, library, path, count, size in kinds:
        for threads, processes in [(1, 1), (4, 1), (1, 4), (1, 16)]:
            least = {}
            for _ in range(runs):
                for shim in [None, *shims]:
                    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
                        each = count // (threads * processes)
                        took = run(program, environment(shim, folder, path), [library, threads, each, size], processes)
                    least[shim] = min(took, least.get(shim, took))
            for shim in shims:
                print(f"| {name} | {threads} | {processes} | {least[None]:.0f} | {least[shim]:.0f} | {least[shim] - least[None]:.0f} |", flush=True)


def locks(program, folder, runs):
    """What a record lock for each call costs by itself, as the published shim takes one: no runtime, no ledger, no quota."""
    library = f"{folder}/locks.so"
    subprocess.run(["cc", "-D_GNU_SOURCE", "-O2", "-shared", "-fPIC", "-o", library, ROOT / "tests/probes/locks.c"], check=True)
    for processes in [1, 4, 16]:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
            took = min(run(program, environment(None, place, ""), [library, 1, 100_000 // processes, 64], processes) for _ in range(runs))
        print(f"| two record locks and nothing else | 1 | {processes} | | {took:.0f} | {took:.0f} |", flush=True)


def start(shims, runs):
    times = {shim: [] for shim in [None, *shims]}
    for _ in range(runs * 60):
        for shim, taken in times.items():
            made = {"LD_PRELOAD": shim} if shim else {}
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            began = time.monotonic()
            subprocess.run(["/bin/true"], env=made, check=True)
            ended = time.monotonic()
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            taken.append((ended - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    wall = {shim: statistics.median(both[0] for both in taken) * 1e6 for shim, taken in times.items()}
    for shim in shims:
        print(f"\n/bin/true: {wall[None]:.0f} µs without, {wall[shim]:.0f} µs with {pathlib.Path(shim).name}: {wall[shim] - wall[None]:+.0f} µs (medians)")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shim", action="append", help="default: target/release/libvrocm.so")
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    shims = options.shim or [str(ROOT / "target/release/libvrocm.so")]
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/cost"
        subprocess.run(["cc", "-D_GNU_SOURCE", "-O2", "-o", program, ROOT / "tests/probes/cost.c", "-ldl", "-pthread"], check=True)
        print("| runtime | threads | processes | ns a pair without | with | added |\n|---|---|---|---|---|---|")
        pairs(program, shims, options.runs)
        locks(program, folder, options.runs)
        start(shims, options.runs)


main()
