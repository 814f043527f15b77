#!/usr/bin/env python3
"""Changes the auditor's code in one place at a time, and demands that a test notices.

    scripts/mutate-audit.py [--sample N --seed S] [--seconds T] [--keep] [--named FILE] [MODULE...]

MODULE is a folder or file of audit/src: coverage linkage gfx elf unless told. audit/mutants puts all changes into one copy of the sources, each behind a switch, so that
one build has all of them; those that do not compile are left out and counted. Each test runs once to see which switches it meets and how long it takes. Then each
mutant has only the tests that meet it, the quick ones and those that noticed its neighbours first, until one fails; a test that takes far longer than it should has noticed too.
--seconds limits the tests of one mutant: what nobody noticed by then is a survivor that a run without the limit may still catch. --keep takes up where a stopped run ended. What
survives stands in target/audit-mutants/survivors.txt, one name a line; --named tries only the names of such a file, once there are tests for them.

Survivors are held against audit/mutants/survivors.json: one that is not there is a hole in the tests, and an entry that does not survive is out of date. Exit
status 1 for either. A test that fails without a mutant is left out and named. The table is that of docs/measurements/audit-mutants.md.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLACE = ROOT / "target/audit-mutants"
COPY, STATE, BUILD = PLACE / "source", PLACE / "state", PLACE / "build"
TRIAGE = ROOT / "audit/mutants/survivors.json"
MODULES = ["coverage", "linkage", "gfx", "elf"]
# Nothing of them runs the audits: the text of the sources, of pages and lists.
NOT_ABOUT_IT = {"tidy"}
# Tests of the workspace that read ELF files through the auditor's library.
ELSEWHERE = {"elf_bounds", "elf_lies", "elf_oracle"}
# A mutant that asks for more fails.
MEMORY = 6 << 30


def environment():
    return dict(os.environ, CARGO_INCREMENTAL="0", CARGO_PROFILE_DEV_PANIC="unwind", CARGO_TARGET_DIR=str(BUILD))


def tests_to_build():
    """All test programs of the auditor, and those of the workspace's tests that read ELF files."""
    ours = [path.stem if path.is_file() else path.name for path in (ROOT / "audit/tests").iterdir() if path.suffix == ".rs" or (path / "main.rs").exists()]
    return [word for name in sorted({*ours, *ELSEWHERE} - NOT_ABOUT_IT) for word in ("--test", name)]


def copy_sources(modules):
    """Everything but the modules that are changed, which the generator writes."""
    named = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True).stdout
    keep = {COPY / "audit/src/lib.rs", COPY / "audit/src/mutant.rs"}
    for name in filter(None, named.decode().split("\0")):
        old, new = ROOT / name, COPY / name
        if not os.path.lexists(old) or new in keep or any(old.is_relative_to(ROOT / "audit/src" / module) for module in modules):
            keep.add(new)
            continue
        keep.add(new)
        new.parent.mkdir(parents=True, exist_ok=True)
        if old.is_symlink():
            new.unlink(missing_ok=True)
            new.symlink_to(os.readlink(old))
        elif not new.exists() or new.read_bytes() != old.read_bytes():
            shutil.copy(old, new)
    for path in [path for path in COPY.rglob("*") if (path.is_file() or path.is_symlink()) and path not in keep]:
        path.unlink()


def generate(modules):
    (COPY / "audit/src").mkdir(parents=True, exist_ok=True)
    for module in modules:
        for folder in [ROOT / "audit/src" / module, *(ROOT / "audit/src" / module).rglob("*")]:
            if folder.is_dir():
                (COPY / folder.relative_to(ROOT)).mkdir(parents=True, exist_ok=True)
    command = ["cargo", "run", "-q", "--locked", "--manifest-path", ROOT / "audit/mutants/Cargo.toml", "--target-dir", PLACE / "generator", "--"]
    subprocess.run([*command, ROOT / "audit/src", COPY / "audit/src", STATE, *modules], cwd=ROOT, check=True)


