//! Random libraries: functions and data, weak, protected, unique, indirect, with versions of two nodes; references by call, by address, by the GOT;
//! both hash tables, `DT_SYMBOLIC`, `LD_DYNAMIC_WEAK`, preloads, and libraries that were replaced after the program was linked.
//!
//! `VROCM_BINDING_CASES` is the number of processes per loader, `VROCM_LOADER_SEED` the first seed.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::libraries::set_flags;
use crate::oracle::{differences, ours, resolve, this_cpu, traced};
use crate::support::{Dice, loaders, number};

/// Processes per loader in a plain test run.
const CASES: u64 = 12;
const NAMES: [&str; 6] = ["n0", "n1", "n2", "n3", "n4", "n5"];
const LIBRARIES: usize = 4;

/// What a file defines under a name.
fn define(dice: &mut Dice, name: &str, text: &mut String) {
    let binding = dice.pick(&[".globl", ".globl", ".weak"]);
    let protected = if dice.one_in(5) { format!(".protected {name}\n") } else { String::new() };
    let _ = match dice.roll(7) {
        0 => writeln!(text, ".data\n.globl {name}\n{protected}.type {name}, @object\n.size {name}, 8\n{name}: .quad 1\n.text"),
        1 => writeln!(text, ".data\n.globl {name}\n.type {name}, @gnu_unique_object\n.size {name}, 8\n{name}: .quad 1\n.text"),
        2 => writeln!(text, ".globl {name}\n{protected}.type {name}, @gnu_indirect_function\n.size {name}, 8\n{name}: lea 0(%rip), %rax\nret"),
        _ => writeln!(text, "{binding} {name}\n{protected}.type {name}, @function\n.size {name}, 1\n{name}: ret"),
    };
}

/// How a file uses a name.
fn refer(dice: &mut Dice, name: &str, program: bool, text: &mut String) {
    let weak = if dice.one_in(6) { format!(".weak {name}\n") } else { String::new() };
    let _ = match dice.roll(if program { 5 } else { 4 }) {
        0 => writeln!(text, "{weak}.data\n.quad {name}\n.text"),
        1 => writeln!(text, "{weak}movq {name}@GOTPCREL(%rip), %rax"),
        // Outside position-independent code: a PLT entry for functions, a copy for data.
        4 => writeln!(text, "{weak}movl ${name}, %eax"),
        _ => writeln!(text, "{weak}call {name}@PLT"),
    };
}

/// Source and version script of one file.
fn source(dice: &mut Dice, program: bool) -> (String, Option<String>) {
    let mut text = String::from(".text\n");
    let mut nodes = [String::new(), String::new()];
    let mut old = Vec::new();
    for name in NAMES {
        if dice.one_in(if program { 6 } else { 2 }) {
            define(dice, name, &mut text);
            match dice.roll(4) {
                0 => nodes[0] += &format!("{name}; "),
                1 => nodes[1] += &format!("{name}; "),
                _ => {}
            }
        } else if dice.one_in(6) && !program {
            old.push(name);
        }
    }
    text += if program { ".globl _start\n_start:\n" } else { "use:\n" };
    for name in NAMES.iter().filter(|name| !old.contains(name)) {
        for _ in 0..dice.roll(3) {
            refer(dice, name, program, &mut text);
        }
    }
    text += "ret\n";
    for name in &old {
        let _ = writeln!(text, ".globl {name}_old\n.type {name}_old, @function\n{name}_old: ret\n.symver {name}_old, {name}@V1");
    }
    let versioned = !program && (dice.one_in(2) || !old.is_empty());
    let list = |names: &str| if names.is_empty() { String::new() } else { format!("global: {names}") };
    // A build without the first node misses what others were linked to ask of it.
    let one = old.is_empty() && dice.one_in(3);
    let map = if one {
        format!("V2 {{ {} }};\n", list(&nodes.concat()))
    } else {
        format!("V1 {{ {} }};\nV2 {{ {} }} V1;\n", list(&nodes[0]), list(&nodes[1]))
    };
    (text, versioned.then_some(map))
}

