//! From facts to a verdict: each way to a runtime is held, slips past, or cannot be judged; the worst of them is the file's.

use std::collections::BTreeSet;

use super::facts::{DeepBind, Facts, Import};
use super::{Auditor, Check, Reached, Reason, Subject, Verdict, checks};
use crate::loader::shim::Match;
use crate::manifest::builds::KnownImport;
use crate::manifest::{Action, Class, Family};

/// Names that are spelled out in a sentence; all are in the report's lists.
const NAMED: usize = 6;

/// What the shim makes of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    /// The shim's function is what the file gets, or nothing has to be held.
    Held,
    /// The runtime's own function is.
    Not,
}

pub(super) fn subject(auditor: &Auditor<'_>, file: &str, facts: Facts) -> Subject {
    let mut reasons = Vec::new();
    let imports: Vec<Reached> = facts.imports.iter().map(|import| reached(auditor, import)).collect();
    let able = facts.static_program || facts.imports_any(&["dlsym", "dlvsym"]);
    let looked_up = |(family, name): &(usize, String)| reached(auditor, &Import { family: *family, name: name.clone(), node: None });
    let lookups: Vec<Reached> = if able { facts.names.iter().map(looked_up).collect() } else { Vec::new() };
    judge_imports(&imports, &mut reasons);
    if facts.static_program {
        judge_static(&facts, &mut reasons);
    } else {
        judge_lookups(auditor, &facts, &lookups, &mut reasons);
        judge_opening(&facts, &lookups, &mut reasons);
    }
    judge_kernel(&facts, &mut reasons);
    if facts.touches()
        && let Some(platform) = auditor.platform.filter(|&platform| platform != facts.platform)
    {
        let message = format!(
            "is a {}-bit file for {}, the shim a {}-bit one for another machine or word size: the loader would not preload it here",
            facts.platform.0 * 8,
            facts.machine,
            platform.0 * 8
        );
        reasons.push(reason(&checks::MACHINE_UNKNOWN, message, Vec::new()));
    }
    let worst = reasons.iter().map(|reason| reason.verdict).max();
    let verdict = worst.unwrap_or(if facts.touches() { Verdict::Held } else { Verdict::Untouched });
    let named = |families: &BTreeSet<usize>| families.iter().map(|&family| auditor.families[family].name().to_string()).collect::<Vec<_>>();
    let strings = facts.names.iter().filter(|_| able).chain(&facts.libraries).map(|(family, _)| *family);
    let families = facts.imports.iter().map(|import| import.family).chain(facts.needed.iter().copied()).chain(strings).collect();
    Subject {
        file: file.into(),
        runtime_of: named(&facts.runtime),
        families: named(&families),
        verdict,
        imports,
        lookups,
        libraries: facts.libraries.into_iter().map(|(_, text)| text).collect::<BTreeSet<_>>().into_iter().collect(),
        dynamic: facts.dynamic.into_iter().map(|(name, _)| name).collect(),
        deepbind: match facts.deepbind {
            DeepBind::No => "no",
            DeepBind::Yes => "yes",
            DeepBind::Unread(_) => "unknown",
        },
        is_static: facts.static_program,
        kernel: facts.devices.into_iter().chain(facts.thunk).collect(),
        soname: facts.soname,
        build_id: facts.build_id,
        machine: facts.machine,
        reasons,
    }
}

pub(super) fn reason(check: &Check, message: impl Into<String>, symbols: Vec<String>) -> Reason {
    let verdict = if check.severity == crate::finding::Severity::Deny { Verdict::Slips } else { Verdict::Unknown };
    Reason { code: check.id, verdict, message: message.into(), symbols }
}

pub(super) fn reached(auditor: &Auditor<'_>, import: &Import) -> Reached {
    let family = &auditor.families[import.family];
    let judged = family.judge(&import.name, None, auditor.table);
    let rule = judged.map(|judged| auditor.table.rule(judged.class, judged.size));
    let must = rule.is_some_and(|rule| rule.must_interpose);
    let held = rule.is_some() && hold(auditor, family, import, must) == Hold::Held;
    Reached { name: import.name.clone(), node: import.node.clone(), class: judged.map(|judged| judged.class), must_interpose: must, held }
}

