//! `vrocm-audit bindings`: one program, all its objects, and who gets whose functions.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicUsize;

use anyhow::bail;

use super::{Result, coverage, deliver, inputs, is_own_shim};
use crate::bindings::{self, Context, Named, Role, Unseen, Verdict};
use crate::cli::Bindings;
use crate::consumers::{self, Auditor, checks as consumer};
use crate::elf::{Elf, Source, constants};
use crate::finding::Finding;
use crate::loader::shim::Shim;
use crate::loader::{self, Linking, Object, Request, Resolution};
use crate::manifest::{Acceptances, ClassTable, Family, InterposedList};
use crate::parallel;
use crate::report::{Report, Subjects};

/// Functions with which an object looks names up; a shim that answers them has to be the one that is asked.
const LOOKUPS: [&str; 2] = ["dlsym", "dlvsym"];

pub(super) fn run(arguments: &Bindings) -> Result<ExitCode> {
    let mut request = inputs::request(&arguments.program, &[], &arguments.variables, false, arguments.root.as_deref())?;
    request.preloads.clone_from(&arguments.preloads);
    let resolution = resolve(&mut request)?;
    refuse_library(&resolution)?;
    let own = resolution.objects.iter().any(|object| is_own_shim(&object.file));
    let families = Family::embedded()?;
    let table = ClassTable::embedded()?;
    let acceptances = match &arguments.accepted.accept {
        Some(path) => inputs::acceptances(Some(path), None)?,
        None if own => Acceptances::embedded()?,
        None => Acceptances::default(),
    };
    let actions = actions(&resolution)?;
    let context = Context { families: &families, table: &table, acceptances: &acceptances, actions: &actions, today: coverage::today() };
    let variable = |name: &str| resolution.variable(name).map(Into::into);
    let mut subject = bindings::audit(&arguments.program, &resolution, &variable, &context)?;
    let mut findings = bindings::findings(&subject);
    let mut unread = std::mem::take(&mut subject.unable);
    let seen = look_inside(&resolution, &subject, &context)?;
    unread.extend(seen.unread);
    findings.extend(seen.findings);
    (subject.unseen, subject.named) = (seen.unseen, seen.named);
    deliver(Report::new("vrocm-audit", Subjects::Bindings(Box::new(subject)), findings, unread), arguments.output.format)
}

/// A name without a slash is one for `PATH`; where that has none, a file of this name in the working directory will do.
fn resolve(request: &mut Request) -> Result<Resolution> {
    let first = loader::resolve(request);
    if first.is_err() && !request.command.contains('/') && Path::new(&request.cwd).join(&request.command).is_file() {
        request.command = format!("./{}", request.command);
        return Ok(loader::resolve(request)?);
    }
    Ok(first?)
}

/// Without an interpreter a shared object is no static program: who loads it decides what it binds.
fn refuse_library(resolution: &Resolution) -> Result<()> {
    let Some(program) = resolution.objects.first().filter(|_| resolution.linking == Linking::Static) else { return Ok(()) };
    let image = Elf::open(&program.file)?;
    if image.header.file_type == constants::ET_DYN.0 && image.dynamic.flags_1() & constants::DF_1_PIE.0 == 0 {
        bail!("{}: is a library: what it binds depends on the program that loads it; ask about that, or see `consumers`", resolution.program);
    }
    Ok(())
}

/// What the objects that are our own shim do with their names, by path.
fn actions(resolution: &Resolution) -> Result<BTreeMap<String, InterposedList>> {
    let own = resolution.sets().flatten().filter(|object| is_own_shim(&object.file));
    own.map(|object| Ok((object.path.clone(), InterposedList::own()?))).collect()
}

/// What is in the objects beside relocations.
#[derive(Default)]
struct Seen {
    unseen: Vec<Unseen>,
    named: Vec<Named>,
    findings: Vec<Finding>,
    unread: Vec<String>,
}

