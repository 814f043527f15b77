//! C++ classes that survive stripping: type information and virtual tables, from relocations alone (Itanium C++ ABI, 2.5.2 and 2.9.5).
//!
//! A file built without RTTI, or with a C++ library linked into it, has none here.

use std::collections::BTreeMap;

use super::memory::{Filled, Memory};
use super::program::{Function, Program};
use crate::elf::SymbolTable;

/// A class with type information.
#[derive(Debug, Clone)]
pub struct Class {
    /// The mangled name, as `typeid` gives it.
    pub name: String,
    /// Where its type information stands.
    pub typeinfo: u64,
    /// Direct bases, by position in [`Classes::all`].
    pub bases: Vec<usize>,
}

/// A virtual table.
#[derive(Debug, Clone)]
pub struct Table {
    /// The class, by position in [`Classes::all`].
    pub class: usize,
    /// The address point: where objects point to, the first slot.
    pub slots_at: u64,
    /// The functions; `None` for a slot that another file fills.
    pub slots: Vec<Option<Function>>,
}

/// All classes and tables of a file.
#[derive(Debug, Default)]
pub struct Classes {
    /// Classes in the order of their type information.
    pub all: Vec<Class>,
    /// Tables, ascending by address.
    pub tables: Vec<Table>,
}

/// Names of the type information's own tables: no base, one base, several.
const KINDS: [&str; 3] =
    ["_ZTVN10__cxxabiv117__class_type_infoE", "_ZTVN10__cxxabiv120__si_class_type_infoE", "_ZTVN10__cxxabiv121__vmi_class_type_infoE"];
/// Slots of a table at most; the largest of HIP has about 90.
const MOST_SLOTS: u64 = 4096;
/// Slots of all tables at most; HIP 7.2.4 has 3 thousand. What comes after is in no table.
const MOST_SLOTS_IN_ALL: usize = 1 << 18;
/// Bases of a class at most.
const MOST_BASES: u64 = 64;

impl Classes {
    /// Reads classes and tables.
    pub fn read(memory: &Memory<'_>, symbols: &SymbolTable<'_>, program: &Program) -> Self {
        let kind_of = |symbol: u32| symbols.get(symbol).and_then(|symbol| KINDS.iter().position(|kind| *kind == symbol.name));
        let mut found: BTreeMap<u64, usize> = BTreeMap::new();
        let mut kinds = Vec::new();
        let mut all = Vec::new();
        for &(place, filled) in memory.places() {
            let Filled::Symbol(symbol) = filled else { continue };
            let Some(kind) = kind_of(symbol) else { continue };
            let Some(Filled::Address(name)) = memory.filled(place.wrapping_add(8)) else { continue };
            let Some(name) = memory.text(name, 4096) else { continue };
            found.insert(place, all.len());
            kinds.push(kind);
            all.push(Class { name: name.trim_start_matches('*').to_string(), typeinfo: place, bases: Vec::new() });
        }
        for (class, kind) in all.iter_mut().zip(kinds) {
            let base = |place: u64| match memory.filled(place) {
                Some(Filled::Address(address)) => found.get(&address).copied(),
                _ => None,
            };
            class.bases = match kind {
                1 => base(class.typeinfo + 16).into_iter().collect(),
                2 => (0..MOST_BASES).map_while(|index| base(class.typeinfo + 24 + 16 * index)).collect(),
                _ => Vec::new(),
            };
        }
        let mut tables = Vec::new();
        let mut left = MOST_SLOTS_IN_ALL;
        for &(place, filled) in memory.places() {
            let Filled::Address(address) = filled else { continue };
            let Some(&class) = found.get(&address) else { continue };
            let slots_at = place + 8;
            let slots: Vec<_> = (0..MOST_SLOTS)
                .map_while(|index| match memory.filled(slots_at + 8 * index)? {
                    Filled::Address(address) => program.starting_at(address).map(Some),
                    Filled::Symbol(_) => Some(None),
                })
                .collect();
            // A base of a class stands beside flags, not before functions.
            if !slots.is_empty() && slots.len() <= left {
                left -= slots.len();
                tables.push(Table { class, slots_at, slots });
            }
        }
        Self { all, tables }
    }

    /// A class and all that derive from it, as a flag per class.
    pub fn family(&self, class: usize) -> Vec<bool> {
        let mut inside = vec![false; self.all.len()];
        inside[class] = true;
        loop {
            let mut grown = false;
            for (index, other) in self.all.iter().enumerate() {
                if !inside[index] && other.bases.iter().any(|&base| inside[base]) {
                    inside[index] = true;
                    grown = true;
                }
            }
            if !grown {
                return inside;
            }
        }
    }

    /// The table that code means by an address: the address point, or the start of the object sixteen bytes before.
    pub fn at(&self, address: u64) -> Option<&Table> {
        self.position(address).map(|at| &self.tables[at])
    }

    /// The same as a position in [`Classes::tables`].
    pub fn position(&self, address: u64) -> Option<usize> {
        let find = |slots_at: u64| self.tables.binary_search_by_key(&slots_at, |table| table.slots_at).ok();
        find(address).or_else(|| find(address.wrapping_add(16)))
    }
}
