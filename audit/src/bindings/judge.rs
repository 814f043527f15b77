//! From what the loader does to what becomes of each reference: held by the shim, past it, or not to be said.

use std::collections::BTreeMap;

use super::process::Process;
use super::{Binding, Context, Loaded, Verdict, checks, shakes};
use crate::elf::Result;
use crate::finding::Check;
use crate::loader::scope::{self, Outcome, Purpose, Reference, Rules};
use crate::loader::{Failure, Object, Unknown};
use crate::manifest::{Action, Class, ClassTable, Family};

/// One set of objects, judged.
pub(super) struct Judged {
    pub objects: Vec<Loaded>,
    pub bindings: Vec<Binding>,
    /// Who answers an object's look-ups by name.
    pub lookups: BTreeMap<(String, String), String>,
    /// Versions without which the loader stops.
    pub unmet: Vec<String>,
}

/// True if a family's name has to be interposed, in any release.
pub(super) fn must(family: &Family, name: &str, table: &ClassTable) -> bool {
    family.judge(name, None, table).is_some_and(|judged| table.rule(judged.class, judged.size).must_interpose)
}

pub(super) fn set(objects: &[Object], rules: Rules, dropped: &[Failure], context: &Context<'_>) -> Result<Judged> {
    let images = scope::open(objects)?;
    let process = Process::new(objects, &images, rules, context)?;
    let bound = process.scope.bind();
    let beneath = held_beneath(&process, &bound, context);
    let judge = Judge { process: &process, context, dropped, beneath };
    let mut bindings: Vec<Binding> = Vec::new();
    let mut lookups = BTreeMap::new();
    for (reference, outcome) in &bound {
        let Some(family) = judge.family(reference) else {
            if let Outcome::Bound(definition) = outcome {
                lookups.insert((process.path(reference.from).into(), reference.name.clone()), process.path(definition.object).into());
            }
            continue;
        };
        let binding = judge.binding(reference, outcome, family);
        // A call and an address of one name that get the same are one line.
        let same = bindings.last_mut().filter(|last| last.symbol == binding.symbol && last.version == binding.version && last.from == binding.from);
        match same.filter(|last| last.to == binding.to && last.definition == binding.definition) {
            Some(last) => last.purposes.extend(binding.purposes),
            None => bindings.push(binding),
        }
    }
    let describe = |unmet: scope::Unmet| {
        let (from, of) = (process.path(unmet.from), process.path(unmet.of));
        format!("{from}: requires version {} of {of}, which has no such version: the process would not start", unmet.version)
    };
    let mut unmet: Vec<String> = process.scope.unmet().into_iter().map(describe).collect();
    unmet.extend(bound.iter().filter_map(|(reference, outcome)| ends(&process, reference, outcome)));
    let loaded = |(at, object): (usize, &Object)| Loaded {
        path: object.path.clone(),
        soname: object.soname.clone(),
        how: object.how,
        rule: object.rule.clone(),
        needed_by: object.needed_by.map(|by| objects[by].path.clone()),
        role: process.role(at, context),
    };
    Ok(Judged { objects: objects.iter().enumerate().map(loaded).collect(), bindings, lookups, unmet })
}

/// What ends the process at a reference.
fn ends(process: &Process<'_>, reference: &Reference, outcome: &Outcome) -> Option<String> {
    let Outcome::Ends(object) = outcome else { return None };
    let (from, of) = (process.path(reference.from), process.path(*object));
    let node = reference.version.as_deref().unwrap_or_default();
    Some(format!("{from}: asks {of} for {}@{node}, and that file has no versions: glibc before 2.44 stops with an assertion", reference.name))
}

/// Takes up what another set of objects, that of another CPU, makes of the references: a verdict needs both.
pub(super) fn agree(bindings: &mut Vec<Binding>, other: Vec<Binding>) {
    let key = |binding: &Binding| (binding.from.clone(), binding.symbol.clone(), binding.version.clone());
    let mut others: BTreeMap<_, Binding> = other.into_iter().map(|binding| (key(&binding), binding)).collect();
    for binding in bindings.iter_mut() {
        match others.remove(&key(binding)) {
            Some(same) if same.verdict == binding.verdict && same.to == binding.to => {}
            Some(other) => {
                let there = other.to.as_deref().unwrap_or("nothing");
                let same = other.verdict == binding.verdict;
                binding.reason = format!("{}; on another CPU it gets {there}", binding.reason);
                if !same {
                    unclear(binding);
                }
            }
            None => only_here(binding),
        }
    }
    // Objects that only the other set has.
    for mut binding in others.into_values() {
        only_here(&mut binding);
        bindings.push(binding);
    }
}

