//! Facts from `readelf -W` (binutils). It goes through the section headers, where there are any: another way to the same answers.

use std::path::Path;
use std::process::Command;

use crate::facts::{Facts, Relocation, Symbol};

/// What `readelf` says about one file.
#[derive(Debug, Default)]
pub struct Report {
    /// The facts it prints.
    pub facts: Facts,
    /// True if it found a dynamic section with bytes.
    pub dynamic: bool,
    /// What it complains about on standard error.
    pub complaints: String,
}

/// Runs `readelf` on a file. `use_dynamic` (`-D`) is for files without section headers.
///
/// # Panics
///
/// If there is no `readelf` to run.
pub fn run(path: &Path, use_dynamic: bool) -> Report {
    let mut command = Command::new("readelf");
    command.args(["-W", "-d", "--dyn-syms", "-V", "-l", "-n", "-r"]);
    if use_dynamic {
        command.arg("-D");
    }
    let output = command.arg(path).env("LC_ALL", "C").output().expect("readelf (package binutils) must be installed");
    let mut report = Report { complaints: String::from_utf8_lossy(&output.stderr).into_owned(), ..Report::default() };
    let text = String::from_utf8_lossy(&output.stdout);
    let mut part = Part::Other;
    for line in text.lines() {
        if let Some(next) = Part::of(line) {
            report.dynamic |= matches!(next, Part::Dynamic);
            part = next;
            continue;
        }
        match part {
            Part::Segments => segments(line, &mut report.facts),
            Part::Dynamic => dynamic(line, &mut report.facts),
            Part::Symbols => report.facts.symbols.extend(symbol(line)),
            Part::Needs => needs(line, &mut report.facts),
            Part::Definitions => definitions(line, &mut report.facts),
            Part::Notes => notes(line, &mut report.facts),
            Part::Relocations => relocation(line, &mut report.facts),
            Part::Relr => report.facts.relative.extend(u64::from_str_radix(line.trim(), 16).map(|place| (place, None))),
            Part::Other => {}
        }
    }
    report
}

/// Parts of the output, told by their first lines.
#[derive(Clone, Copy)]
enum Part {
    Segments,
    Dynamic,
    Symbols,
    Needs,
    Definitions,
    Notes,
    Relocations,
    Relr,
    Other,
}

impl Part {
    fn of(line: &str) -> Option<Self> {
        if line.starts_with(' ') || line.is_empty() {
            return None;
        }
        let starts = [
            ("Program Headers:", Self::Segments),
            ("Dynamic section at", Self::Dynamic),
            ("Symbol table", Self::Symbols),
            ("Version needs section", Self::Needs),
            ("Version definition section", Self::Definitions),
            ("Version symbols section", Self::Other),
            ("Displaying notes found", Self::Notes),
            ("There is no dynamic section", Self::Other),
            ("There are no relocations", Self::Other),
        ];
        if line.starts_with("Relocation section") || line.starts_with('\'') {
            return Some(if line.contains("relr") || line.contains("RELR") { Self::Relr } else { Self::Relocations });
        }
        starts.into_iter().find(|(start, _)| line.starts_with(start)).map(|(_, part)| part)
    }
}

fn segments(line: &str, facts: &mut Facts) {
    if let Some(path) = line.trim().strip_prefix("[Requesting program interpreter: ") {
        facts.interpreter = path.strip_suffix(']').map(str::to_owned);
    }
}

fn dynamic(line: &str, facts: &mut Facts) {
    let Some(value) = line.split_once(": [").and_then(|(_, rest)| rest.strip_suffix(']')).map(str::to_owned) else { return };
    match line.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map(|(tag, _)| tag) {
        Some("NEEDED") => facts.needed.push(value),
        Some("SONAME") => facts.soname = Some(value),
        Some("RPATH") => facts.rpath = Some(value),
        Some("RUNPATH") => facts.runpath = Some(value),
        _ => {}
    }
}

/// `     1: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND free@GLIBC_2.2.5 (2)`
fn symbol(line: &str) -> Option<Symbol> {
    let (number, rest) = line.split_once(": ")?;
    if number.trim().parse::<u32>().ok()? == 0 {
        return None;
    }
    let mut words = Words(rest);
    let value = u64::from_str_radix(words.next()?, 16).ok()?;
    let size = words.next()?;
    let size = size.strip_prefix("0x").map_or_else(|| size.parse(), |hex| u64::from_str_radix(hex, 16)).ok()?;
    // Value 10 of either has a name only where EI_OSABI says GNU; the loader does not ask.
    let kind = known(words.named("IFUNC")?, &["NOTYPE", "OBJECT", "FUNC", "SECTION", "FILE", "COMMON", "TLS", "IFUNC"]);
    let binding = known(words.named("UNIQUE")?, &["LOCAL", "GLOBAL", "WEAK", "UNIQUE"]);
    let visibility = known(words.next()?, &["DEFAULT", "HIDDEN", "INTERNAL", "PROTECTED"]);
    // Bits of st_other beyond the visibility: `[VARIANT_PCS]` on AArch64, `[<other>: 88]` on Alpha and PowerPC, `<localentry>: 8`.
    let place = loop {
        let word = words.next()?;
        if !word.starts_with(['[', '<']) && !word.ends_with(']') {
            break word;
        }
    };
    let place = if matches!(place, "UND" | "ABS") { known(place, &["UND", "ABS"]) } else { "here" };
    let whole = words.0.trim();
    let whole = match whole.rsplit_once(" (") {
        Some((name, index)) if index.strip_suffix(')').is_some_and(|index| index.parse::<u32>().is_ok()) => name,
        _ => whole,
    };
    let (name, version) = match whole.find('@') {
        Some(at) if at > 0 => whole.split_at(at),
        _ => (whole, ""),
    };
    // A section's symbol has no name; readelf prints the section's.
    let name = if kind == "SECTION" { "" } else { name };
    Some(Symbol { name: name.into(), version: version.into(), binding, kind, visibility, place, value, size })
}