fn hold(auditor: &Auditor<'_>, family: &Family, import: &Import, must: bool) -> Hold {
    let Some(judged) = family.judge(&import.name, None, auditor.table).filter(|_| must) else { return Hold::Held };
    let rule = auditor.table.rule(judged.class, judged.size);
    match auditor.shim.look_up(&import.name, import.node.as_deref()) {
        Match::Binds(action) if action.is_none_or(|action| rule.actions.contains(&action)) => return Hold::Held,
        Match::Binds(_) | Match::Refused(_) => return Hold::Not,
        Match::Absent => {}
    }
    let elsewhere = family.row(&import.name).is_some_and(|row| row.elsewhere);
    let beneath = rule.coverable_below && !elsewhere && held_beneath(auditor, family);
    if beneath || accepted(auditor, family, &import.name, judged.class) { Hold::Held } else { Hold::Not }
}

fn accepted(auditor: &Auditor<'_>, family: &Family, name: &str, class: Class) -> bool {
    auditor.acceptances.entries.iter().any(|entry| !entry.expired(auditor.today) && entry.covers(family.name(), name, class, None))
}

/// True if the shim holds every import by which any known build of the runtime moves memory of the card: which release will be there is not known.
fn held_beneath(auditor: &Auditor<'_>, family: &Family) -> bool {
    let Some(beneath) = auditor.families.iter().find(|other| family.identity.beneath.as_deref() == Some(other.name())) else { return false };
    let held = |import: &KnownImport| {
        let Some(judged) = beneath.judge(import.name, None, auditor.table) else { return false };
        !beneath.moves_memory(import.name, judged.class)
            || !auditor.table.rule(judged.class, judged.size).must_interpose
            || (import.preload_wins && matches!(auditor.shim.look_up(import.name, import.node), Match::Binds(_)))
            || (judged.class == Class::Free && accepted(auditor, beneath, import.name, judged.class))
    };
    let allocates = |import: &KnownImport| {
        let class = beneath.judge(import.name, None, auditor.table).map(|judged| judged.class);
        matches!(class, Some(Class::DeviceAlloc | Class::ManagedAlloc))
    };
    !family.builds.is_empty() && family.builds.iter().all(|build| build.imports.iter().any(allocates) && build.imports.iter().all(held))
}

/// Sorted names that are not held, and a few of them as text.
fn open(reached: &[Reached]) -> Vec<String> {
    reached.iter().filter(|reached| reached.must_interpose && !reached.held).map(|reached| reached.name.clone()).collect()
}

fn some(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMED);
    let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{tail}", names[..names.len() - more].join(", "))
}

fn judge_imports(imports: &[Reached], reasons: &mut Vec<Reason>) {
    let slipping = open(imports);
    if !slipping.is_empty() {
        reasons.push(reason(&checks::IMPORT_SLIPS, format!("imports {}, which the shim does not hold", some(&slipping)), slipping));
    }
    let strange: Vec<String> = imports.iter().filter(|import| import.class.is_none()).map(|import| import.name.clone()).collect();
    if !strange.is_empty() {
        reasons.push(reason(&checks::IMPORT_UNKNOWN, format!("imports {}, which no manifest classifies", some(&strange)), strange));
    }
}

fn judge_static(facts: &Facts, reasons: &mut Vec<Reason>) {
    if !facts.devices.is_empty() || !facts.thunk.is_empty() {
        let message = "is a static program, which no preload reaches, and names the kernel's device or the library that talks to it";
        reasons.push(reason(&checks::STATIC_SLIPS, message, Vec::new()));
    } else if facts.touches() {
        let message = "is a static program, which no preload reaches, and names a runtime or its functions";
        reasons.push(reason(&checks::STATIC_UNKNOWN, message, Vec::new()));
    }
}

/// What the shim does with look-ups by name.
enum Hook {
    Answers,
    Absent(String),
    Unproven(String),
}

fn hook(auditor: &Auditor<'_>, facts: &Facts) -> Hook {
    let mut answer = Hook::Answers;
    for (name, node) in facts.dynamic.iter().filter(|(name, _)| name.contains("sym")) {
        match auditor.shim.look_up(name, node.as_deref()) {
            Match::Binds(Some(Action::HandOut)) => {}
            Match::Binds(None) => answer = Hook::Unproven(name.clone()),
            Match::Binds(Some(_)) | Match::Refused(_) | Match::Absent => return Hook::Absent(name.clone()),
        }
    }
    answer
}

