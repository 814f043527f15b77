#!/usr/bin/env python3
"""Writes docs/measurements/loader-outcomes.md and loader-outcomes.json from the results.json that measure.sh leaves beside this script.

usage: report.py OUT_DIR
"""
import json, os, re, sys
HERE = os.path.dirname(os.path.abspath(__file__))
OUT = sys.argv[1]
R = json.load(open(os.path.join(HERE, "results.json")))
G = ["g231", "g236", "g241", "g243", "g244"]
N = dict(g231="2.31", g236="2.36", g241="2.41", g243="2.43", g244="2.44", musl123="1.2.3", musl126="1.2.6")
SIG = {-11: "SIGSEGV", -7: "SIGBUS", -6: "SIGABRT"}


def dead(r):
    return r["rc"] != 0


def how(r):
    return SIG.get(r["rc"], f"rc {r['rc']}")


def state(runs, main, mode, noctor):
    """code of one root and one way of preloading"""
    t, v, c = (runs.get(f"{mode} {p}") for p in (main, "V", "C"))
    if t is None:
        t = runs.get(f"{mode} K") or runs.get(f"{mode} Z")
    if t is None:
        return None
    if dead(t):
        return "DIES " + how(t)
    real = v is not None and v["out"].startswith("direct=real")
    if not t["ctor"] and not noctor and (v is None or real):
        return "LOST+msg" if "err" in t and "ERROR" in t["err"] else "LOST silent"
    if v is not None:
        if dead(v):
            return "bound; GPU program dies " + how(v)
        if real:
            return "UNBOUND"
        if "direct=other" in v["out"]:
            return "OTHER"
    if c is not None and dead(c):
        return "CALL dies " + how(c)
    return "bound"


def one(runs, main, noctor):
    a, b = state(runs, main, "env", noctor), state(runs, main, "file", noctor)
    return a if b is None or a == b else f"{a} (LD_PRELOAD) / {b} (ld.so.preload)"


def merge(cells, names):
    groups = {}
    for n, c in zip(names, cells):
        groups.setdefault(c, []).append(N[n])
    if len(groups) == 1:
        return next(iter(groups))
    return "; ".join(f"{','.join(v)}: {k}" for k, v in groups.items())


def message(k):
    for g in reversed(G):
        for m in ("env T", "env V", "env C", "env K", "env P"):
            r = k["runs"].get(g, {}).get(m)
            if r and "err" in r and (dead(r) or "ERROR" in r["err"] or m == "env T"):
                return re.sub(r"^/(bin/true|app.): ", "", r["err"])[:150]
    for m in ("env T", "env V", "env C", "env K"):
        r = k["runs"].get("g231", {}).get(m)
        if r and "err" in r:
            return re.sub(r"^/(bin/true|app.): ", "", r["err"])[:150] + " (2.31)"
    return ""


