//! Two files or trees of manifests: a text difference for whoever reviews it, and what it means for the doors.
//!
//! Each file is read by the rules of its sort first: a bad one is an error, and two of different sorts are not compared.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;
use similar::{ChangeTag, TextDiff};

use super::checks;
use crate::finding::Finding;
use crate::linkage::Policy;
use crate::manifest::schema::{self, ClassesFile, Rules};
use crate::manifest::{
    Acceptances, BadManifest, Class, ClassTable, CodeReading, Hints, InterposedList, Judgement, Release, builds, devices, minors, read_identity,
};

/// How long the search for the shortest difference of two texts may take; beyond it a longer one is shown.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a manifest is, by the keys that only files of its sort have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sort {
    /// `classes.json` of a family.
    Judgements,
    /// `readings/<release>.json`.
    Reading,
    /// `exports/<release>.json`.
    Exports,
    /// `family.json`.
    Family,
    /// `classes.json` over all families: what follows from a class.
    Classes,
    /// `accepted.json`.
    Acceptances,
    /// `interposed.json`.
    Interposed,
    /// `evidence.json`.
    Evidence,
    /// A linkage policy.
    Policy,
    /// `device-ids.json`.
    Devices,
    /// `releases.json`.
    Releases,
    /// Data of the tree that is compared as text alone.
    Data,
}

impl Sort {
    /// What the sort is called in messages.
    pub fn words(self) -> &'static str {
        match self {
            Self::Judgements => "the judgements of a family",
            Self::Reading => "what the machine code of a build says",
            Self::Exports => "the export list of a build",
            Self::Family => "the identity of a family",
            Self::Classes => "the rules of the classes",
            Self::Acceptances => "acceptances",
            Self::Interposed => "a list of interposed names",
            Self::Evidence => "the seeds of the machine code's reading",
            Self::Policy => "a linkage policy",
            Self::Devices => "a table of device ids",
            Self::Releases => "a table of minors and releases",
            Self::Data => "other data",
        }
    }

    /// Which sort a text is of; `None` for what is no manifest.
    pub fn of(text: &str) -> Option<Self> {
        let value: serde_json::Value = serde_json::from_str(text).ok()?;
        if value.as_array().is_some_and(|rows| rows.iter().all(|row| row.get("minor").is_some())) {
            return Some(Self::Releases);
        }
        let has = |keys: &[&str]| keys.iter().all(|key| value.get(key).is_some());
        let sorts: [(&[&str], Self); 10] = [
            (&["takes", "exports", "build_id"], Self::Reading),
            (&["exports", "build_id"], Self::Exports),
            (&["exports", "family", "releases"], Self::Judgements),
            (&["anchors", "family"], Self::Family),
            (&["classes"], Self::Classes),
            (&["accepted"], Self::Acceptances),
            (&["seeds", "negatives"], Self::Evidence),
            (&["runtime_prefixes"], Self::Policy),
            (&["devices", "source"], Self::Devices),
            (&["title", "exports"], Self::Interposed),
        ];
        sorts.into_iter().find(|(keys, _)| has(keys)).map(|(_, sort)| sort)
    }

    fn check(self, file: &str, text: &str) -> Result<(), BadManifest> {
        match self {
            Self::Judgements => schema::rows(file, text).map(drop),
            Self::Reading => CodeReading::read(file, text).map(drop),
            Self::Exports => builds::known_build(file, text).map(drop),
            Self::Family => read_identity(file, text).map(drop),
            Self::Classes => ClassTable::read(file, text).map(drop),
            Self::Acceptances => Acceptances::read(file, text).map(drop),
            Self::Interposed => InterposedList::read(file, text).map(drop),
            Self::Evidence => Hints::read(file, text).map(drop),
            Self::Policy => Policy::read(file, text).map(drop),
            Self::Devices => devices::read(file, text).map(drop),
            Self::Releases => minors::read(file, text).map(drop),
            Self::Data => Ok(()),
        }
    }
}

