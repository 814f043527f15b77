#!/usr/bin/env python3
"""Holds `vrocm-audit consumers FOLDER` against a plain reading of the same files: processor time, time, and how evenly the threads share the work.

    scripts/consumers-speed.py [FOLDER [PROGRAM]]

The plain reading is `cat` over the files that consumers reads to their end (ELF files and Python sources) and `head -c 300` over all others, each in as
many processes as there are processors.
Writes what came of it between the marks of docs/measurements/consumers.md. The second of two runs counts, so that the cache is warm.
"""

import datetime
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/measurements/consumers.md"
SHIM = ROOT / "manifests/interposed.json"


def read_whole(folder):
    """Files that are read to their end, how many bytes that is, and all other files."""
    files, size, others = [], 0, []
    for where, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(where, name)
            if os.path.islink(path) or not os.path.isfile(path):
                continue
            with open(path, "rb") as file:
                if path.endswith(".py") or file.read(4) == b"\x7fELF":
                    files.append(path)
                    size += os.path.getsize(path)
                else:
                    others.append(path)
    return files, size, others


def threads(pid, seen):
    """Notes the processor time that each thread has taken so far, in ticks."""
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            fields = pathlib.Path(f"/proc/{pid}/task/{task}/stat").read_text().rsplit(")", 1)[1].split()
            seen[task] = int(fields[11]) + int(fields[12])
    except (FileNotFoundError, ProcessLookupError):
        pass


def run(command):
    """Time, processor time, and that of each thread, of one run."""
    before, seen = resource.getrusage(resource.RUSAGE_CHILDREN), {}
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    os.set_blocking(process.stdout.fileno(), False)
    text = b""
    while process.poll() is None:
        threads(process.pid, seen)
        text += process.stdout.read() or b""
        time.sleep(0.01)
    text += process.stdout.read() or b""
    took = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return took, processor, sorted(seen.values(), reverse=True), text.decode()


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "/usr"
    program = sys.argv[2] if len(sys.argv) > 2 else str(ROOT / "target/release/vrocm-audit")
    files, size, others = read_whole(folder)
    ticks, cores = os.sysconf("SC_CLK_TCK"), os.cpu_count()
    with tempfile.NamedTemporaryFile() as names, tempfile.NamedTemporaryFile() as more:
        for file, paths in ((names, files), (more, others)):
            file.write(b"\0".join(os.fsencode(path) for path in paths))
            file.flush()
        whole = f"xargs -0 -a {names.name} -P{cores} -n64 cat >/dev/null"
        plain = ["sh", "-c", f"{whole}; xargs -0 -a {more.name} -P{cores} -n512 head -qc 300 >/dev/null"]
        audit = [program, "consumers", folder, "--interposed", str(SHIM)]
        for _ in range(2):
            reading, auditing = run(plain), run(audit)
    said = [line for line in auditing[3].splitlines() if "ELF file" in line][-1]
    shares = ", ".join(f"{share / ticks:.2f} s" for share in auditing[2][:cores])
    lines = [
        f"{datetime.date.today()}, {folder}, {cores} processors: {len(files)} files to read whole, {size / 1e6:.0f} MB, and 300 bytes of {len(others)}",
        said,
        f"plain:     {reading[0]:.1f} s, {reading[1]:.2f} s of processor time",
        f"consumers: {auditing[0]:.1f} s, {auditing[1]:.2f} s of processor time; by thread: {shares}",
        f"ratio:     {auditing[0] / reading[0]:.2f} in time, {auditing[1] / reading[1]:.2f} in processor time",
    ]
    print("\n".join(lines))
    begin, end = "<!-- figures -->", "<!-- end of figures -->"
    page = PAGE.read_text()
    head, tail = page.split(begin)[0], page.split(end)[1]
    PAGE.write_text(head + begin + "\n```text\n" + "\n".join(lines) + "\n```\n" + end + tail)


main()
