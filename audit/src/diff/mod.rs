//! `diff`: what a newer runtime, shim or manifest adds and takes away, doors first.
//!
//! [`runtimes`] compares exports, version nodes, classes, imports from beneath and dispatch slots; [`shims`] what is interposed, and which doors that opens
//! and closes; [`manifests`] the files of judgements, as text that somebody reviews. [`checks`] has ids and texts of the findings.
//!
//! A difference is no fault. What is found is what somebody has to answer: a new door, a door that a change opened, a judgement that asks for less.

pub mod checks;
pub mod manifests;
pub mod runtimes;
pub mod shims;

use std::collections::BTreeSet;

use serde::Serialize;

/// What was compared, by kind.
#[derive(Debug, Clone)]
pub enum Difference {
    /// Two builds of a runtime, for each family that both sides have.
    Runtimes(Vec<runtimes::Change>),
    /// Two builds of a shim.
    Shims(Box<shims::Change>),
    /// Two files or trees of manifests: the files that differ.
    Manifests(manifests::Change),
}

/// One side as the report names it.
#[derive(Debug, Clone, Serialize)]
pub struct Side {
    /// The file, or the list inside the program.
    pub file: String,
    /// `DT_SONAME`.
    pub soname: Option<String>,
    /// GNU build-id.
    pub build_id: Option<String>,
}

/// What a set gained and lost, sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Set {
    /// In the newer one only.
    pub gained: Vec<String>,
    /// In the older one only.
    pub lost: Vec<String>,
}

impl Set {
    /// Compares two sets.
    pub fn between<T: AsRef<str>>(old: impl IntoIterator<Item = T>, new: impl IntoIterator<Item = T>) -> Self {
        let of = |items: Vec<T>| items.iter().map(|item| item.as_ref().to_string()).collect::<BTreeSet<_>>();
        let (old, new) = (of(old.into_iter().collect()), of(new.into_iter().collect()));
        Self { gained: new.difference(&old).cloned().collect(), lost: old.difference(&new).cloned().collect() }
    }

    /// True if nothing differs.
    pub fn is_empty(&self) -> bool {
        self.gained.is_empty() && self.lost.is_empty()
    }
}
