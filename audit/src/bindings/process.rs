//! Who is who among the objects of a process: the program, runtimes of the families, shims, the rest.

use serde::Serialize;

use super::Context;
use crate::elf::{Elf, Result, Symbol, SymbolTable};
use crate::loader::scope::{Rules, Scope};
use crate::loader::{How, Object};
use crate::manifest::Family;

/// What an object is to this audit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A runtime of this family: soname and anchors are a runtime's.
    Runtime(String),
    /// Preloaded, and it has a function that a family wants interposed.
    Shim,
    /// Anything else.
    Other,
}

/// The objects of a process with their roles and what they ask for.
pub(super) struct Process<'p> {
    pub objects: &'p [Object],
    pub scope: Scope<'p>,
    /// Which family an object is the runtime of.
    pub runtime: Vec<Option<usize>>,
    pub shims: Vec<usize>,
}

impl<'p> Process<'p> {
    pub(super) fn new(objects: &'p [Object], images: &'p [Elf], rules: Rules, context: &Context<'_>) -> Result<Self> {
        let families = context.families;
        let mut needs: Vec<Vec<bool>> = Vec::with_capacity(images.len());
        for image in images {
            let names = image.names()?;
            let needed = |family: &Family| names.needed.iter().any(|name| family.is_runtime_name(name));
            needs.push(families.iter().map(needed).collect());
        }
        let wanted = |from: usize, symbol: &Symbol<'_>, table: &SymbolTable<'_>| {
            if matches!(&*symbol.name, "dlsym" | "dlvsym") {
                return true;
            }
            let file = table.version(symbol).and_then(|version| version.file);
            families.iter().enumerate().any(|(index, family)| family.concerns(&symbol.name, file, needs[from][index]))
        };
        let scope = Scope::new(objects, images, rules, &wanted)?;
        let is_runtime = |at: usize, family: &Family| {
            let called = objects[at].soname.as_deref().is_some_and(|name| family.is_runtime_name(name));
            called && family.identity.anchors.iter().all(|name| scope.defines(at, name))
        };
        let runtime: Vec<Option<usize>> = (0..objects.len()).map(|at| families.iter().position(|family| is_runtime(at, family))).collect();
        let interposes = |at: usize| scope.exports(at).any(|name| families.iter().any(|family| super::judge::must(family, name, context.table)));
        let preloaded = |&at: &usize| objects[at].how == How::Preload && runtime[at].is_none();
        let shims = (0..objects.len()).filter(preloaded).filter(|&at| interposes(at)).collect();
        Ok(Self { objects, scope, runtime, shims })
    }

    pub(super) fn path(&self, object: usize) -> &str {
        &self.objects[object].path
    }

    pub(super) fn role(&self, object: usize, context: &Context<'_>) -> Role {
        match self.runtime[object] {
            Some(family) => Role::Runtime(context.families[family].name().into()),
            None if self.shims.contains(&object) => Role::Shim,
            None => Role::Other,
        }
    }
}
