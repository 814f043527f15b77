//! `vrocm-audit explain`: what a check, a class or a word of a report means, or what an export does, how that is known, and what to paste.

use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;

use super::{Result, checks, coverage};
use crate::cli::Explain;
use crate::finding::Check;
use crate::manifest::beyond::{self, Entry};
use crate::manifest::explain::{Remedy, Texts, Word};
use crate::manifest::schema::Evidence;
use crate::manifest::{Action, Class, ClassRule, ClassTable, CodeReading, Family, InterposedList, Judgement};

/// The word under which reports name what no preload closes.
const BEYOND: &str = "beyond-preload";

pub(super) fn run(arguments: &Explain) -> Result<ExitCode> {
    let topic = arguments.topic.as_str();
    let texts = Texts::embedded()?;
    let families = coverage::families(&arguments.families.manifests)?;
    let table = ClassTable::embedded()?;
    let text = if let Some(check) = checks().find(|check| check.id == topic) {
        explain_check(check, texts.remedy(topic))
    } else if let Some(class) = Class::ALL.into_iter().find(|class| class.word() == topic) {
        explain_class(class, &table, &families)
    } else if let Some(word) = texts.word(topic) {
        explain_word(word) + &if topic == BEYOND { list_of_ways()? } else { String::new() }
    } else if let Some(way) = beyond::entries()?.into_iter().find(|way| way.id == topic) {
        explain_way(&way)
    } else {
        explain_export(topic, &table, &families)?
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn paragraph(head: &str, text: &str) -> String {
    format!("{head:<8} {text}\n")
}

fn explain_check(check: &Check, remedy: Option<&Remedy>) -> String {
    let lines = remedy.map(Remedy::lines).unwrap_or_default();
    let paste: String = lines.iter().enumerate().map(|(at, line)| paragraph(if at == 0 { "paste" } else { "" }, line)).collect();
    [
        format!("{} ({})\n", check.id, check.severity.word()),
        paragraph("what", check.what),
        paragraph("why", check.why),
        paragraph("fix", check.fix),
        paste,
        paragraph("source", check.source),
    ]
    .concat()
}

fn explain_word(word: &Word) -> String {
    [format!("{} ({})\n", word.word, word.is), paragraph("what", &word.what), paragraph("why", &word.why), paragraph("fix", &word.fix)].concat()
}

/// Every way, by its id.
fn list_of_ways() -> Result<String> {
    Ok(beyond::entries()?.iter().map(|way| format!("  {:<22} {}\n", way.id, way.what)).collect())
}

fn explain_way(way: &Entry) -> String {
    let each = |head: &str, lines: &[String]| -> String {
        lines.iter().enumerate().map(|(at, line)| paragraph(if at == 0 { head } else { "" }, line)).collect()
    };
    [
        format!("{} (no preload closes it)\n", way.id),
        paragraph("what", &way.what),
        paragraph("why", &way.why),
        paragraph("fix", &way.fix),
        paragraph("concerns", &way.concerns()),
        each("found", &way.finders()),
        each("known", &way.known()),
    ]
    .concat()
}

/// What follows from a class, and who is in it.
fn explain_class(class: Class, table: &ClassTable, families: &[Family]) -> String {
    let mut text = format!("{class} (class of an export)\n");
    let sizes: &[_] =
        if class == Class::IndirectAlloc { &[Some(crate::manifest::Size::Caller), Some(crate::manifest::Size::Bounded)] } else { &[None] };
    for &size in sizes {
        let rule = table.rule(class, size);
        if let Some(size) = size {
            text += &paragraph("size", size.word());
        }
        text += &paragraph("holds", &format!("{}: {}", demand(rule), rule.why));
        text += &paragraph("actions", &rule.actions.iter().map(|action| action.word()).collect::<Vec<_>>().join(", "));
        let below =
            if rule.coverable_below { "held if every allocating import of the runtime is" } else { "not held by what holds the runtime's imports" };
        text += &paragraph("below", below);
    }
    for family in families {
        let names: Vec<&str> = family.rows().iter().filter(|row| row.class == class).map(|row| row.name).collect();
        let few = if names.len() > 6 { format!("{} and {} more", names[..6].join(" "), names.len() - 6) } else { names.join(" ") };
        text += &paragraph(family.name(), &format!("{} exports: {few}", names.len()));
    }
    text + &paragraph("source", "manifests/classes.json; docs/GLOSSARY.md has the order in which the first class that fits counts")
}

fn demand(rule: &ClassRule) -> &'static str {
    match (rule.must_interpose, rule.accepted) {
        (true, _) => "must be interposed",
        (false, true) => "accepted as a class",
        (false, false) => "need not be interposed",
    }
}

fn explain_export(name: &str, table: &ClassTable, families: &[Family]) -> Result<String> {
    let mut text = String::new();
    for family in families {
        let Some(judgement) = family.judgement(name)? else { continue };
        let line = |head: &str, what: &str| format!("  {head:<9}  {what}\n");
        let rule = table.rule(judgement.class, judgement.size);
        text += &format!("{name} ({})\n", family.identity.title);
        let size = judgement.size.map_or(String::new(), |size| format!(" of size {}", size.word()));
        text += &line("class", &format!("{}{size}{}", judgement.class, judgement.decides.as_deref().map_or(String::new(), |why| format!(": {why}"))));
        text += &line("interpose", &format!("{}: {}", if rule.must_interpose { "must" } else { "need not" }, rule.why));
        if let Some(undoes) = judgement.undoes {
            text += &line("undoes", &format!("{undoes:?}").to_lowercase());
        }
        if let Some(elsewhere) = &judgement.elsewhere {
            text += &line("elsewhere", elsewhere);
        }
        for build in family.builds {
            text += &line(&build.release.to_string(), &in_build(name, build, &judgement, table));
        }
        for reading in family.readings()? {
            if let Some(says) = in_code(name, &reading) {
                text += &line("code", &format!("{}: {says}", reading.release));
            }
        }
        text += &evidence(&judgement.evidence);
        for other in &judgement.by_version {
            text += &evidence(&other.evidence);
        }
        if let Some(note) = &judgement.note {
            text += &line("note", note);
        }
        text += &fix(name, family, &judgement, table)?;
    }
    if text.is_empty() {
        bail!(
            "{name}: neither a check, a class, a word of a report nor an export in any manifest; checks are {}",
            checks().map(|check| check.id).collect::<Vec<_>>().join(", ")
        );
    }
    Ok(text)
}

/// The export in one release: under which node, and what it does there if that differs.
fn in_build(name: &str, build: &crate::manifest::KnownBuild, judgement: &Judgement, table: &ClassTable) -> String {
    let Some(export) = build.exports().find(|export| export.name == name) else { return "not exported".into() };
    let versioned = export.node.map_or(name.to_string(), |node| format!("{name}@{node}"));
    let (class, size) = judgement.in_release(build.release);
    if (class, size) == (judgement.class, judgement.size) {
        return versioned;
    }
    let size_word = size.map_or(String::new(), |size| format!(" of size {}", size.word()));
    format!("{versioned}, there {class}{size_word}, which {}", demand(table.rule(class, size)))
}

/// What the machine code of one build says, as far as it is stored.
fn in_code(name: &str, reading: &CodeReading) -> Option<String> {
    let export = reading.export(name)?;
    let sized = if export.caller_sized { ", of a size that flows from the caller" } else { "" };
    let reaches = match (export.reaches.as_slice(), export.followed) {
        ([], true) => "; no call on any way from it leads to memory beneath".into(),
        ([], false) => String::new(),
        (names, true) => format!("; beneath it reaches {} and no more", names.join(" ")),
        (names, false) => format!("; beneath ways lead to {}", names.join(" ")),
    };
    let rest = if export.followed || reading.takes.is_empty() { "" } else { "; not every call could be followed, so every allocating import counts" };
    Some(format!("{}{sized}{reaches}{rest}", export.says))
}

fn evidence(items: &[Evidence]) -> String {
    items.iter().map(|item| format!("  {:<9}  {} ({})\n", item.kind.word(), item.says, item.at)).collect()
}

/// What to do about an open door: a row for our table, a wrapper for another shim, an acceptance.
fn fix(name: &str, family: &Family, judgement: &Judgement, table: &ClassTable) -> Result<String> {
    let judged = judgement.by_version.iter().map(|other| (other.class, other.size)).chain([(judgement.class, judgement.size)]);
    let Some(rule) = judged.map(|(class, size)| table.rule(class, size)).find(|rule| rule.must_interpose) else {
        return Ok(format!("  fix        none needed: class {} {}\n", judgement.class, demand(table.rule(judgement.class, judgement.size))));
    };
    let action = rule.actions.first().copied().unwrap_or(Action::Charge);
    let below = rule.coverable_below && judgement.elsewhere.is_none() && family.identity.beneath.is_some();
    let family = family.name();
    let mut text = String::new();
    if let Some(row) = InterposedList::own()?.row(name) {
        text += &format!("  fix        libvrocm.so interposes it: {}\n", row.action.map_or("no action", Action::word));
    } else {
        let beneath = if below { "; coverage --shim says whether its layer beneath covers it" } else { "" };
        text += &format!("  fix        libvrocm.so does not interpose it{beneath}\n");
        text += "             a row for libvrocm.so (shim/core/src/interpose/rows.rs), its arguments as the runtime's header has them:\n";
        text += &format!("               {} {name}(/* arguments */) -> /* result */: {} = {family}::/* body */;\n", capital(family), variant(action));
    }
    text += &format!(
        "             a wrapper for another shim, which does `{}` and then calls the next definition; no version node, no .symver:\n",
        action.word()
    );
    text += &format!("               __attribute__((visibility(\"default\"))) /* result */ {name}(/* arguments */) {{ /* {} */ }}\n", action.word());
    text += &format!("               {{\"name\": \"{name}\", \"action\": \"{}\"}}\n", action.word());
    text += "             an acceptance, if it may stay open:\n";
    text += &format!(
        "               {{\"family\": \"{family}\", \"export\": \"{name}\", \"reason\": \"…\", \"since\": \"YYYY-MM-DD\", \"until\": \"YYYY-MM-DD\"}}\n"
    );
    Ok(text)
}

/// `hand-out` as a variant is called: `HandOut`.
fn variant(action: Action) -> String {
    action.word().split('-').map(capital).collect()
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