fn unclear(binding: &mut Binding) {
    (binding.verdict, binding.check) = (Verdict::Unknown, Some(checks::UNCLEAR.id));
}

/// An object that only some CPUs load slips on these alone.
fn only_here(binding: &mut Binding) {
    if binding.verdict == Verdict::Slips {
        binding.reason = format!("{}, on some CPUs", binding.reason);
        unclear(binding);
    }
}

/// What leaves the objects open leaves open what holds: `held` needs certainty, `slips` is said as far as the files tell.
pub(super) fn doubt(bindings: &mut [Binding], unknowns: &[Unknown]) {
    let Some(first) = unknowns.iter().find(|unknown| shakes(unknown)) else { return };
    for binding in bindings.iter_mut().filter(|binding| binding.verdict == Verdict::Held) {
        binding.verdict = Verdict::Unknown;
        binding.reason = format!("{}, unless {} ({}) changes it", binding.reason, first.object, first.code);
    }
}

type Bound<'p> = [(&'p Reference, Outcome)];

struct Judge<'j, 'p> {
    process: &'j Process<'p>,
    context: &'j Context<'j>,
    dropped: &'j [Failure],
    /// Objects that are runtimes, whose every way to take memory from beneath is the shim's.
    beneath: Vec<usize>,
}

/// What is said of a reference.
struct Said {
    verdict: Verdict,
    check: Option<&'static Check>,
    reason: String,
}

fn said(verdict: Verdict, reason: impl Into<String>) -> Said {
    Said { verdict, check: None, reason: reason.into() }
}

fn slips(reason: String) -> Said {
    Said { verdict: Verdict::Slips, check: Some(&checks::SLIPS), reason }
}

impl Judge<'_, '_> {
    /// The family whose name it is: the one it is asked of, or the first that has the name.
    fn family(&self, reference: &Reference) -> Option<usize> {
        let families = self.context.families;
        let asked = |family: &Family| reference.file.as_deref().is_some_and(|file| family.is_runtime_name(file));
        families.iter().position(asked).or_else(|| families.iter().position(|family| family.row(&reference.name).is_some()))
    }

    fn binding(&self, reference: &Reference, outcome: &Outcome, index: usize) -> Binding {
        let (context, process) = (self.context, self.process);
        let family = &context.families[index];
        let judged = family.judge(&reference.name, None, context.table);
        let must = must(family, &reference.name, context.table);
        let target = match outcome {
            Outcome::Bound(definition) => process.scope.behind(*definition),
            Outcome::Nothing | Outcome::Ends(_) | Outcome::Unclear(_) => None,
        };
        let said = match (outcome, target) {
            (_, Some(target)) => self.judge(reference, target.object, index, judged.map(|judged| judged.class)),
            (Outcome::Unclear(objects), None) => {
                let paths: Vec<&str> = objects.iter().map(|&object| process.path(object)).collect();
                Said { verdict: Verdict::Unknown, check: Some(&checks::UNCLEAR), reason: format!("it gets one of {}", paths.join(" and ")) }
            }
            (Outcome::Ends(object), None) => said(Verdict::Unknown, format!("its version is asked of {}, which has none", process.path(*object))),
            _ if reference.weak => said(Verdict::NotNeeded, "nothing defines it: a weak reference, 0 at run time"),
            _ => Said { verdict: Verdict::Unknown, check: Some(&checks::UNDEFINED), reason: "no object of the process defines it".into() },
        };
        Binding {
            symbol: reference.name.clone(),
            version: reference.version.clone(),
            from: process.path(reference.from).into(),
            to: target.map(|target| process.path(target.object).into()),
            definition: target.map(|target| process.scope.describe(target)),
            purposes: vec![reference.purpose],
            family: family.name().into(),
            class: judged.map(|judged| judged.class),
            must_interpose: must,
            verdict: said.verdict,
            reason: said.reason,
            check: said.check.map(|check| check.id),
        }
    }