def refused():
    """Numbers of the mutants to which the compiler's errors point."""
    run = subprocess.run(["cargo", "check", "-q", "--locked", "-p", "vrocm-audit", "--lib", "--message-format=json"], cwd=COPY, env=environment(), capture_output=True, text=True)
    if run.returncode == 0:
        return set()
    places = collections.defaultdict(list)
    for name, start, end, numbers in json.load(open(STATE / "places.json")):
        places[f"audit/src/{name}"].append((end - start, start, end, numbers))
    found, lost = set(), []
    for line in run.stdout.splitlines():
        message = json.loads(line).get("message") or {}
        if message.get("level") != "error" or not message["spans"]:
            continue
        spans = sorted(message["spans"], key=lambda span: not span["is_primary"])
        for span in spans:
            around = [place for place in places[span["file_name"]] if place[1] <= span["byte_start"] and span["byte_end"] <= place[2]]
            if around:
                found.update(min(around)[3])
                break
        else:
            lost.append(message["rendered"])
    if not found:
        sys.exit("no mutant explains why this does not compile:\n" + ("\n".join(lost[:5]) or run.stderr))
    return found


def build(modules):
    """The copy with every mutant that compiles; returns the test programs."""
    STATE.mkdir(parents=True, exist_ok=True)
    (STATE / "unviable.json").write_text("[]")
    copy_sources(modules)
    unviable = set()
    while True:
        generate(modules)
        more = refused()
        if not more:
            break
        unviable |= more
        print(f"{len(unviable)} do not compile", file=sys.stderr)
        (STATE / "unviable.json").write_text(json.dumps(sorted(unviable)))
    command = ["cargo", "test", "-q", "--locked", "-p", "vrocm-audit", "-p", "vrocm-tests", "--lib", "--bins", *tests_to_build(), "--no-run", "--message-format=json"]
    out = subprocess.run(command, cwd=COPY, env=environment(), check=True, stdout=subprocess.PIPE, text=True).stdout
    return found_in(out)


def found_in(messages):
    """Test programs, each with the folder it runs in."""
    made = [json.loads(line) for line in messages.splitlines() if line.startswith("{")]
    tests = [line for line in made if line.get("executable") and line["profile"]["test"] and line["target"]["name"] not in NOT_ABOUT_IT]
    return {line["target"]["name"]: (line["executable"], str(pathlib.Path(line["manifest_path"]).parent)) for line in tests}


def remembering():
    """Programs called cc, gcc and g++ that keep what they made."""
    tools, made = PLACE / "tools", PLACE / "compiled"
    tools.mkdir(parents=True, exist_ok=True)
    made.mkdir(parents=True, exist_ok=True)
    for name in ("cc", "gcc", "g++"):
        (tools / name).unlink(missing_ok=True)
        (tools / name).symlink_to(ROOT / "audit/mutants/cc.py")
    return {"PATH": f"{tools}:{os.environ['PATH']}", "VROCM_COMPILED": str(made)}


