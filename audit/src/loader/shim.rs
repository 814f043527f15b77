//! What is subtracted: a shim library, or a list of the names it interposes.

use std::collections::HashMap;

use super::binding::{self, NotBound};
use crate::elf::{Elf, Place, Result, SymbolTable};
use crate::manifest::{Action, InterposedList};

/// A shim: its dynamic symbols, or a list in their stead, or both (the list then tells the actions).
#[derive(Debug)]
pub struct Shim<'f> {
    /// The file, for messages and reports.
    pub file: String,
    table: Option<SymbolTable<'f>>,
    by_name: HashMap<String, Vec<usize>>,
    list: Option<InterposedList>,
}

/// What a shim has under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    /// Nothing.
    Absent,
    /// A definition that the loader binds, with the action of its row if a list tells.
    Binds(Option<Action>),
    /// A definition that the loader does not bind.
    Refused(NotBound),
}

impl<'f> Shim<'f> {
    /// A library; `list` tells the actions of its rows, where there is one.
    pub fn from_library(image: &'f Elf, list: Option<InterposedList>) -> Result<Self> {
        let table = image.symbols()?;
        let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
        for (position, symbol) in table.symbols.iter().enumerate().filter(|(_, symbol)| symbol.place != Place::Undefined) {
            by_name.entry(symbol.name.to_string()).or_default().push(position);
        }
        Ok(Self { file: image.file().to_string(), table: Some(table), by_name, list })
    }

    /// A list alone: every name in it is taken to bind.
    pub fn from_list(list: InterposedList) -> Self {
        Self { file: list.file.clone(), table: None, by_name: HashMap::new(), list: Some(list) }
    }

    /// What it is, for the head of a report.
    pub fn describe(&self) -> String {
        match (&self.table, &self.list) {
            (None, Some(list)) => format!("list of {} names: {}", list.rows.len(), list.title),
            _ => self.file.clone(),
        }
    }

    /// True if the shim has a definition or a row of this name, bound or not.
    pub fn has(&self, name: &str) -> bool {
        match &self.table {
            Some(_) => self.by_name.contains_key(name),
            None => self.list.as_ref().is_some_and(|list| list.row(name).is_some()),
        }
    }

    /// Whether a reference to `name` with this version node would get the shim's definition.
    pub fn look_up(&self, name: &str, wanted: Option<&str>) -> Match {
        let row = self.list.as_ref().and_then(|list| list.row(name));
        let Some(table) = &self.table else {
            return row.map_or(Match::Absent, |row| Match::Binds(row.action));
        };
        let mut refused = Match::Absent;
        for symbol in self.by_name.get(name).into_iter().flatten().filter_map(|&position| table.symbols.get(position)) {
            match binding::binds(table, symbol, wanted) {
                Ok(()) => return Match::Binds(row.and_then(|row| row.action)),
                Err(why) => refused = Match::Refused(why),
            }
        }
        refused
    }

    /// Names that the shim offers to every process, sorted: its exported functions, or the rows of the list.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = match &self.table {
            Some(table) => table.exports().filter(|symbol| symbol.is_function()).map(|symbol| &*symbol.name).collect(),
            None => self.list.iter().flat_map(|list| &list.rows).map(|row| row.name.as_str()).collect(),
        };
        names.sort_unstable();
        names.dedup();
        names
    }
}