/// One side: texts by their names in the tree, or one text without a name.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    /// The file or folder.
    pub file: String,
    /// Name below it, and text.
    pub texts: BTreeMap<String, String>,
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// In both, with other text.
    Changed,
    /// In the newer tree only.
    Added,
    /// In the older tree only.
    Removed,
}

/// The class of an export, older and newer; absent where the file has no entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Judged {
    /// The export.
    pub name: String,
    /// What it was judged as, releases that differ included.
    pub old: Option<String>,
    /// What it is judged as.
    pub new: Option<String>,
}

/// One file that differs.
#[derive(Debug, Clone, Serialize)]
pub struct File {
    /// Its name in the tree; empty where two files were named.
    pub name: String,
    /// What it is.
    pub sort: Sort,
    /// What became of it.
    pub status: Status,
    /// Lines gained.
    pub lines_added: usize,
    /// Lines lost.
    pub lines_removed: usize,
    /// Judgements of which the class changed.
    pub judgements: Vec<Judged>,
    /// The difference in the unified form; empty for a file that is whole in one tree and not in the other.
    pub text: String,
}

/// What changed.
#[derive(Debug, Clone, Serialize)]
pub struct Change {
    /// The older file or folder.
    pub old: String,
    /// The newer one.
    pub new: String,
    /// Files that are the same in both.
    pub same: usize,
    /// Files that differ, by name.
    pub files: Vec<File>,
}

/// Compares two trees. A file whose sort is not the same in both is an error, as is one that breaks a rule.
pub fn compare(old: &Tree, new: &Tree, findings: &mut Vec<Finding>) -> Result<Change, BadManifest> {
    let mut change = Change { old: old.file.clone(), new: new.file.clone(), same: 0, files: Vec::new() };
    let names: BTreeSet<&String> = old.texts.keys().chain(new.texts.keys()).collect();
    for name in names {
        let path = |tree: &Tree| if name.is_empty() { tree.file.clone() } else { format!("{}/{name}", tree.file) };
        let sort = |tree: &Tree| -> Result<Option<Sort>, BadManifest> {
            let Some(text) = tree.texts.get(name) else { return Ok(None) };
            let sort = Sort::of(text).unwrap_or(Sort::Data);
            sort.check(&path(tree), text)?;
            Ok(Some(sort))
        };
        let (before, after) = (old.texts.get(name), new.texts.get(name));
        let (was, is) = (sort(old)?, sort(new)?);
        if let (Some(was), Some(is)) = (was, is)
            && was != is
        {
            let file = path(new);
            let rules = Rules { file: &file };
            return Err(rules.broken("sort", format!("{}, but {} is {}: they are not compared", is.words(), path(old), was.words())));
        }
        if before == after {
            change.same += 1;
            continue;
        }
        let Some(sort) = is.or(was) else { continue };
        let status = match (before, after) {
            (None, _) => Status::Added,
            (_, None) => Status::Removed,
            _ => Status::Changed,
        };
        let empty = String::new();
        let (before, after) = (before.unwrap_or(&empty), after.unwrap_or(&empty));
        let texts = [(path(old), before.as_str()), (path(new), after.as_str())];
        change.files.push(file(name, sort, status, &texts));
        weigh(sort, &texts, &mut change, findings);
    }
    Ok(change)
}

fn file(name: &str, sort: Sort, status: Status, [(old, before), (new, after)]: &[(String, &str); 2]) -> File {
    let lines = TextDiff::configure().timeout(PATIENCE).diff_lines(*before, *after);
    let count = |tag| lines.iter_all_changes().filter(|line| line.tag() == tag).count();
    let text = match status {
        Status::Changed => lines.unified_diff().context_radius(1).header(old, new).to_string(),
        Status::Added | Status::Removed => String::new(),
    };
    let (lines_added, lines_removed) = (count(ChangeTag::Insert), count(ChangeTag::Delete));
    File { name: name.into(), sort, status, lines_added, lines_removed, judgements: Vec::new(), text }
}