    fn judge(&self, reference: &Reference, to: usize, index: usize, class: Option<Class>) -> Said {
        let (context, process) = (self.context, self.process);
        let (name, family) = (reference.name.as_str(), &context.families[index]);
        if process.shims.contains(&reference.from) {
            return said(Verdict::NotNeeded, "the shim's own call");
        }
        let Some(class) = class else {
            return said(Verdict::Unknown, "no manifest says what it does");
        };
        let rule = family.judge(name, None, context.table).map(|judged| context.table.rule(judged.class, judged.size));
        let Some(rule) = rule.filter(|rule| rule.must_interpose) else {
            return self.not_needed(reference, to, index, class);
        };
        if process.shims.contains(&to) {
            let action = context.actions.get(process.path(to)).and_then(|list| list.row(name)).and_then(|row| row.action);
            return match action {
                Some(action) if !rule.actions.contains(&action) => slips(format!("{} has it and only {}", process.path(to), does(action))),
                _ => said(Verdict::Held, format!("bound to {}", process.path(to))),
            };
        }
        if process.runtime[to] != Some(index) {
            let reason = format!("bound to {}, which is neither a shim nor a runtime of {}", process.path(to), family.name());
            return Said { verdict: Verdict::Unknown, check: Some(&checks::ELSEWHERE), reason };
        }
        if reference.from == to {
            return said(Verdict::NotNeeded, "a call inside the runtime: the entry that leads to it is judged by itself");
        }
        if process.runtime[reference.from].is_some_and(|above| context.families[above].identity.beneath.as_deref() == Some(family.name())) {
            return said(Verdict::NotNeeded, "a call of the runtime above: the entry that leads to it is judged by itself");
        }
        let elsewhere = family.row(name).is_some_and(|row| row.elsewhere);
        if rule.coverable_below && !elsewhere && self.beneath.contains(&to) {
            return said(Verdict::Held, "held beneath: whatever the runtime takes for it passes the shim");
        }
        if let Some(entry) = context.acceptance(family, name, class) {
            return said(Verdict::Held, format!("left open on purpose: {}", entry.reason));
        }
        slips(self.why(reference, to))
    }

    /// What need not be interposed may still come from the wrong runtime.
    fn not_needed(&self, reference: &Reference, to: usize, index: usize, class: Class) -> Said {
        let process = self.process;
        let here = |at: &usize| process.objects[*at].soname.as_deref() == reference.file.as_deref();
        let asked = reference.file.as_ref().and_then(|_| (0..process.objects.len()).find(here)).filter(|&asked| asked != to);
        match asked {
            Some(asked) if process.runtime[to] == Some(index) => {
                let reason = format!("asked of {}, bound to {}, which stands before it", process.path(asked), process.path(to));
                Said { verdict: Verdict::NotNeeded, check: Some(&checks::CROSSES), reason }
            }
            _ => said(Verdict::NotNeeded, format!("{class}: need not be held")),
        }
    }

    /// Why a reference gets the runtime's own function.
    fn why(&self, reference: &Reference, to: usize) -> String {
        let process = self.process;
        let runtime = process.path(to);
        let Some(&shim) = process.shims.iter().find(|&&shim| process.scope.defines(shim, &reference.name)).or(process.shims.first()) else {
            return match self.dropped.first() {
                Some(dropped) => format!("bound to {runtime}: the loader drops the preload {} ({})", dropped.name, dropped.problem),
                None => format!("bound to {runtime}: no shim is preloaded"),
            };
        };
        let path = process.path(shim);
        if !process.scope.defines(shim, &reference.name) {
            return format!("bound to {runtime}: {path} has no such function");
        }
        match process.scope.why_not(shim, &reference.name, reference.version.as_deref()) {
            Some(why) => format!("bound to {runtime}: {path} has it, but {why}"),
            None => format!("bound to {runtime}, which stands before {path}"),
        }
    }
}

fn does(action: Action) -> &'static str {
    match action {
        Action::Pass => "passes it through",
        Action::Charge => "charges it",
        Action::Refund => "refunds it",
        Action::Report => "reports the quota",
        Action::HandOut => "hands out pointers",
    }
}

/// Runtimes whose every import that moves memory of the card is bound to a shim in this very process. None at all, or one short, and it is none.
fn held_beneath(process: &Process<'_>, bound: &Bound<'_>, context: &Context<'_>) -> Vec<usize> {
    let holds = |&runtime: &usize| {
        let Some(family) = process.runtime[runtime].map(|index| &context.families[index]) else { return false };
        let Some(beneath) = context.families.iter().find(|other| family.identity.beneath.as_deref() == Some(other.name())) else { return false };
        let mut allocators = 0;
        for (reference, outcome) in bound.iter().filter(|(reference, _)| reference.from == runtime) {
            let Some(judged) = beneath.judge(&reference.name, None, context.table) else {
                // A function that no manifest knows may take memory.
                if reference.file.as_deref().is_some_and(|file| beneath.is_runtime_name(file)) {
                    return false;
                }
                continue;
            };
            if !beneath.moves_memory(&reference.name, judged.class) || !must(beneath, &reference.name, context.table) {
                continue;
            }
            let by_shim = matches!(outcome, Outcome::Bound(definition) if process.shims.contains(&definition.object));
            let accepted = judged.class == Class::Free && context.acceptance(beneath, &reference.name, judged.class).is_some();
            if !by_shim && !accepted {
                return false;
            }
            allocators += usize::from(judged.class != Class::Free && reference.purpose != Purpose::Copy);
        }
        allocators > 0
    };
    (0..process.objects.len()).filter(holds).collect()
}
