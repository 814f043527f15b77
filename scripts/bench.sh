#!/bin/bash
# Times our commands beside what people use for the same jobs, as whole processes, all in one run, and prints the table in Markdown.
#   scripts/bench.sh [ROUNDS] >docs/measurements/DATE/benchmark.md
# 31 rounds unless told; the commands of a job run in turn, so that a drift of the machine hits all of them.
# Needs the real libraries (scripts/corpus.sh) and whatever of the other tools is installed; what is missing is named in the table.
# docs/measurements/ keeps the tables with machine and date.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-31}
cargo build --release --quiet --locked

. scripts/libraries.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
names=$folder/names
grep -o '"name": "[^"]*"' manifests/interposed-reference.json | cut -d'"' -f4 | sort >"$names"
SHIM=$folder/libshim.so
xargs fixtures/cases/common/build-shim.sh "$SHIM" <"$names"
# auditwheel reads wheels only: the shim in a wheel of its own.
WHEEL=$folder/shim-1.0-py3-none-linux_x86_64.whl
python3 - "$SHIM" "$WHEEL" <<'PY'
import sys, zipfile
with zipfile.ZipFile(sys.argv[2], "w") as wheel:
    wheel.write(sys.argv[1], "shim/libshim.so")
    wheel.writestr("shim-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: shim\nVersion: 1.0\n")
    wheel.writestr("shim-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n")
    wheel.writestr("shim-1.0.dist-info/RECORD", "")
PY
scripts/hundred-objects.sh "$folder/hundred"
export HIP HSA SHIM WHEEL HUNDRED=$folder/hundred/lib/program NAMES=$names AUDIT=$PWD/target/release/vrocm-audit SCAN=$PWD/target/release/gfx-scan

python3 - "$rounds" <<'PY'
import datetime, os, platform, shutil, statistics, subprocess, sys, time

rounds = int(sys.argv[1])
jobs = [
    ("floor: a process that does nothing", [("true", "/bin/true")]),
    ("coverage of HIP 7.2.4 against a list of 26 names", [
        ("vrocm-audit coverage", "$AUDIT coverage $HIP --interposed $NAMES"),
        ("scanelf | comm (names only, no classes)", "scanelf -qF %s -s %d% $HIP | tr , '\\n' | sort | comm -23 - $NAMES"),
        ("eu-readelf | comm (no classes)", "eu-readelf --symbols=.dynsym $HIP | awk '$4==\"FUNC\"{print $8}' | sort | comm -23 - $NAMES"),
        ("nm -D | comm (no classes)", "nm -D --defined-only $HIP | awk '{print $3}' | sort | comm -23 - $NAMES"),
        ("readelf | comm (no classes)", "readelf -W --dyn-syms $HIP | awk '$4==\"FUNC\"{print $8}' | sort | comm -23 - $NAMES"),
    ]),
    ("linkage of a shim", [
        ("vrocm-audit linkage, all rules", "$AUDIT linkage $SHIM"),
        ("eu-readelf -d -V", "eu-readelf -d -V $SHIM"),
        ("linux-abi-scan (version floor only)", "linux-abi-scan $SHIM"),
        ("auditwheel show (version floor only)", "auditwheel show $WHEEL"),
        ("objdump -T | grep (version floor only)", "objdump -T $SHIM | grep -o 'GLIBC_[0-9.]*' | sort -uV"),
    ]),
    ("linkage of HIP 7.2.4", [
        ("vrocm-audit linkage, all rules", "$AUDIT linkage $HIP"),
        ("eu-readelf -d -V", "eu-readelf -d -V $HIP"),
        ("readelf -d -V", "readelf -W -d -V $HIP"),
    ]),
    ("targets of ROCr 7.2.4 (39 are registered)", [
        ("gfx-scan: 39 right, 0 wrong", "$SCAN $HSA"),
        ("gfx-scan --target gfx1250", "$SCAN $HSA --target gfx1250"),
        ("grep: 39 right, 18 wrong", "LC_ALL=C grep -aoE 'gfx[0-9a-f]+' $HSA | sort -u"),
        ("ripgrep: 39 right, 6 wrong", "rg -a -o 'gfx[0-9a-f]{3,}\\b' $HSA | sort -u"),
        ("strings | grep", "strings $HSA | grep -oE 'gfx[0-9a-f]+' | sort -u"),
    ]),
    ("what a program of a hundred libraries loads", [
        ("vrocm-audit bindings (and what its references bind to)", "$AUDIT bindings $HUNDRED"),
        ("ldd", "ldd $HUNDRED"),
        ("lddtree", "lddtree $HUNDRED"),
        ("libtree", "libtree -vvv $HUNDRED"),
    ]),
    ("machine code of HIP 7.2.4, a million instructions", [
        ("vrocm-audit evidence", "$AUDIT evidence $HIP"),
        ("objdump -d (decodes only)", "objdump -d $HIP"),
    ]),
    ("targets of HIP 7.2.4", [
        ("gfx-scan", "$SCAN $HIP"),
        ("grep", "LC_ALL=C grep -aoE 'gfx[0-9a-f]+' $HIP | sort -u"),
        ("ripgrep", "rg -a -o 'gfx[0-9a-f]{3,}\\b' $HIP | sort -u"),
    ]),
]
env = os.environ
sink = open(os.devnull, "w")

