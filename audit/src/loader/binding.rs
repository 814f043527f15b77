//! Whether the loader binds a reference to a definition.
//!
//! The rules are those of glibc's look-up (`do_lookup_x` and `check_match` in `elf/dl-lookup.c`), each measured on glibc 2.31, 2.36
//! and 2.44; `docs/measurements/loader-outcomes.md` has the table.

use std::fmt;

use serde::Serialize;

use crate::elf::{Binding, Kind, Place, Symbol, SymbolTable, Visibility};

/// The bit of a `DT_VERSYM` entry that makes a version reachable only by name.
const HIDDEN: u16 = 0x8000;

/// Why a definition of the right name does not bind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotBound {
    /// `STV_HIDDEN` or `STV_INTERNAL`: the loader passes over it.
    Hidden,
    /// Local binding.
    Local,
    /// It carries a version node other than the one that importers ask for.
    WrongNode {
        /// The node of the definition.
        has: String,
        /// The node that is asked for.
        wanted: Option<String>,
    },
    /// It would bind, but it is data, thread-local or has no type: a call would jump into it.
    NotAFunction(Kind),
    /// A defined symbol with value 0.
    NoAddress,
}

impl fmt::Display for NotBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hidden => f.write_str("it has hidden visibility, which the loader passes over"),
            Self::Local => f.write_str("it has local binding"),
            Self::WrongNode { has, wanted: Some(wanted) } => write!(f, "it carries version node {has}, but importers ask for {wanted}"),
            Self::WrongNode { has, wanted: None } => write!(f, "it is only reachable as {has}, but importers ask for no version"),
            Self::NotAFunction(kind) => write!(f, "it is no function ({kind:?} symbol): a call would run data"),
            Self::NoAddress => f.write_str("its value is 0"),
        }
    }
}

/// Whether the version of a definition is the one asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// It is, or nobody asks.
    Exact,
    /// A reference without a version takes it where the file has no older definition, and no second one like this.
    Default,
    /// It is another.
    No,
}

/// Decides for one definition. `wanted` is the node that the reference carries; `None` for an unversioned reference.
pub fn binds(table: &SymbolTable<'_>, definition: &Symbol<'_>, wanted: Option<&str>) -> Result<(), NotBound> {
    if definition.value == 0 && definition.place != Place::Absolute && definition.kind != Kind::Tls {
        return Err(NotBound::NoAddress);
    }
    match definition.binding {
        Binding::Global | Binding::Weak | Binding::GnuUnique => {}
        Binding::Local | Binding::Other => return Err(NotBound::Local),
    }
    if matches!(definition.visibility, Visibility::Hidden | Visibility::Internal) {
        return Err(NotBound::Hidden);
    }
    check_version(table, definition, wanted)?;
    match definition.kind {
        Kind::Func | Kind::IFunc => Ok(()),
        other => Err(NotBound::NotAFunction(other)),
    }
}

fn check_version(table: &SymbolTable<'_>, definition: &Symbol<'_>, wanted: Option<&str>) -> Result<(), NotBound> {
    if fit(table, definition, wanted) != Fit::No {
        return Ok(());
    }
    let node = table.version(definition).map(|version| version.node);
    Err(NotBound::WrongNode { has: node.unwrap_or("(hidden base version)").into(), wanted: wanted.map(Into::into) })
}

pub(super) fn fit(table: &SymbolTable<'_>, definition: &Symbol<'_>, wanted: Option<&str>) -> Fit {
    // A file without DT_VERSYM, and an unversioned symbol in one with it, satisfy every reference; a hidden base version only those
    // that ask for no version.
    let Some(raw) = definition.version_index else { return Fit::Exact };
    let hidden = raw & HIDDEN != 0;
    let fits = match (table.version(definition).map(|version| version.node), wanted) {
        (None, wanted) => wanted.is_none() || !hidden,
        (Some(node), Some(wanted)) => node == wanted,
        // An unversioned reference takes that of the file's first node, hidden or not, before the default version.
        (Some(_), None) if raw & !HIDDEN < 3 => true,
        (Some(_), None) => return if hidden { Fit::No } else { Fit::Default },
    };
    if fits { Fit::Exact } else { Fit::No }
}

/// The first definition of `name` that binds, or why none of them does; `None` where the file does not define the name at all.
pub fn look_up<'t, 'f>(table: &'t SymbolTable<'f>, name: &str, wanted: Option<&str>) -> Option<Result<&'t Symbol<'f>, NotBound>> {
    let mut reason = None;
    for symbol in table.symbols.iter().filter(|symbol| symbol.place != Place::Undefined && symbol.name == name) {
        match binds(table, symbol, wanted) {
            Ok(()) => return Some(Ok(symbol)),
            Err(why) => reason = Some(Err(why)),
        }
    }
    reason
}