/// Builds one file; false where the linker refuses the mixture.
fn build(dice: &mut Dice, dir: &Path, name: &str, others: &[String], interpreter: &str) -> bool {
    let program = name == "program";
    let (text, map) = source(dice, program);
    std::fs::write(dir.join("source.s"), text).expect("written");
    let mut arguments: Vec<String> =
        ["-nostdlib", "-o", name, "source.s", "-Wl,-z,now", "-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN"].map(Into::into).into();
    arguments.push("-Wl,-z,undefs,--unresolved-symbols=ignore-all,--noinhibit-exec".into());
    if program {
        arguments.extend([format!("-Wl,--dynamic-linker={interpreter}"), if dice.one_in(2) { "-no-pie".into() } else { "-pie".into() }]);
        arguments.extend(dice.one_in(2).then(|| "-rdynamic".into()));
    } else {
        arguments.extend(["-shared".into(), format!("-Wl,-soname,{name}")]);
    }
    if let Some(map) = map {
        std::fs::write(dir.join("map"), map).expect("written");
        arguments.push("-Wl,--version-script=map".into());
    }
    arguments.extend(dice.one_in(4).then(|| "-Wl,--hash-style=sysv".into()));
    arguments.extend(others.iter().filter(|_| program || dice.one_in(2)).cloned());
    let done = Command::new("cc").current_dir(dir).args(&arguments).output().expect("a compiler");
    if !done.status.success() || !dir.join(name).is_file() {
        return false;
    }
    if !program && dice.one_in(4) {
        set_flags(&dir.join(name), 2);
    }
    true
}

/// One process: its program and environment; none where the linker refused something.
fn process(dice: &mut Dice, dir: &Path, interpreter: &str) -> Option<(PathBuf, Vec<(String, String)>)> {
    let mut built: Vec<String> = Vec::new();
    for index in 0..LIBRARIES {
        let name = format!("l{index}.so");
        if build(dice, dir, &name, &built, interpreter) {
            built.push(format!("./{name}"));
        }
    }
    if !(0..6).any(|_| build(dice, dir, "program", &built, interpreter)) {
        return None;
    }
    if dice.one_in(2) && !built.is_empty() {
        // Another build takes the place of what the program was linked against.
        let name = built[dice.roll(built.len())].trim_start_matches("./").to_string();
        let before = std::fs::read(dir.join(&name)).expect("built");
        if !build(dice, dir, &name, &[], interpreter) {
            std::fs::write(dir.join(&name), before).expect("written");
        }
    }
    let mut environment = Vec::new();
    let mut preloads: Vec<String> = Vec::new();
    for name in ["p0.so", "p1.so"] {
        if dice.one_in(2) && build(dice, dir, name, &[], interpreter) {
            preloads.push(dir.join(name).display().to_string());
        }
    }
    environment.push(("LD_PRELOAD".to_string(), preloads.join(":")));
    if dice.one_in(6) {
        environment.push(("LD_DYNAMIC_WEAK".to_string(), "1".to_string()));
    }
    Some((dir.join("program"), environment))
}

#[test]
fn random_libraries() {
    if this_cpu().is_none() {
        eprintln!("not compared: /proc/cpuinfo tells no x86-64 CPU");
        return;
    }
    let (cases, seed) = (number("VROCM_BINDING_CASES", CASES), number("VROCM_LOADER_SEED", 1));
    let mut wrong = Vec::new();
    for (version, interpreter) in loaders() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let base = folder.path().canonicalize().expect("a path");
        let own = base.join("ld-linux-x86-64.so.2");
        std::fs::copy(&interpreter, &own).expect("copied");
        let (mut compared, mut bindings, mut unclear, mut unmet, mut ended, mut refused) = (0, 0, 0, 0, 0, 0);
        for case in seed..seed + cases {
            let mut dice = Dice::new(case);
            let dir = base.join("c");
            let _ = std::fs::remove_dir_all(&dir);
            std::fs::create_dir(&dir).expect("made");
            let Some((program, environment)) = process(&mut dice, &dir, &own.display().to_string()) else {
                refused += 1;
                continue;
            };
            let resolution = resolve(&program, &environment, &dir).expect("a program");
            let here = ours(&resolution, &environment).unwrap_or_else(|error| panic!("seed {case}: {error}"));
            let Some(said) = traced(&program, &environment) else {
                if here.ends {
                    ended += 1;
                } else {
                    refused += 1;
                }
                continue;
            };
            if here.ends {
                wrong.push(format!("glibc {version}, seed {case}: the loader goes on where we say that it stops"));
            }
            (compared, bindings, unclear) = (compared + 1, bindings + said.lines.len(), unclear + here.unclear.len());
            unmet += usize::from(said.unmet);
            let mut found = differences(&said.lines, &here);
            if said.unmet == here.unmet.is_empty() {
                found.push(format!("the loader misses a version: {}, here {:?}", said.unmet, here.unmet));
            }
            if !found.is_empty() {
                wrong.push(format!("glibc {version}, seed {case}, {environment:?}:\n  {}", found.join("\n  ")));
            }
        }
        println!(
            "glibc {version}: {compared} processes compared, {bindings} bindings, {unclear} unclear, {unmet} miss a version, {ended} stop the loader, \
             {refused} not built or not listed"
        );
        assert!(compared * 2 > cases && bindings as u64 > 5 * cases, "glibc {version}: too little was compared");
    }
    assert!(wrong.is_empty(), "{} processes differ:\n{}", wrong.len(), wrong[..wrong.len().min(4)].join("\n"));
}