/// What the difference means for the doors. The texts have passed their rules; an absent one is empty and has no entries.
fn weigh(sort: Sort, [(old, before), (new, after)]: &[(String, &str); 2], change: &mut Change, findings: &mut Vec<Finding>) {
    match sort {
        Sort::Judgements => {
            let read = |file: &str, text: &str| schema::read_classes(file, text).ok();
            let (was, is) = (read(old, before), read(new, after));
            let judged = judgements(was.as_ref(), is.as_ref(), new, findings);
            if let Some(file) = change.files.last_mut() {
                file.judgements = judged;
            }
        }
        Sort::Classes => {
            let (Ok(was), Ok(is)) = (ClassTable::read(old, before), ClassTable::read(new, after)) else { return };
            for class in Class::ALL {
                for size in [None, Some(schema::Size::Caller), Some(schema::Size::Bounded)] {
                    if (class == Class::IndirectAlloc) == size.is_some()
                        && was.rule(class, size).must_interpose
                        && !is.rule(class, size).must_interpose
                    {
                        let message = format!("class {class} need no longer be interposed: {}", is.rule(class, size).why);
                        findings.push(checks::JUDGEMENT_WEAKENED.finding(new, message).symbol(class.word()));
                    }
                }
            }
        }
        Sort::Acceptances => {
            let read = |file: &str, text: &str| Acceptances::read(file, text).unwrap_or_default().entries;
            let was = read(old, before);
            for entry in read(new, after) {
                if !was.iter().any(|other| (&other.family, other.subject(), &other.reason) == (&entry.family, entry.subject(), &entry.reason)) {
                    let until = entry.until.map_or_else(|| "without an end".to_string(), |until| format!("until {until}"));
                    let message = format!("{} of {} is accepted {until}: {}", entry.subject(), entry.family, entry.reason);
                    findings.push(checks::ACCEPTANCE_ADDED.finding(new, message).symbol(entry.subject()));
                }
            }
        }
        _ => {}
    }
}

fn judgements(old: Option<&ClassesFile>, new: Option<&ClassesFile>, file: &str, findings: &mut Vec<Finding>) -> Vec<Judged> {
    let by_name = |classes: Option<&ClassesFile>| -> BTreeMap<String, Judgement> {
        classes.into_iter().flat_map(|classes| classes.exports.iter().map(|entry| (entry.name.clone(), entry.clone()))).collect()
    };
    // What is said of a release that nobody had judged before takes nothing back.
    let releases: Vec<Release> = old.into_iter().flat_map(|classes| classes.releases.iter().copied()).collect();
    let (before, after) = (by_name(old), by_name(new));
    let table = ClassTable::embedded().ok();
    let must = |entry: &Judgement, release: Release| {
        let (class, size) = entry.in_release(release);
        table.as_ref().is_some_and(|table| table.rule(class, size).must_interpose)
    };
    let mut judged = Vec::new();
    for name in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
        let (was, is) = (before.get(name), after.get(name));
        let (words, now) = (was.map(words), is.map(words));
        let weaker = |release: &&Release| was.is_some_and(|was| must(was, **release)) && !is.is_some_and(|is| must(is, **release));
        if let Some(release) = releases.iter().find(weaker) {
            let now = now.as_deref().unwrap_or("no judgement at all");
            let message = format!("{name} was {} and is {now}: in {release} it need no longer be interposed", words.as_deref().unwrap_or_default());
            findings.push(checks::JUDGEMENT_WEAKENED.finding(file, message).symbol(name));
        }
        if words != now {
            judged.push(Judged { name: name.clone(), old: words, new: now });
        }
    }
    judged
}

/// `free`, or `free (5.2.3, 5.7.1: other)`.
fn words(entry: &Judgement) -> String {
    let one = |class: Class, size: Option<schema::Size>| match size {
        Some(size) => format!("{class} {}", size.word()),
        None => class.word().into(),
    };
    let others = entry.by_version.iter().map(|other| {
        let releases: Vec<String> = other.versions.iter().map(ToString::to_string).collect();
        format!("{}: {}", releases.join(", "), one(other.class, other.size))
    });
    let others: Vec<String> = others.collect();
    let usual = one(entry.class, entry.size);
    if others.is_empty() { usual } else { format!("{usual} ({})", others.join("; ")) }
}
