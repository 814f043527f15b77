//! Which definition each reference of a process gets: `_dl_lookup_symbol_x` and `do_lookup_x` of glibc's `elf/dl-lookup.c`.
//!
//! The scope of a process that starts is its objects in load order; `DT_SYMBOLIC` puts a library itself before them. What is opened later stands
//! behind, or in a scope of its own, so that it changes nothing that was found here. A reference is a relocation that names a symbol; references by
//! pointer (`dlsym`) are none. The rule for one definition is in [`super::binding`]; the real loaders are the oracle (`audit/tests/bindings`).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde::Serialize;

use super::binding::{self, Fit, NotBound};
use super::{Interpreter, Object};
use crate::elf::constants as elf;
use crate::elf::{Binding, Elf, Kind, Place, RelocationKind, Result, Symbol, SymbolTable, Visibility};

/// What a reference is for; the look-up differs (`elf_machine_type_class`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// A slot of the PLT, or thread-local data: only a real definition will do.
    Call,
    /// An address, in the GOT or in data: the program's PLT entry of the function will do as well.
    Address,
    /// The program's copy of a library's data: the program itself is passed over.
    Copy,
}

impl Purpose {
    fn of(kind: RelocationKind) -> Self {
        match kind {
            RelocationKind::JumpSlot | RelocationKind::Tls => Self::Call,
            RelocationKind::Copy => Self::Copy,
            _ => Self::Address,
        }
    }
}

/// One thing an object asks for; several relocations may.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// Index of the object.
    pub from: usize,
    /// The name.
    pub name: String,
    /// The version node asked for.
    pub version: Option<String>,
    /// The file that the version is asked of.
    pub file: Option<String>,
    /// What for.
    pub purpose: Purpose,
    /// A weak reference: nothing will do, too.
    pub weak: bool,
    /// Index in `DT_SYMTAB` of the object.
    symbol: u32,
}

/// A symbol of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Definition {
    /// Index of the object.
    pub object: usize,
    symbol: u32,
}

/// What a reference gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A definition.
    Bound(Definition),
    /// None: a weak reference is 0 then, for another one the process ends, at its start or at the first call.
    Nothing,
    /// None, and the process ends: this object has no versions, and the reference asks it for one.
    Ends(usize),
    /// One of these objects' definitions; which one depends on the loader's version or on the order of relocation.
    Unclear(Vec<usize>),
}

/// A version that an object requires of another, and that the other does not have: the loader stops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmet {
    /// Index of the object that requires it.
    pub from: usize,
    /// Index of the object that should have it.
    pub of: usize,
    /// The version node.
    pub version: String,
}

/// What differs between loaders and environments.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules {
    /// `LD_DYNAMIC_WEAK` is set: a weak definition gives way to a strong one further on.
    pub weak_gives_way: bool,
    /// glibc before 2.36 treats a protected object that the program has a copy of in a way of its own.
    pub protected_copies: bool,
    /// A version that is asked of a file without any is the end of the process (an assertion of `check_match`; measured on 2.31 and 2.36, gone in 2.44,
    /// not measured between them).
    pub unversioned_ends: bool,
}

impl Rules {
    /// Those of a loader, with an environment.
    pub fn of(interpreter: Option<&Interpreter>, variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let version = interpreter.and_then(|interpreter| interpreter.version);
        let before = |limit| version.is_none_or(|version| version < limit);
        Self { weak_gives_way: variable("LD_DYNAMIC_WEAK").is_some(), protected_copies: before((2, 36)), unversioned_ends: before((2, 44)) }
    }
}

struct Member<'f> {
    object: &'f Object,
    image: &'f Elf,
    table: SymbolTable<'f>,
    /// `DT_SYMBOLIC` or `DF_SYMBOLIC`; the program's is ignored.
    symbolic: bool,
}

impl Member<'_> {
    /// True for a name that stands for this object in `DT_VERNEED`.
    fn is_called(&self, file: &str) -> bool {
        self.object.soname.as_deref() == Some(file) || self.object.name == file || self.object.path == file
    }
}