OVER = {  # where the table alone does not decide; (severity, why)
    "execstack": ("hygiene", "every process gets an executable stack (measured); shim-lost under PR_SET_MDWE and, from 2.41, under glibc.rtld.execstack=0; dlopen of it refused from 2.41"),
    "no-gnu-stack": ("hygiene", "as execstack: a missing header means executable on x86-64"),
    "textrel": ("hygiene", "works; under PR_SET_MDWE every program stops (textrel-mdwe)"),
    "textrel-symbolic": ("hygiene", "as textrel"),
    "execstack-tunable-0": ("shim-lost", "only with this tunable, 2.41+"),
    "tls-ie-2-kib": ("latent", "preload fine; dlopen refused"),
    "tls-ie-16-kib": ("latent", "preload fine; pthread_create with a 16 KiB stack (PTHREAD_STACK_MIN) returns EINVAL in every program; dlopen refused"),
    "tls-ie-64-kib": ("latent", "pthread_create with stacks <= 64 KiB returns EINVAL"),
    "tls-ie-1-mib": ("latent", "pthread_create with stacks <= 128 KiB (up to about 1 MiB) returns EINVAL"),
    "tls-ie-64-mib": ("latent", "pthread_create with the default 8 MiB stack returns EINVAL: every threaded program breaks"),
    "tls-ie-align-64k": ("latent", "pthread_create with a 16 KiB stack aborts the program (assertion size != 0)"),
    "tls-gd-64-kib": ("latent", "as tls-ie-64-kib, since a preload's TLS is static whatever the model; musl: stops every program (NEEDED ld-linux)"),
    "tls-ie-64-b": ("hygiene", "dlopen works on glibc (surplus), not on musl"),
    "isa-v4": ("latent", "this CPU has it; on one without, see isa-unknown-bit: stops every program from 2.33 (2.36 measured), silently accepted by 2.31"),
    "need-private-lazy": ("latent", "and a later libc that keeps the name may change its meaning"),
    "dlsym225-lazy": ("latent", "before 2.34, in a process without libdl; stops under LD_BIND_NOW"),
    "dlsym-unversioned-lazy": ("latent", "before 2.34, in a process without libdl; stops under LD_BIND_NOW"),
    "need-other-unversioned": ("latent", "message in every program; when the symbol is bound 2.31 and 2.36 die with an assertion, 2.41+ bind it"),
    "hip-undefined-lazy": ("latent", "fine in a process with the runtime, the call dies elsewhere (body not reached here); musl stops every program without the runtime"),
    "needed-absolute-path": ("hygiene", "the same file under the same inode; another layout stops every program (needed-absolute-other)"),
    "runpath-fake-libc": ("hygiene", "the libc.so.6 that is loaded already wins by soname; a library that is not loaded yet would come from there"),
    "rpath-fake-libc": ("hygiene", "as runpath-fake-libc"),
    "need-future-weakboth": ("hygiene", "message on stderr of every program"),
    "audit-present": ("hygiene", "no effect in a preload, the audit library is not loaded"),
    "audit-missing": ("hygiene", "no effect in a preload"), "depaudit-missing": ("hygiene", "no effect in a preload"), "depaudit-present": ("hygiene", "no effect in a preload"),
    "auxiliary-missing": ("hygiene", "ignored without a message"),
    "auxiliary-present": ("shim-lost", "the filtee's definitions win over the shim's own"),
    "filter-present": ("shim-lost", "the filtee's definitions win over the shim's own"),
    "static-program": ("shim-lost", "no preload in a static program"),
    "load-memsz-1g": ("hygiene", "works; 1 GiB of address space (commit charge) per process"),
    "needed-libresolv": ("hygiene", "musl: stops every program"), "needed-libanl": ("hygiene", "musl: stops every program"),
    "needed-ld-linux-x86-64": ("hygiene", "musl: stops every program"), "needed-tls-get-addr": ("hygiene", "musl: stops every program"),
    "soname-of-runtime": ("stops-programs", "the program's NEEDED runtime is taken to be the shim, the real one is not loaded: GPU programs die at the first name the shim lacks; others live"),
    "sym-data": ("stops-programs", "GPU programs only: the call jumps into data"),
    "sym-abs": ("stops-programs", "GPU programs only"),
    "ver-index-unknown": ("stops-programs", "GPU programs only, 2.41+; 2.31 and 2.36 bind it"),
    "stack-control": ("-", ""), "isa-v4-cpu-without": ("-", "the tunable does not change the ISA check"), "isa-v4-cpu-without-usable": ("-", "the tunable does not change the ISA check"),
    "unknown-func-lazy": ("latent", "stops every program under LD_BIND_NOW=1 and on musl"), "name-comment": ("shim-lost", "LD_PRELOAD only; in ld.so.preload a comment is fine"),
    "hip-undefined-now": ("stops-programs", "every program without the runtime; GPU programs run"),
    "load-wx": ("shim-lost", "on 2.31, because ld -N also makes p_align 16; elsewhere it runs, writable and executable"), "load-text-writable": ("hygiene", "runs"),
    "ver-equal-hidden": ("shim-lost", "for dlsym(RTLD_DEFAULT) only, and on musl"), "ver-equal-index3-hidden": ("shim-lost", "for unversioned importers and dlsym(RTLD_DEFAULT), and on musl"),
    "ver-two": ("hygiene", "dlsym(RTLD_DEFAULT) gets the default one, not hip_4.2's"), "sym-ifunc": ("-", "does not bind on musl"),
    "sym-object": ("hygiene", "binds and is jumped into; only harmless because it is code"), "sym-notype": ("hygiene", "binds"), "sym-common": ("hygiene", "binds"), "sym-tls": ("hygiene", "calls bind, dlsym crashes the program"),
    "ver-local-index": ("hygiene", "binds all the same"), "sym-undef": ("shim-lost", "calls; dlsym(RTLD_DEFAULT) hands it out"), "pie-flag-cleared": ("hygiene", "loads: an ET_DYN with PT_INTERP and an entry point is refused only for DF_1_PIE"),
    "name-crlf": ("shim-lost", ""), "setuid": ("shim-lost", "LD_PRELOAD with a slash is dropped silently in AT_SECURE programs; /etc/ld.so.preload is honoured"),
}
PLAIN = {"control": "-", "flags": "hygiene", "needed": "hygiene", "memory": "hygiene", "file": "-", "header": "-", "symbol": "-", "node": "-", "version": "-", "undefined": "-", "filter": "hygiene"}
rows, sev = [], {}
for i, k in R.items():
    g = [one(k["runs"][n], "T", k["noctor"]) for n in G]
    m = [one(k["runs"][n], "M", k["noctor"]) for n in ("musl123", "musl126")]
    o = []
    for n in G:
        r = k["runs"][n].get("O")
        if r is not None:
            o.append("ok" if "dlopen=ok" in r["out"] else "dies" if dead(r) else "refused")
    gl, mu = merge(g, G), merge(m, ["musl123", "musl126"]) if any(m) else "-"
    allg = " ".join(x for x in g if x)
    if i in OVER:
        s, why = OVER[i]
    elif "DIES" in allg:
        which = [N[n] for n, x in zip(G, g) if x and x.startswith("DIES")]
        s, why = "stops-programs", "" if len(which) == 5 else "on " + ", ".join(which)
    elif "GPU program dies" in allg:
        s, why = "stops-programs", "GPU programs only"
    elif "LOST" in allg or "UNBOUND" in allg or "OTHER" in allg:
        which = [N[n] for n, x in zip(G, g) if x and ("LOST" in x or "UNBOUND" in x or "OTHER" in x)]
        s, why = "shim-lost", "" if len(which) == 5 else "on " + ", ".join(which)
    elif "CALL" in allg:
        s, why = "latent", ""
    else:
        s, why = PLAIN[k["group"]], ""
    sev[i] = dict(severity=s, note=why, glibc={N[n]: x for n, x in zip(G, g)}, musl={N[n]: x for n, x in zip(("musl123", "musl126"), m)})
    rows.append((k["group"], i, k["title"], gl, mu, merge(o, G) if o else "-", s + (f": {why}" if why else ""), message(k)))