/// Words of a line, and what is left of it.
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let rest = self.0.trim_start();
        let end = rest.find(' ').unwrap_or(rest.len());
        self.0 = &rest[end..];
        Some(&rest[..end]).filter(|word| !word.is_empty())
    }

    /// A type or binding: one word, or `<OS specific>: 12`. `ten` is the word for number 10.
    fn named(&mut self, ten: &'a str) -> Option<&'a str> {
        let word = self.next()?;
        if !word.starts_with('<') {
            return Some(word);
        }
        while !self.next()?.ends_with(':') {}
        Some(if self.next()? == "10" { ten } else { word })
    }
}

fn known(word: &str, words: &[&'static str]) -> &'static str {
    words.iter().find(|known| **known == word).copied().unwrap_or("other")
}

/// `  0x0010:   Name: GLIBC_2.34  Flags: none  Version: 4` under `  000000: Version: 1  File: libc.so.6  Cnt: 3`
fn needs(line: &str, facts: &mut Facts) {
    if let Some(file) = between(line, "  File: ", "  Cnt: ") {
        facts.requirements.push((file.into(), String::new(), false));
    } else if let Some(version) = between(line, "Name: ", "  Flags: ") {
        let weak = line.split_once("  Flags: ").is_some_and(|(_, flags)| flags.contains("WEAK"));
        let last = facts.requirements.last_mut().expect("readelf prints the file first");
        if last.1.is_empty() {
            *last = (last.0.clone(), version.into(), weak);
        } else {
            let file = last.0.clone();
            facts.requirements.push((file, version.into(), weak));
        }
    }
}

/// `  0x001c: Rev: 1  Flags: none  Index: 2  Cnt: 1  Name: hip_4.2`
fn definitions(line: &str, facts: &mut Facts) {
    if line.contains("Rev: ")
        && let Some((head, name)) = line.split_once("  Name: ")
    {
        facts.definitions.push((name.into(), head.contains("BASE")));
    }
}

fn between<'a>(line: &'a str, start: &str, end: &str) -> Option<&'a str> {
    line.split_once(start)?.1.split_once(end).map(|(middle, _)| middle)
}

fn notes(line: &str, facts: &mut Facts) {
    if let Some((_, id)) = line.split_once("Build ID: ") {
        facts.build_id.get_or_insert_with(|| id.trim().to_owned());
    }
    if let Some((_, levels)) = line.split_once("x86 ISA needed: ") {
        let levels = levels.split(", ").map(str::trim);
        let bits = levels.map(|level| match level {
            "x86-64-baseline" => 1,
            "x86-64-v2" => 2,
            "x86-64-v3" => 4,
            "x86-64-v4" => 8,
            _ => 0,
        });
        facts.isa_needed.get_or_insert(bits.fold(0, |all, bit| all | bit));
    }
}

/// `000000000055eb00  0000000100000006 R_X86_64_GLOB_DAT      0000000000000000 free@GLIBC_2.2.5 + 0`
fn relocation(line: &str, facts: &mut Facts) {
    let mut words = Words(line);
    let Some(place) = words.next().filter(|word| word.len() >= 8).and_then(|word| u64::from_str_radix(word, 16).ok()) else { return };
    let (Some(_info), Some(kind)) = (words.next(), words.next()) else { return };
    let rest = words.0.trim();
    // A name is followed by ` + addend` or ` - addend`; REL entries have none.
    let (whole, addend) = match rest.rfind(" + ").or_else(|| rest.rfind(" - ")) {
        Some(at) => {
            let addend = i64::from_str_radix(&rest[at + 3..], 16).unwrap_or(0);
            (&rest[..at], if rest[at..].starts_with(" - ") { -addend } else { addend })
        }
        None => (rest, 0),
    };
    let kind = relocation_kind(kind);
    if kind == "RELATIVE" {
        facts.relative.insert((place, u64::from_str_radix(rest, 16).ok()));
        return;
    }
    // Value, then name; an entry without a symbol has an addend alone.
    if let Some((_, name)) = whole.split_once(' ') {
        let name = name.trim();
        let name = name.find('@').filter(|&at| at > 0).map_or(name, |at| &name[..at]);
        facts.symbolic.insert(Relocation { place, symbol: name.into(), kind, addend });
    }
}

fn relocation_kind(name: &str) -> &'static str {
    let absolute = [
        "R_X86_64_64",
        "R_X86_64_32",
        "R_386_32",
        "R_AARCH64_ABS64",
        "R_390_64",
        "R_390_32",
        "R_ARM_ABS32",
        "R_PPC64_ADDR64",
        "R_PPC_ADDR32",
        "R_ALPHA_REFQUAD",
    ];
    if absolute.contains(&name) {
        return "absolute";
    }
    let ends = [
        ("IRELATIVE", "IRELATIVE"),
        ("IRELATIV", "IRELATIVE"),
        ("_RELATIVE", "RELATIVE"),
        ("_RELATIVE64", "RELATIVE"),
        ("_JUMP_SLOT", "JUMP_SLOT"),
        ("_JMP_SLOT", "JUMP_SLOT"),
        ("_GLOB_DAT", "GLOB_DAT"),
        ("_COPY", "COPY"),
    ];
    if let Some((_, kind)) = ends.into_iter().find(|(end, _)| name.ends_with(end)) {
        return kind;
    }
    if ["_TPOFF", "_DTPMOD", "_DTPOFF", "_TLS", "_TPREL", "_DTPREL"].iter().any(|part| name.contains(part)) { "tls" } else { "other" }
}