/// A look-up.
#[derive(Clone, Copy)]
struct Ask<'a> {
    from: usize,
    name: &'a str,
    version: Option<&'a str>,
    purpose: Purpose,
}

/// The objects of a process, what they ask for, and what a look-up can meet.
pub struct Scope<'f> {
    members: Vec<Member<'f>>,
    references: BTreeSet<Reference>,
    /// By the names that are asked for: (object, index in `DT_SYMTAB`), ascending.
    by_name: HashMap<String, Vec<(usize, u32)>>,
    rules: Rules,
}

/// Chooses references: by the object that asks, the symbol and its table.
pub type Wanted<'w> = &'w dyn Fn(usize, &Symbol<'_>, &SymbolTable<'_>) -> bool;

/// Opens the files of a process's objects.
pub fn open(objects: &[Object]) -> Result<Vec<Elf>> {
    objects.iter().map(|object| Elf::open(&object.file)).collect()
}

impl<'f> Scope<'f> {
    /// Objects in load order with their images. Only references that are `wanted` are bound; what nobody wants costs little.
    pub fn new(objects: &'f [Object], images: &'f [Elf], rules: Rules, wanted: Wanted<'_>) -> Result<Self> {
        let mut scope = Self { members: Vec::with_capacity(images.len()), references: BTreeSet::new(), by_name: HashMap::new(), rules };
        for (index, (object, image)) in objects.iter().zip(images).enumerate() {
            let symbolic = index != 0 && image.dynamic.flags() & elf::DF_SYMBOLIC.0 != 0;
            scope.members.push(Member { object, image, table: image.symbols()?, symbolic });
            scope.refer(index, wanted)?;
        }
        scope.by_name = scope.references.iter().map(|reference| (reference.name.clone(), Vec::new())).collect();
        for (object, member) in scope.members.iter().enumerate() {
            let met = |symbol: &&Symbol<'_>| symbol.place != Place::Undefined || symbol.value != 0;
            for symbol in member.table.symbols.iter().filter(met) {
                if let Some(known) = scope.by_name.get_mut(&*symbol.name) {
                    known.push((object, symbol.index));
                }
            }
        }
        Ok(scope)
    }

    /// Takes up every relocation of an object that names a wanted symbol which is looked up at all.
    fn refer(&mut self, from: usize, wanted: Wanted<'_>) -> Result<()> {
        let member = &self.members[from];
        let mut seen: HashSet<(u32, Purpose)> = HashSet::new();
        for relocation in member.image.symbolic_relocations()? {
            let key = (relocation.symbol, Purpose::of(relocation.kind));
            let Some(symbol) = member.table.get(key.0).filter(|_| seen.insert(key)) else { continue };
            // What is local or hidden is the object's own, without a look-up.
            let own = symbol.binding == Binding::Local || matches!(symbol.visibility, Visibility::Hidden | Visibility::Internal);
            if own || !wanted(from, symbol, &member.table) {
                continue;
            }
            let version = member.table.version(symbol);
            self.references.insert(Reference {
                from,
                name: symbol.name.to_string(),
                version: version.map(|version| version.node.to_string()),
                file: version.and_then(|version| version.file).map(Into::into),
                purpose: key.1,
                weak: symbol.binding == Binding::Weak,
                symbol: key.0,
            });
        }
        Ok(())
    }

    /// What each reference gets, in order of the objects and by name.
    pub fn bind(&self) -> Vec<(&Reference, Outcome)> {
        let mut bound: Vec<_> = self.references.iter().map(|reference| (reference, self.bind_one(reference))).collect();
        self.settle_unique(&mut bound);
        bound
    }