host = sum("host" in k["runs"] for k in R.values())
diff = [i for i, k in R.items() if "host" in k["runs"] and "env T" in k["runs"]["g236"] and (k["runs"]["host"]["env T"]["rc"], k["runs"]["host"]["env T"]["ctor"]) != (k["runs"]["g236"]["env T"]["rc"], k["runs"]["g236"]["env T"]["ctor"])]
modes = [i for i, k in R.items() if any("(LD_PRELOAD)" in (x or "") for x in (one(k["runs"][n], "T", k["noctor"]) for n in G))]
out = open(os.path.join(OUT, "loader-outcomes.md"), "w")
w = lambda s="": out.write(s + "\n")
w(f"""# What the loader does with a broken preload (measured)

{len(R)} kinds, each run against `/bin/true` (bullseye's, NEEDED libc.so.6 only) and small programs, by LD_PRELOAD and by /etc/ld.so.preload inside a chroot, on glibc
2.31-13+deb11u11, 2.36-9+deb12u14, 2.41-12+deb13u5, 2.43-7, 2.44-3 and musl 1.2.3, 1.2.6 (musl: LD_PRELOAD only; it does not read ld.so.preload, measured). x86-64, kernel 6.18.
LD_PRELOAD and ld.so.preload agree on every kind but {', '.join(modes)}. {host} kinds were also run by LD_PRELOAD on the host's own 2.36: {'all as in the 2.36 chroot' if not diff else 'different from the 2.36 chroot: ' + ', '.join(diff) + ' (library present in the chroot only)'}.
Remake: `scripts/loader-outcomes/measure.sh` (raw: `results.json`), then `report.py` beside it (this file and `loader-outcomes.json`).

**bound** program runs with the shim, importer hip_4.2 gets the shim's hipMalloc · **LOST+msg** program runs without the shim, "ERROR: ld.so: object ... cannot be preloaded (...): ignored." on the
standard error of every program, exit status the program's own · **LOST silent** the same without a message · **UNBOUND** shim loaded and its constructor ran, but the importer binds the
real function · **OTHER** the importer gets a third library's · **CALL dies** bound; only the call that needs the missing symbol dies · **DIES** no program starts.
Severity: stops-programs, shim-lost, latent, hygiene; `-` nothing wrong. dlopen: what dlopen(RTLD_NOW) of the same file does.
""")
last = None
TITLES = dict(control="Controls", version="Version requirements", undefined="Undefined symbols", needed="DT_NEEDED, soname, search paths", filter="Filters and audit", flags="Flags and tags",
              header="ELF header and type", memory="Segments, memory, TLS, hash", symbol="The form of the shim's symbol", node="The symbol's version node", file="The file and its name")
for g, i, t, gl, mu, o, s, msg in rows:
    if g not in ("symbol", "node"):
        if g != last:
            w(f"\n## {TITLES[g]}\n\n| kind | what | glibc 2.31 2.36 2.41 2.43 2.44 | musl 1.2.3 1.2.6 | dlopen | severity | message (newest glibc) |\n|---|---|---|---|---|---|---|")
        w("| " + " | ".join(x.replace("|", "\\|") for x in (i, t, gl, mu, o, s, msg)) + " |")
    last = g