fn judge_lookups(auditor: &Auditor<'_>, facts: &Facts, lookups: &[Reached], reasons: &mut Vec<Reason>) {
    let opens = !facts.libraries.is_empty() && facts.imports_any(&["dlopen", "dlmopen"]);
    let must: Vec<String> = lookups.iter().filter(|name| name.must_interpose).map(|name| name.name.clone()).collect();
    let looks = facts.imports_any(&["dlsym", "dlvsym"]);
    if must.is_empty() && !(opens && lookups.is_empty()) {
        return;
    }
    if must.is_empty() && !looks {
        let message = "names a runtime's library and imports dlopen, but looks nothing up itself: who uses what it opens cannot be seen here";
        reasons.push(reason(&checks::NAMES_UNSEEN, message, Vec::new()));
        return;
    }
    match hook(auditor, facts) {
        Hook::Answers if must.is_empty() => {
            if !holds_everything(auditor, facts) {
                reasons.push(reason(
                    &checks::NAMES_UNSEEN,
                    "opens a runtime and looks names up that cannot be seen, and the shim does not answer for all of them",
                    Vec::new(),
                ));
            }
        }
        Hook::Answers => {
            let slipping = open(lookups);
            if !slipping.is_empty() {
                let message = format!(
                    "holds the names {} and looks names up; the shim answers dlsym, but has no function of its own for them",
                    some(&slipping)
                );
                reasons.push(reason(&checks::LOOKUP_SLIPS, message, slipping));
            }
        }
        Hook::Unproven(name) => {
            let message = format!("looks names up, and the shim has a {name} of which no list says that it answers with the shim's own functions");
            reasons.push(reason(&checks::HOOK_UNKNOWN, message, must));
        }
        Hook::Absent(_) if must.is_empty() => {
            reasons.push(reason(
                &checks::NAMES_UNSEEN,
                "opens a runtime and looks names up that cannot be seen; the shim does not answer dlsym",
                Vec::new(),
            ));
        }
        Hook::Absent(name) if opens => {
            let message = format!("opens the runtime by name and looks up {} with {name}, which the shim does not answer", some(&must));
            reasons.push(reason(&checks::LOOKUP_SLIPS, message, must));
        }
        Hook::Absent(name) => {
            let message =
                format!("holds the names {} and imports {name}, which the shim does not answer; which handle it asks cannot be seen", some(&must));
            reasons.push(reason(&checks::LOOKUP_UNSEEN, message, must));
        }
    }
}

/// True if the shim has a function for whatever must be interposed in the families whose library the file names.
fn holds_everything(auditor: &Auditor<'_>, facts: &Facts) -> bool {
    let families: BTreeSet<usize> = facts.libraries.iter().map(|(family, _)| *family).collect();
    families.into_iter().all(|index| {
        let family = &auditor.families[index];
        family.rows().iter().all(|row| {
            let found = reached(auditor, &Import { family: index, name: row.name.into(), node: None });
            !found.must_interpose || found.held
        })
    })
}

fn judge_opening(facts: &Facts, lookups: &[Reached], reasons: &mut Vec<Reason>) {
    let reaches = !facts.libraries.is_empty() || !lookups.is_empty();
    match facts.deepbind {
        DeepBind::Yes if !facts.libraries.is_empty() => {
            reasons.push(reason(&checks::DEEPBIND_SLIPS, "names a runtime's library and opens a library with RTLD_DEEPBIND", Vec::new()));
        }
        DeepBind::Yes => {
            let message = "opens a library with RTLD_DEEPBIND: if that one reaches the runtime, its calls go past the preload";
            reasons.push(reason(&checks::DEEPBIND_UNKNOWN, message, Vec::new()));
        }
        DeepBind::Unread(because) if reaches => {
            reasons.push(reason(
                &checks::DEEPBIND_UNKNOWN,
                format!("whether it opens the runtime with RTLD_DEEPBIND is not known: {because}"),
                Vec::new(),
            ));
        }
        DeepBind::No | DeepBind::Unread(_) => {}
    }
    if facts.imports_any(&["dlmopen"]) {
        reasons.push(reason(&checks::NAMESPACE_UNKNOWN, "imports dlmopen: what it opens in another namespace meets no preload", Vec::new()));
    }
}

fn judge_kernel(facts: &Facts, reasons: &mut Vec<Reason>) {
    if facts.static_program || (facts.devices.is_empty() && facts.thunk.is_empty()) {
        return;
    }
    let names: Vec<String> = facts.devices.iter().chain(&facts.thunk).cloned().collect();
    reasons.push(reason(&checks::THUNK_UNKNOWN, format!("holds {}: it may talk to the kernel's device itself", some(&names)), names));
}