    fn bind_one(&self, reference: &Reference) -> Outcome {
        let from = reference.from;
        let ask = Ask { from, name: &reference.name, version: reference.version.as_deref(), purpose: reference.purpose };
        let Some(found) = self.look_up(ask) else { return Outcome::Nothing };
        let there = &self.members[found.object];
        let asked = ask.version.and(reference.file.as_deref()).is_some_and(|file| there.is_called(file));
        if self.rules.unversioned_ends && asked && !there.image.dynamic.has(elf::DT_VERSYM) {
            return Outcome::Ends(found.object);
        }
        let own = self.members[from].table.get(reference.symbol);
        let protected = own.filter(|own| own.place != Place::Undefined && own.visibility == Visibility::Protected && found.object != from);
        let Some(own) = protected else { return Outcome::Bound(found) };
        let itself = Definition { object: from, symbol: reference.symbol };
        if reference.purpose == Purpose::Call {
            return Outcome::Bound(itself);
        }
        let real = self.look_up(Ask { purpose: Purpose::Call, ..ask });
        if real.is_none_or(|real| real.object == from) {
            // The program's PLT entry stays the function's one address.
            return Outcome::Bound(found);
        }
        if self.rules.protected_copies && own.kind == Kind::Object && found.object == 0 {
            return Outcome::Unclear(vec![found.object, from]);
        }
        Outcome::Bound(itself)
    }

    /// The first definition in the scope of an object that satisfies the reference.
    fn look_up(&self, ask: Ask<'_>) -> Option<Definition> {
        let all = self.by_name.get(ask.name)?;
        let groups = || all.chunk_by(|a, b| a.0 == b.0);
        let mut weak = None;
        if self.members[ask.from].symbolic
            && let Some(own) = groups().find(|group| group[0].0 == ask.from)
            && let Some(found) = self.take(self.in_object(own, ask), &mut weak)
        {
            return Some(found);
        }
        // The file that a version is asked of is only a hint: whoever comes first with the node is taken (measured, glibc 2.31 to 2.44).
        for group in groups() {
            if ask.purpose == Purpose::Copy && group[0].0 == 0 {
                continue;
            }
            if let Some(found) = self.take(self.in_object(group, ask), &mut weak) {
                return Some(found);
            }
        }
        weak
    }

    /// A symbol that satisfies is the answer, unless others may not have it; a weak one may have to wait.
    fn take(&self, found: Option<(usize, &Symbol<'_>)>, weak: &mut Option<Definition>) -> Option<Definition> {
        let (object, symbol) = found?;
        let definition = Some(Definition { object, symbol: symbol.index });
        match (symbol.binding, symbol.visibility) {
            (_, Visibility::Hidden | Visibility::Internal) | (Binding::Local | Binding::Other, _) => None,
            (Binding::Weak, _) if self.rules.weak_gives_way => {
                *weak = weak.or(definition);
                None
            }
            (Binding::Weak | Binding::Global | Binding::GnuUnique, _) => definition,
        }
    }

    /// What the hash chain of one object yields.
    fn in_object(&self, group: &[(usize, u32)], ask: Ask<'_>) -> Option<(usize, &Symbol<'_>)> {
        let object = group[0].0;
        let table = &self.members[object].table;
        let mut defaults = Vec::new();
        for symbol in group.iter().filter_map(|&(_, index)| table.get(index)) {
            let nowhere = symbol.value == 0 && symbol.place != Place::Absolute && symbol.kind != Kind::Tls;
            let plt_entry = symbol.place == Place::Undefined && ask.purpose == Purpose::Call;
            if nowhere || plt_entry || matches!(symbol.kind, Kind::Section | Kind::File | Kind::Other) {
                continue;
            }
            match binding::fit(table, symbol, ask.version) {
                Fit::Exact => return Some((object, symbol)),
                Fit::Default => defaults.push(symbol),
                Fit::No => {}
            }
        }
        if let [only] = defaults.as_slice() { Some((object, *only)) } else { None }
    }

    /// A unique symbol is one for the whole process: the first reference that meets one decides for all, whatever their scopes and versions.
    fn settle_unique(&self, bound: &mut [(&Reference, Outcome)]) {
        let mut met: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
        for (reference, outcome) in bound.iter() {
            if let Outcome::Bound(definition) = outcome
                && reference.purpose != Purpose::Copy
                && self.symbol(*definition).binding == Binding::GnuUnique
            {
                met.entry(reference.name.clone()).or_default().insert(definition.object);
            }
        }
        met.retain(|_, objects| objects.len() > 1);
        for (reference, outcome) in bound.iter_mut() {
            if let Outcome::Bound(definition) = outcome
                && reference.purpose != Purpose::Copy
                && self.symbol(*definition).binding == Binding::GnuUnique
                && let Some(objects) = met.get(&reference.name)
            {
                *outcome = Outcome::Unclear(objects.iter().copied().collect());
            }
        }
    }

    fn symbol(&self, definition: Definition) -> &Symbol<'_> {
        // A definition is made from a symbol of that very table.
        self.members[definition.object].table.get(definition.symbol).expect("a symbol of this table")
    }