def val(r, key):
    if r is None:
        return "-"
    x = re.search(key + r"=(\w*)", r["out"])
    return (x.group(1) or "crash") if x else ("crash" if dead(r) else "-")


w("""
## Symbols and version nodes: exactly what binds

Runtime `libhip.so.6` defines hipMalloc@@hip_4.2 (node hip_4.2). Importers: *versioned* (hipMalloc@hip_4.2, linked against it), *self* (the runtime's own PLT call), *unversioned* (linked against a build
without versions), `dlsym(RTLD_DEFAULT)`, `dlvsym(RTLD_DEFAULT, "hip_4.2")`. dlsym on the runtime's handle gets the real one in every row. glibc: 2.31 = 2.36 = 2.41 = 2.43 = 2.44 unless said. musl 1.2.3 = 1.2.6.
""")
for grp in ("symbol", "node"):
    w(f"### {TITLES[grp]}\n\n| kind | what | versioned | self | unversioned | dlsym | dlvsym | musl (all importers) | severity |\n|---|---|---|---|---|---|---|---|---|")
    for i, k in R.items():
        if k["group"] != grp:
            continue
        cols = []
        for pr, key in (("V", "direct"), ("V", "self"), ("U", "direct"), ("D", "default"), ("D", "dlvsym")):
            vals = {n: val(k["runs"][n].get("env " + pr), key) for n in G}
            assert all(val(k["runs"][n].get("file " + pr), key) == vals[n] for n in G)
            cols.append(merge([vals[n] for n in G], G))
        mv = {val(k["runs"][n].get("env " + p_), "direct") for n in ("musl123", "musl126") for p_ in "VU"} | {val(k["runs"][n].get("env D"), "default") for n in ("musl123", "musl126")}
        s = sev[i]["severity"] + (": " + sev[i]["note"] if sev[i]["note"] else "")
        w("| " + " | ".join([i, k["title"]] + cols + ["/".join(sorted(mv)), s]) + " |")
    w()
w("""### The rules behind the node table (agree with elf/dl-lookup.c, check_match)

1. A versioned importer binds a definition whose node name is equal (hidden bit does not matter), or one without a node: versym 1 or 0, or a library without any version table. Versym 0x8001 does not bind.
2. A node of its own (V1) is never bound by a versioned importer: the shim is loaded and bypassed without a message.
3. An unversioned importer binds versym 0, 1 and **2, hidden or not** (index 2 is the first node a linker writes), and an index >= 3 only when it is not hidden.
4. dlsym(RTLD_DEFAULT) binds whatever is not hidden (index >= 2) and versym 0, 1; a hidden name@node is skipped, even when the node equals the importer's.
5. dlvsym binds an equal node (hidden or not), or a library that has **no version table at all**; an unversioned symbol in a library that has one (every shim that requires GLIBC_2.2.5 has) is skipped: real.
   So `hipMalloc` unversioned is caught by direct calls and dlsym, not by dlvsym, unless the shim has no verneed.
6. Binding: GLOBAL, WEAK and GNU_UNIQUE bind; LOCAL and others do not. Visibility default and protected bind; hidden and internal do not (glibc), all do on musl. Types NOTYPE OBJECT FUNC COMMON TLS IFUNC bind, whatever the
   importer expects (an OBJECT is jumped into); others do not. st_value 0 does not bind. SHN_UNDEF does not bind a call; dlsym hands it out when it has a value (glibc quirk). SHN_ABS binds and crashes.
7. musl: ignores node names and visibility, skips hidden versions (also @hip_4.2), does not know IFUNC.

## What decides whether it is fatal

- Refused while the file is opened and mapped (header, class, machine, type, PIE, segments that cannot be mapped, executable stack that cannot be had): the preload is **ignored with a message**, the program runs: shim-lost.
- Refused afterwards (a needed library, a version, a DT_FILTER, a symbol bound at load, DT_RELR without marker, ISA level, a file shorter than its segments, wrong contents of tables): **every program stops**, rc 127 (rc 1 for a
  version that is not found; SIGBUS or SIGSEGV for contents).
- The main program's own BIND_NOW does not make a preload's lazy bindings immediate (program N, measured on all five); LD_BIND_NOW=1 does. -fno-plt, function tables and data references bind at load even when "lazy".
- The reason in brackets is fixed text; the errno is not printed for preloads: wrong e_machine reads "(cannot open shared object file)", as if the file were missing, a directory reads "(cannot read file data)".
""")
out.close()
json.dump(sev, open(os.path.join(OUT, "loader-outcomes.json"), "w"), indent=0)
import collections
print(collections.Counter(v["severity"] for v in sev.values()), "host diff", diff, "mode diff", modes)