def limit(seconds):
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(program, test, seconds):
    """None if the test passes, else why not. The limit is in seconds of work, so that a busy machine is taken for no endless loop; it may wait a good deal longer."""
    program, folder = program
    made = dict(os.environ, **remembering(), CARGO_MANIFEST_DIR=folder, RUST_BACKTRACE="0")
    child = subprocess.Popen([program, "--exact", test, "-q"], cwd=folder, env=made, preexec_fn=lambda: limit(seconds), start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        status = child.wait(60 + 20 * seconds)
        return None if status == 0 else "no end" if status in (-signal.SIGXCPU, -signal.SIGKILL) else "fails"
    except subprocess.TimeoutExpired:
        return "no end"
    finally:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()


def meet(programs):
    """For each test how long it takes and which switches it meets."""
    tests, failing = {}, []
    for suite, program in sorted(programs.items()):
        listed = subprocess.run([program[0], "--list", "--format", "terse"], cwd=program[1], check=True, capture_output=True, text=True).stdout
        for test in [line.removesuffix(": test") for line in listed.splitlines() if line.endswith(": test")]:
            (STATE / "active").write_text("note")
            (STATE / "met").unlink(missing_ok=True)
            started = time.monotonic()
            if run(program, test, 900):
                failing.append(f"{suite} {test}")
                continue
            met = {int(line) for line in (STATE / "met").read_text().split()} if (STATE / "met").exists() else set()
            tests[f"{suite} {test}"] = {"seconds": round(time.monotonic() - started, 3), "met": sorted(met)}
            print(f"{suite} {test}: {tests[f'{suite} {test}']['seconds']} s, {len(met)} switches", file=sys.stderr, flush=True)
    (STATE / "active").write_text("0")
    return tests, failing


def attempt(mutant, tests, programs, killers, seconds):
    """Which test notices a mutant, and how; None if none does within the seconds given."""
    (STATE / "active").write_text(str(mutant["number"]))
    near = [killers[key] for key in (mutant["site"], (mutant["file"], mutant["within"]), mutant["file"])]
    rank = {test: -place for order in reversed(near) for place, test in enumerate(order)}
    # A test of the suite that is named by the module is likelier to notice than one that only passes by.
    module = mutant["file"].split("/")[0]
    likely = {test: tests[test]["seconds"] * (1 if module in test else 4) for test in tests}
    meeting = sorted(tests, key=lambda test: rank[test] + tests[test]["seconds"] * 0.2 if test in rank else likely[test])
    left = seconds
    for test in meeting:
        if left is not None and tests[test]["seconds"] > left:
            continue
        suite, name = test.split(" ", 1)
        how = run(programs[suite], name, 5 + int(3 * tests[test]["seconds"]))
        if how:
            for key in (mutant["site"], (mutant["file"], mutant["within"]), mutant["file"]):
                killers[key] = [old for old in killers[key] if old != test][-4:] + [test]
            return test, how
        left = None if left is None else left - tests[test]["seconds"]
    return None


def names(mutants):
    """A name for each that does not change when lines move: file, function, change, and which of several alike."""
    seen = collections.Counter()
    for mutant in mutants:
        name = f"{mutant['file']} {mutant['within']}: {mutant['change']}"
        seen[name] += 1
        mutant["name"] = name + (f" (#{seen[name]})" if seen[name] > 1 else "")


def table(mutants, unviable, results):
    """Per file: how many mutants, what became of those that were tried."""
    rows = collections.defaultdict(collections.Counter)
    for mutant in mutants:
        number = mutant["number"]
        what = ["unviable"] if number in unviable else ["viable"] + ([results[number]["how"]] if number in results else [])
        for row in (mutant["file"], "all"):
            rows[row].update(what)
    lines = ["| file | mutants | tried | a test fails | no end | survive | do not compile |", "|---|---:|---:|---:|---:|---:|---:|"]
    for file in sorted(set(rows) - {"all"}) + ["all"]:
        row = rows[file]
        tried = row["fails"] + row["no end"] + row["survives"]
        lines.append(f"| {file} | {row['viable']} | {tried} | {row['fails']} | {row['no end']} | {row['survives']} | {row['unviable']} |")
    return "\n".join(lines)


def verdict(mutants, results, whole):
    """Survivors nobody has looked at, and entries that are out of date."""
    triage = json.loads(TRIAGE.read_text())["survivors"]
    judged = {entry["mutant"] for entry in triage}
    by_name = {mutant["name"]: results[mutant["number"]]["how"] for mutant in mutants if mutant["number"] in results}
    wrong = [f"survives, and nobody has said why that does not matter: {name}" for name, how in by_name.items() if how == "survives" and name not in judged]
    wrong += [f"survivors.json has it, yet a test notices it: {name}" for name in sorted(judged) if by_name.get(name, "survives") != "survives"]
    wrong += [f"survivors.json gives no reason: {entry['mutant']}" for entry in triage if not entry.get("reason")]
    known = {mutant["name"] for mutant in mutants}
    wrong += [f"survivors.json has it, and there is no such mutant: {name}" for name in sorted(judged - known) if whole]
    return wrong


def check():
    """Entries that name nothing or give no reason; the sources are read and nothing is built of them."""
    global COPY, STATE
    COPY, STATE = PLACE / "check/source", PLACE / "check/state"
    STATE.mkdir(parents=True, exist_ok=True)
    generate(MODULES)
    mutants = json.loads((STATE / "mutants.json").read_text())["mutants"]
    names(mutants)
    wrong = verdict(mutants, {}, True)
    print("\n".join(wrong) or f"{len(mutants)} mutants, {len(json.loads(TRIAGE.read_text())['survivors'])} of them in survivors.json")
    return bool(wrong)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--survivors", action="store_true", help="with --keep: only those that survived before, again")
    parser.add_argument("--named", type=pathlib.Path, help="try only the mutants whose names this file has, one a line")
    parser.add_argument("--check", action="store_true", help="run nothing: every entry of survivors.json names a mutant that there is")
    parser.add_argument("modules", nargs="*", metavar="MODULE")
    options = parser.parse_args()
    modules = options.modules or MODULES
    if options.check:
        sys.exit(check())
    COPY.mkdir(parents=True, exist_ok=True)
    STATE.mkdir(parents=True, exist_ok=True)
    ready, record = STATE / "ready.json", STATE / "results.jsonl"
    if not (options.keep and ready.exists()):
        programs = build(modules)
        tests, failing = meet(programs)
        ready.write_text(json.dumps({"programs": programs, "tests": tests, "failing": failing}))
        record.write_text("")
    kept = json.loads(ready.read_text())
    programs, tests = kept["programs"], kept["tests"]
    for test in kept["failing"]:
        print(f"fails without a mutant, left out: {test}", file=sys.stderr)
    data = json.loads((STATE / "mutants.json").read_text())
    mutants, unviable = data["mutants"], set(json.loads((STATE / "unviable.json").read_text()))
    names(mutants)
    meeting = collections.defaultdict(list)
    for test, facts in tests.items():
        for site in facts["met"]:
            meeting[site].append(test)
    results = {}
    for line in record.read_text().splitlines():
        result = json.loads(line)
        results[result["number"]] = result
    place = {mutant["number"]: next((place for place, module in enumerate(modules) if pathlib.PurePath(mutant["file"]).is_relative_to(module)), None) for mutant in mutants}
    chosen = [mutant for mutant in mutants if mutant["number"] not in unviable and place[mutant["number"]] is not None]
    if options.named:
        wanted = set(options.named.read_text().splitlines())
        chosen = [mutant for mutant in chosen if mutant["name"] in wanted]
    if options.sample:
        chosen = random.Random(options.seed).sample(chosen, min(options.sample, len(chosen)))
    # In the order asked for.
    chosen.sort(key=lambda mutant: place[mutant["number"]])
    again = {number for number, result in results.items() if result["how"] == "survives"} if options.survivors else set()
    killers = collections.defaultdict(list)
    with record.open("a") as written:
        for mutant in chosen:
            number = mutant["number"]
            if (number in results and number not in again) or (options.survivors and number not in again):
                continue
            found = attempt(mutant, {test: tests[test] for test in meeting[mutant["site"]]}, programs, killers, options.seconds)
            results[number] = {"number": number, "how": found[1] if found else "survives", "test": found[0] if found else None, "met": len(meeting[mutant["site"]])}
            written.write(json.dumps(results[number]) + "\n")
            written.flush()
            if not found:
                print(f"SURVIVES ({results[number]['met']} tests meet it) {mutant['file']}:{mutant['line']} {mutant['within']}: {mutant['change']}", file=sys.stderr, flush=True)
    (STATE / "active").write_text("0")
    survivors = [mutant["name"] for mutant in mutants if results.get(mutant["number"], {}).get("how") == "survives"]
    (PLACE / "survivors.txt").write_text("".join(f"{name}\n" for name in survivors))
    print(table(mutants, unviable, results))
    for name in data["constant"]:
        print(f"not tried, the compiler evaluates it: {name}")
    wrong = verdict(mutants, results, not options.modules)
    print("\n".join(wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
