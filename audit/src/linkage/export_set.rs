//! Rule `export-set`.

use std::collections::BTreeMap;

use super::facts::Facts;
use super::policy::Policy;
use super::{Outcome, Rule, list};
use crate::elf::{Binding, Kind, Place, Symbol};
use crate::finding::{Check, Finding, Severity};
use crate::loader::binding;
use crate::manifest::InterposedList;
use crate::manifest::glibc;

/// Names that linkers put into every file; older ones export them. Nobody imports them.
const MADE_BY_LINKER: [&str; 7] = ["__bss_start", "_edata", "_end", "_etext", "_fini", "_init", "__end__"];

/// How the Itanium C++ ABI spells operator new and delete.
const CXX_ALLOCATORS: [&str; 4] = ["_Zda", "_Zdl", "_Zna", "_Znw"];

pub(super) static RULE: Rule = Rule {
    check: Check {
        id: "export-set",
        severity: Severity::Deny,
        what: "The library exports exactly the functions of its list; without a list, no data, no thread-local storage, no IFUNC and no name of libc or the C++ runtime.",
        why: "What a preload exports it imposes on every process: a weak malloc, a variable optind or a helper named lock takes the place of everybody's. What it fails to export is a door left open.",
        fix: "Export by a version script or -fvisibility=hidden, functions only, and only those of the list.",
        source: "gABI, symbol resolution; glibc elf/dl-lookup.c; measured on glibc 2.31 to 2.44 and musl (docs/measurements/loader-outcomes.md)",
    },
    run: |facts, policy, found| match facts.expected {
        Some(expected) => against_list(facts, expected, found),
        None => without_list(facts, policy, found),
    },
};

fn against_list(facts: &Facts<'_>, expected: &InterposedList, found: &mut Vec<Finding>) {
    let mut by_name: BTreeMap<&str, Vec<&Symbol<'_>>> = BTreeMap::new();
    for symbol in facts.table.symbols.iter().filter(|symbol| symbol.place != Place::Undefined) {
        by_name.entry(&symbol.name).or_default().push(symbol);
    }
    for row in &expected.rows {
        let name = row.name.as_str();
        if let Some(symbols) = by_name.get(name) {
            check_wanted(facts, name, symbols, found);
            continue;
        }
        let message = format!("{name} is in {} and not exported: the runtime's own function runs, without a word", expected.file);
        found.push(facts.found(&RULE.check, Outcome::LosesSilently, message).symbol(name));
    }
    for symbol in facts.exports().filter(|symbol| expected.row(&symbol.name).is_none()) {
        let origin = if glibc::is_libc_name(&symbol.name) { "a name of libc, and " } else { "" };
        let message = format!("{} ({}) is {origin}not in {}: every process gets it", symbol.name, described(symbol), expected.file);
        found.push(weigh_extra(facts, symbol, message));
    }
}

/// A name of the list that is there: does the loader bind a call to it?
fn check_wanted(facts: &Facts<'_>, name: &str, symbols: &[&Symbol<'_>], found: &mut Vec<Finding>) {
    // A version node is the business of `export-version`: here each definition is asked for by its own.
    let answers = symbols.iter().map(|symbol| binding::binds(facts.table, symbol, facts.table.version(symbol).map(|version| version.node)));
    let mut refused = None;
    for (answer, symbol) in answers.zip(symbols) {
        match answer {
            Ok(()) if symbol.place == Place::Absolute => {
                let message = format!("{name} is a number and no address (SHN_ABS): it is bound, and a call ends the process");
                found.push(facts.found(&RULE.check, Outcome::KillsTheCall, message).symbol(name));
                return;
            }
            Ok(()) if symbol.kind == Kind::IFunc => {
                let message = format!("{name} is an IFUNC: its resolver runs inside the loader of every process, and musl passes over it");
                found.push(facts.found(&RULE.check, Outcome::Depends, message).symbol(name).severity(Severity::Warn));
                return;
            }
            Ok(()) if symbol.binding == Binding::Weak => {
                let message = format!("{name} is weak: a strong definition wins under LD_DYNAMIC_WEAK");
                found.push(facts.found(&RULE.check, Outcome::Nothing, message).symbol(name).severity(Severity::Note));
                return;
            }
            Ok(()) => return,
            Err(why) => refused = Some((why, symbol)),
        }
    }
    let Some((why, symbol)) = refused else { return };
    let outcome = if symbol.is_export() && !symbol.is_function() { Outcome::KillsTheCall } else { Outcome::LosesSilently };
    let message = format!("{name} is there and does not serve: {why}");
    found.push(facts.found(&RULE.check, outcome, message).symbol(name));
}

fn without_list(facts: &Facts<'_>, policy: &Policy, found: &mut Vec<Finding>) {
    let mut helpers = Vec::new();
    for symbol in facts.exports() {
        let name = &*symbol.name;
        if symbol.is_function() && policy.is_runtime_name(name) && symbol.kind == Kind::Func {
            continue;
        }
        let kind = described(symbol);
        let what = if glibc::is_libc_name(name) {
            format!("{name} ({kind}) is a name of libc: every process uses the shim's instead")
        } else if CXX_ALLOCATORS.iter().any(|start| name.starts_with(start)) {
            format!("{name} ({kind}) is a C++ allocation operator: every process uses the shim's instead")
        } else if MADE_BY_LINKER.contains(&name) {
            format!("{name} ({kind}) is a name that linkers make, and is exported: every process gets it")
        } else if symbol.kind == Kind::IFunc {
            let message = format!("{name} is an IFUNC: its resolver runs inside the loader of every process, and musl passes over it");
            found.push(facts.found(&RULE.check, Outcome::Depends, message).symbol(name).severity(Severity::Warn));
            continue;
        } else if !symbol.is_function() || symbol.binding == Binding::GnuUnique {
            format!("{name} ({kind}) is exported, and is no function to interpose: every process gets it")
        } else {
            helpers.push(name);
            continue;
        };
        found.push(weigh_extra(facts, symbol, what));
    }
    helpers.sort_unstable();
    if !helpers.is_empty() {
        let message = format!("exports {}, which no known runtime has: in every process they take the place of others so named", list(&helpers));
        found.push(facts.found(&RULE.check, Outcome::ImposedOnAll, message).severity(Severity::Note).evidence("names", helpers));
    }
}

/// An export too many. What a linker made is no one's to call.
fn weigh_extra(facts: &Facts<'_>, symbol: &Symbol<'_>, message: String) -> Finding {
    let finding = facts.found(&RULE.check, Outcome::ImposedOnAll, message).symbol(&*symbol.name);
    if MADE_BY_LINKER.contains(&&*symbol.name) { finding.severity(Severity::Warn) } else { finding }
}

/// `weak function`, `data`, `thread-local data`, …
fn described(symbol: &Symbol<'_>) -> String {
    let kind = match symbol.kind {
        Kind::Func => "function",
        Kind::IFunc => "IFUNC",
        Kind::Object | Kind::Common => "data",
        Kind::Tls => "thread-local data",
        Kind::NoType => "symbol without type",
        Kind::Section | Kind::File | Kind::Other => "symbol of an odd type",
    };
    match symbol.binding {
        Binding::Weak => format!("weak {kind}"),
        Binding::GnuUnique => format!("unique {kind}"),
        _ => kind.into(),
    }
}