    /// Follows the program's PLT entry, which stands for a function without being one, to the definition that the program calls through it.
    pub fn behind(&self, definition: Definition) -> Option<Definition> {
        let symbol = self.symbol(definition);
        if symbol.place != Place::Undefined {
            return Some(definition);
        }
        let version = self.members[definition.object].table.version(symbol);
        self.look_up(Ask { from: definition.object, name: &symbol.name, version: version.map(|version| version.node), purpose: Purpose::Call })
    }

    /// A definition in words: `hipMalloc@@hip_4.2`, with `weak`, `protected`, … where it is.
    pub fn describe(&self, definition: Definition) -> String {
        let symbol = self.symbol(definition);
        let mut text = symbol.name.to_string();
        if let Some(version) = self.members[definition.object].table.version(symbol) {
            text += if version.hidden { "@" } else { "@@" };
            text += version.node;
        }
        let words = [
            (symbol.binding == Binding::Weak, "weak"),
            (symbol.binding == Binding::GnuUnique, "unique"),
            (symbol.visibility == Visibility::Protected, "protected"),
            (symbol.kind == Kind::IFunc, "chosen by a resolver"),
            (matches!(symbol.kind, Kind::Object | Kind::Common), "data"),
            (symbol.kind == Kind::Tls, "thread-local"),
            (symbol.place == Place::Undefined, "PLT entry"),
        ];
        let words: Vec<&str> = words.into_iter().filter(|&(holds, _)| holds).map(|(_, word)| word).collect();
        if words.is_empty() { text } else { format!("{text} ({})", words.join(", ")) }
    }

    /// Why an object's definition of a name does not satisfy a reference; `None` where it has none, or one that does.
    pub fn why_not(&self, object: usize, name: &str, version: Option<&str>) -> Option<NotBound> {
        binding::look_up(&self.members[object].table, name, version)?.err()
    }

    /// Names of an object's exports.
    pub fn exports(&self, object: usize) -> impl Iterator<Item = &str> {
        self.members[object].table.exports().map(|symbol| &*symbol.name)
    }

    /// True where an object exports the name, whatever the version.
    pub fn defines(&self, object: usize, name: &str) -> bool {
        let exported = |symbol: &Symbol<'_>| symbol.is_export() && symbol.name == name;
        self.members[object].table.symbols.iter().any(exported)
    }

    /// Versions that are required and not there, as the loader checks them before it binds anything. A file without any version definition passes
    /// with a warning.
    pub fn unmet(&self) -> Vec<Unmet> {
        let mut unmet = Vec::new();
        for (from, member) in self.members.iter().enumerate() {
            for requirement in member.table.versions.requirements.iter().filter(|requirement| !requirement.weak) {
                let Some(of) = self.members.iter().position(|other| other.is_called(&requirement.file)) else { continue };
                let definitions = &self.members[of].table.versions.definitions;
                if !definitions.is_empty() && definitions.iter().all(|definition| definition.name != requirement.version) {
                    unmet.push(Unmet { from, of, version: requirement.version.clone() });
                }
            }
        }
        unmet
    }
}