def tool(command):
    words = command.split()
    word = next(w for w in words if "=" not in w)
    return os.path.expandvars(word)

measured = os.path.join(os.path.dirname(env["NAMES"]), "time")

def words_of(command):
    """A command without a pipe is started without a shell, which would cost more than the command."""
    if any(sign in command for sign in "|&'"):
        return ["/bin/sh", "-c", command]
    words = [os.path.expandvars(word) for word in command.split()]
    return [shutil.which(words[0]) or words[0], *words[1:]]

def measure(command):
    words = words_of(command)
    began = time.perf_counter()
    pid = os.posix_spawn(words[0], words, env, file_actions=[(os.POSIX_SPAWN_DUP2, sink.fileno(), 1), (os.POSIX_SPAWN_DUP2, sink.fileno(), 2)])
    _, status = os.waitpid(pid, 0)
    took = time.perf_counter() - began
    # 1 is a verdict (findings, nothing matched); anything else did not do the job, and its time means nothing.
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        sys.exit(f"bench: {command}: exit status {os.waitstatus_to_exitcode(status)}")
    return took

def memory(command):
    if not os.path.exists("/usr/bin/time"):
        return None
    subprocess.run(["/usr/bin/time", "-f", "%M", "-o", measured, *words_of(command)], stdout=sink, stderr=sink, env=env)
    return int(open(measured).read().split()[-1])

cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
print(f"{datetime.date.today()}, {os.cpu_count()} x {cpu}, {platform.system()} {platform.release().split('-')[0]}; {rounds} rounds, page cache warm;")
print("wall time of the whole process, peak memory of the largest process of the command.\n")
for title, commands in jobs:
    here = [(name, command) for name, command in commands if shutil.which(tool(command))]
    absent = [name for name, command in commands if (name, command) not in here]
    times = {name: [] for name, _ in here}
    for name, command in here:
        measure(command)
    for _ in range(rounds):
        for name, command in here:
            times[name].append(measure(command))
    ours = statistics.median(times[here[0][0]])
    print(f"**{title}**\n\n| command | median ms | min ms | times ours | peak KiB |\n|---|---|---|---|---|")
    for name, command in here:
        median = statistics.median(times[name])
        print(f"| {name} | {median*1e3:.2f} | {min(times[name])*1e3:.2f} | {median/ours:.1f} | {memory(command) or ''} |")
    print(f"\nnot installed here: {', '.join(absent)}\n" if absent else "")
PY
