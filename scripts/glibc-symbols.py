#!/usr/bin/env python3
"""Writes manifests/glibc/symbols-x86_64.txt and musl-x86_64.txt: which library of which libc release defines which symbol.

usage: glibc-symbols.py OUT_DIR MUSL_PACKAGE BASE_PACKAGE LATER_PACKAGE... [--git GLIBC.GIT]

Every PACKAGE is a folder made by `dpkg-deb -x` of an amd64 package: musl; libc6 2.31 (the base); later libc6 in any order.
--git names a clone of glibc with release tags. Its abilist files date a symbol to the exact release, where the packages at hand
skip some; without it a symbol is dated by the first package that has it. Needs readelf.

A line of symbols-x86_64.txt is `name version library since [hidden]`. `since` is the glibc release that put the symbol there, or `-`
for those of the base release, whose version says it. A symbol stands once per library and version.
"""
import os
import re
import subprocess
import sys

COMPANIONS = ["libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1", "libm.so.6", "libresolv.so.2", "libanl.so.1", "ld-linux-x86-64.so.2"]


def find(root, name):
    for folder, _, files in os.walk(root):
        if name in files:
            return os.path.join(folder, name)
    raise SystemExit(f"{root}: no {name}")


def release(root):
    with open(find(root, "libc.so.6"), "rb") as file:
        return re.search(rb"release version (2\.\d+)", file.read()).group(1).decode()


def number(version):
    return [int(part) for part in re.findall(r"\d+", version)]


def defined(path):
    """{(symbol, version): hidden} of what a library exports; the version is '-' where a symbol has none."""
    text = subprocess.run(["readelf", "--dyn-syms", "-W", path], check=True, capture_output=True, text=True).stdout
    found = {}
    for fields in map(str.split, text.splitlines()):
        if len(fields) < 8 or not fields[0].endswith(":") or fields[4] not in ("GLOBAL", "WEAK", "UNIQUE") or fields[6] == "UND":
            continue
        name, at, version = fields[7].partition("@")
        hidden = bool(at) and not version.startswith("@")
        version = version.lstrip("@") or "-"
        if fields[6] == "ABS" and version in (name, "-"):  # the marker of a version node
            continue
        found[name, version] = hidden
    return found


def abilist(git, tag):
    command = ["git", "-C", git, "show", f"{tag}:sysdeps/unix/sysv/linux/x86_64/64/libc.abilist"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {(fields[1], fields[0]) for fields in map(str.split, text.splitlines()) if len(fields) >= 3}


def main():
    args = sys.argv[1:]
    git = None
    if "--git" in args:
        at = args.index("--git")
        git = args[at + 1]
        del args[at : at + 2]
    if len(args) < 4:
        raise SystemExit(__doc__)
    out, musl, base = args[:3]
    later = sorted(args[3:], key=lambda root: number(release(root)))
    if release(base) != "2.31":
        raise SystemExit(f"{base}: glibc {release(base)}, not 2.31")

    rows = set()
    libc = defined(find(base, "libc.so.6"))
    for library in ["libc.so.6", *COMPANIONS]:
        for (name, version), hidden in (libc if library == "libc.so.6" else defined(find(base, library))).items():
            rows.add((name, version, library, "-", hidden))

    newest = defined(find(later[-1], "libc.so.6"))
    have = {release(root): set(defined(find(root, "libc.so.6"))) for root in later}
    if git:
        tags = subprocess.run(["git", "-C", git, "tag"], check=True, capture_output=True, text=True).stdout.split()
        for tag in tags:
            match = re.fullmatch(r"glibc-(2\.\d+)", tag)
            if match and number(match.group(1)) > [2, 31] and match.group(1) not in have:
                have[match.group(1)] = abilist(git, tag)
    order = sorted(have, key=number)
    for key, hidden in newest.items():
        if key not in libc and key[1] != "GLIBC_PRIVATE":
            rows.add((*key, "libc.so.6", next(one for one in order if key in have[one]), hidden))

    with open(f"{out}/symbols-x86_64.txt", "w", encoding="ascii") as file:
        file.writelines(sorted(" ".join(row[:4]) + (" hidden" if row[4] else "") + "\n" for row in rows))
    with open(f"{out}/musl-x86_64.txt", "w", encoding="ascii") as file:
        file.writelines(f"{name}\n" for name in sorted({name for name, _ in defined(find(musl, "libc.so"))}))


main()