/// Looks through every object but the shim as `consumers` does; what it imports is known better from the bindings.
fn look_inside(resolution: &Resolution, subject: &bindings::Subject, context: &Context<'_>) -> Result<Seen> {
    let shim_path = subject.objects.iter().find(|object| object.role == Role::Shim).map(|object| object.path.as_str());
    let shim_file = resolution.objects.iter().find(|object| Some(object.path.as_str()) == shim_path).map(|object| object.file.as_path());
    let image = shim_file.map(Elf::open).transpose()?;
    let shim = match &image {
        Some(image) => Shim::from_library(image, inputs::interposed(None, shim_file)?)?,
        None => Shim::from_list(InterposedList { file: String::new(), title: "nothing preloaded".into(), rows: Vec::new() }),
    };
    let auditor = Auditor::new(context.families, context.table, &shim, image.as_ref(), context.acceptances, context.today);
    let mut objects: Vec<(usize, &Object)> = Vec::new();
    for (at, object) in resolution.sets().flat_map(|set| set.iter().enumerate()) {
        if Some(object.path.as_str()) != shim_path && !objects.iter().any(|(_, known)| known.path == object.path) {
            objects.push((at, object));
        }
    }
    let audit = |object: &Object| Source::open(&object.file).and_then(|source| auditor.audit(source, false));
    let accounts = parallel::fold(&objects, &AtomicUsize::new(0), Vec::new, |account, at, (_, object)| account.push((at, audit(object))));
    let mut audited: Vec<_> = accounts.into_iter().flatten().collect();
    audited.sort_by_key(|(at, _)| *at);
    let mut seen = Seen::default();
    for (at, looked) in audited {
        let (index, object) = objects[at];
        match looked {
            Ok(Some(found)) => take(&mut seen, resolution, subject, (index, object), found, (&shim, shim_path)),
            Ok(None) => {}
            Err(error) => seen.unread.push(error.to_string()),
        }
    }
    Ok(seen)
}

fn take(
    seen: &mut Seen,
    resolution: &Resolution,
    subject: &bindings::Subject,
    (index, object): (usize, &Object),
    mut found: consumers::Subject,
    (shim, shim_path): (&Shim<'_>, Option<&str>),
) {
    // Bindings are exact about imports; the rest of the file's reasons hold for the process.
    found.reasons.retain(|reason| reason.code != consumer::IMPORT_SLIPS.id);
    let asks = |name: &&str| subject.lookups.get(&(object.path.clone(), (*name).to_string())).map(String::as_str);
    let other = LOOKUPS.into_iter().filter(|name| shim.has(name)).filter_map(|name| asks(&name)).find(|&to| to != shim_path.unwrap_or_default());
    if let Some(to) = other.filter(|_| !found.lookups.is_empty()) {
        found.reasons.retain(|reason| reason.code != consumer::LOOKUP_SLIPS.id && reason.code != consumer::HOOK_UNKNOWN.id);
        found.reasons.push(consumers::Reason {
            code: consumer::HOOK_UNKNOWN.id,
            verdict: consumers::Verdict::Unknown,
            message: format!("looks names of a runtime up, and gets dlsym from {to}, not from the shim"),
            symbols: Vec::new(),
        });
    }
    found.file.clone_from(&object.path);
    seen.findings.extend(consumers::findings(&found));
    for reason in &found.reasons {
        let verdict = if reason.verdict == consumers::Verdict::Slips { Verdict::Slips } else { Verdict::Unknown };
        seen.unseen.push(Unseen { object: object.path.clone(), code: reason.code, verdict, message: reason.message.clone() });
    }
    let is_name = |text: &&String| !text.contains([' ', '%', '*', '\t']) && text.contains(".so");
    for name in found.libraries.iter().filter(is_name).filter(|_| resolution.linking == Linking::Glibc) {
        seen.named.push(Named::new(&object.path, name, resolution.search(name, index), &subject.objects));
    }
}
