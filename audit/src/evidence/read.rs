//! Reads one runtime's machine code: bodies, calls, the core, and what follows for each export.

use std::collections::{BTreeMap, BTreeSet};

use super::alarm;
use super::beneath::{Reach, Sink};
use super::core::{self, Start, Why};
use super::dispatch::{self, Body};
use super::graph::{Edge, Graph, Set, Ways};
use super::size;
use super::subject::{Address, Called, Core, Export, Member, SelfCheck, Step, Table, Verdict};
use crate::code::classes::Classes;
use crate::code::memory::Memory;
use crate::code::program::{Call, Function, Program, Target};
use crate::elf::{Elf, RelocationKind, Result, Symbol, SymbolTable};
use crate::manifest::Hints;

/// `EM_X86_64`.
const X86_64: u16 = 62;
/// Calls between an export's body and a function that looks up by name at most.
const LOOKUP_HOPS: u32 = 2;
/// Calls between an export's body and a function that makes objects of the core's classes at most, for an import.
const IMPORT_HOPS: u32 = 1;
/// Bodies that name another export than their own at most: a few are shared by two exports, or print a table of names.
const MOST_STRANGE: usize = 5;
/// Symbols at most of which is said from where they are reached; HIP calls 13 of its own.
const MOST_CALLED: usize = 256;
/// One of so many executable bytes may lie outside of functions, as start-up code and padding.
const MOST_OUTSIDE: u64 = 10;
/// Start-up code and padding of a small library, in bytes.
const STARTUP: u64 = 2048;

/// What one file's code says.
#[derive(Debug)]
pub struct Reading {
    /// Functions decoded.
    pub functions: usize,
    /// Checks of the reading against itself.
    pub self_checks: Vec<SelfCheck>,
    /// Dispatch tables.
    pub tables: Vec<Table>,
    /// What allocates, or why that could not be named.
    pub core: std::result::Result<Core, String>,
    /// Imports of the family beneath that take memory.
    pub sinks: Vec<Called>,
    /// Own exports called through the PLT.
    pub self_calls: Vec<Called>,
    /// Every exported function, by name. Classes are not filled in.
    pub exports: Vec<Export>,
}

/// Everything known while one file is read.
struct Code<'a> {
    program: Program,
    symbols: &'a SymbolTable<'a>,
    names: Vec<(String, u64)>,
    bodies: Vec<Body>,
    graph: Graph,
    blocked: Set,
}

/// What matters of the family beneath.
#[derive(Clone, Copy)]
pub struct Beneath<'a> {
    /// Names that take device memory of the caller's size.
    pub allocators: &'a [&'a str],
    /// True for every name that takes memory of the card, for certain or for all that is known.
    pub takes: &'a dyn Fn(&str) -> bool,
}

/// Reads a file.
pub fn read(image: &Elf, hints: Option<&Hints>, beneath: Beneath<'_>) -> Result<Reading> {
    let symbols = image.symbols()?;
    let mut names: Vec<(String, u64)> =
        symbols.exports().filter(|symbol| symbol.is_function()).map(|symbol| (symbol.name.to_string(), symbol.value)).collect();
    names.sort_unstable();
    if image.header.machine != X86_64 {
        return Ok(unread(names, format!("machine code of {} is not read, only that of x86-64", image.header.machine_name())));
    }
    let memory = Memory::read(image, &symbols)?;
    let program = Program::read(image, &memory)?;
    if program.functions.is_empty() {
        return Ok(unread(names, "no frame descriptions: where functions begin and end is not known".into()));
    }
    let addresses: Vec<u64> = names.iter().map(|&(_, address)| address).collect();
    let (bodies, tables) = dispatch::bodies(image, &memory, &program, &addresses)?;
    let stubs = addresses.iter().zip(&bodies).filter_map(|(&address, &body)| Some((program.starting_at(address)?, body)));
    let graph = Graph::new(&program, &symbols, stubs);
    let all: Vec<Function> = bodies.iter().filter_map(|body| body.function()).collect();
    let blocked = core::shared(&graph, &all);
    let code = Code { program, symbols: &symbols, names, bodies, graph, blocked };
    let outside = code.program.executable.saturating_sub(code.program.covered);
    let covered = SelfCheck {
        name: "function-bounds",
        holds: outside <= code.program.executable / MOST_OUTSIDE || outside <= STARTUP,
        says: format!(
            "{} functions hold {} of {} executable bytes; the rest is start-up code and padding",
            code.program.functions.len(),
            code.program.covered,
            code.program.executable
        ),
    };
    let mut self_checks = vec![covered];
    self_checks.extend(table_checks(&tables));
    self_checks.push(own_names(&code, &memory));
    let classes = Classes::read(&memory, &symbols, &code.program);
    let allocating = code.callers(beneath.allocators);
    let start = Start {
        bodies: &all,
        seeds: &code.named(hints.map_or(&[], |hints| &hints.seeds)),
        negatives: &code.named(hints.map_or(&[], |hints| &hints.negatives)),
        sinks: &allocating,
    };
    let found = if hints.is_none() {
        Err("the family's manifest has no evidence.json: no seeds to start from".to_string())
    } else if !self_checks[0].holds {
        Err("the functions known hold too little of the code".into())
    } else {
        core::find(&code.program, &classes, &code.graph, &code.blocked, &start)
    };
    let imports = found.as_ref().ok().and_then(|found| code.import_like(&classes, found, &start));
    let lookups = code.lookups(hints.map_or(&[], |hints| &hints.lookups));
    let mut exports = code.exports(found.as_ref(), imports.as_ref(), &lookups);
    code.alarm(&mut exports, start.seeds, &[start.negatives, &code.named(hints.map_or(&[], |hints| &hints.bystanders))].concat());
    if let Ok(found) = &found {
        size::mark(&code.program, &code.graph, &code.blocked, code.symbols, found, code.bodies.iter().map(|body| body.function()), &mut exports);
    }
    let bound = bound_by_name(image)?;
    code.reach(&mut exports, &classes, found.as_ref().ok(), &bound, beneath.takes);
    let mut sinks = code.called(&bound, |symbol| symbol.is_import() && (beneath.takes)(&symbol.name));
    for sink in &mut sinks {
        let reaches = |export: &&Export| export.beneath.iter().flat_map(|beneath| &beneath.ways).any(|way| way.import == sink.name);
        sink.reached_from = exports.iter().filter(reaches).map(|export| export.name.clone()).collect();
    }
    Ok(Reading {
        functions: code.program.functions.len(),
        self_checks,
        tables: tables.iter().map(show_table).collect(),
        sinks,
        self_calls: code.called(&bound, |symbol| symbol.is_export() && symbol.is_function()),
        core: found.map(|found| code.show(&found)),
        exports,
    })
}

fn unread(names: Vec<(String, u64)>, why: String) -> Reading {
    let export = |(name, address)| Export {
        name,
        address: Address(address),
        body: None,
        slot: None,
        class: None,
        verdict: Verdict::Unknown,
        reaches: Vec::new(),
        path: Vec::new(),
        caller_sized: None,
        alarm: None,
        beneath: None,
        internal: None,
        prototype: None,
        says: why.clone(),
    };
    let exports = names.into_iter().map(export).collect();
    Reading { functions: 0, self_checks: Vec::new(), tables: Vec::new(), core: Err(why), sinks: Vec::new(), self_calls: Vec::new(), exports }
}

/// Symbols that a relocation binds by name.
fn bound_by_name(image: &Elf) -> Result<BTreeSet<u32>> {
    let by_name = |kind| matches!(kind, RelocationKind::JumpSlot | RelocationKind::GlobDat | RelocationKind::Absolute);
    Ok(image.symbolic_relocations()?.iter().filter(|relocation| by_name(relocation.kind)).map(|relocation| relocation.symbol).collect())
}

fn show_table(table: &dispatch::Table) -> Table {
    let filling = table.filling.as_ref();
    Table {
        getter: Address(table.getter),
        base: filling.ok().map(|filling| Address(filling.base)),
        slots: filling.map_or(0, |filling| (filling.size.saturating_sub(filling.first) / 8) as usize),
        filled: filling.map_or(0, |filling| filling.slots.values().filter(|&&(value, _)| value != 0).count()),
        stubs: table.stubs,
        recovered: table.recovered,
        refused: filling.err().cloned(),
    }
}

fn table_checks(tables: &[dispatch::Table]) -> impl Iterator<Item = SelfCheck> + '_ {
    tables.iter().map(|table| match &table.filling {
        Ok(filling) => SelfCheck {
            name: "dispatch-table",
            holds: true,
            says: format!(
                "the function at {:#x} stores the size {:#x} at {:#x}; all {} addresses it stores are starts of functions, and all {} stubs stay within",
                table.getter,
                filling.size,
                filling.sized_at,
                filling.slots.len(),
                table.stubs
            ),
        },
        Err(why) => SelfCheck { name: "dispatch-table", holds: false, says: format!("the function at {:#x}: {why}", table.getter) },
    })
}

/// Runtimes log calls: the body of an export refers to the export's own name. A body that refers to another export's name instead is suspect.
fn own_names(code: &Code<'_>, memory: &Memory<'_>) -> SelfCheck {
    let (mut own, mut strange, mut of) = (0, Vec::new(), 0);
    let bodies = code.names.iter().zip(&code.bodies).filter_map(|((name, _), body)| Some((name, body, body.function()?)));
    for (name, body, function) in bodies {
        of += 1;
        let mut texts = code.program.references_of(function).iter();
        if texts.clone().any(|reference| memory.is_text(reference.to, name)) {
            own += 1;
        } else if matches!(body, Body::Slot(..)) {
            let other = texts.find_map(|reference| {
                let text = memory.text(reference.to, 80)?;
                code.names.binary_search_by(|(name, _)| name.as_str().cmp(&text)).is_ok().then_some(text)
            });
            strange.extend(other.map(|other| format!("{name} names {other}")));
        }
    }
    let tail = if strange.is_empty() { String::new() } else { format!("; {} name another: {}", strange.len(), strange.join(", ")) };
    SelfCheck {
        name: "own-names",
        holds: strange.len() <= MOST_STRANGE,
        says: format!("{own} of {of} bodies refer to the name of their export{tail}"),
    }
}

impl Code<'_> {
    fn named(&self, names: &[String]) -> Vec<Function> {
        let position = |name: &String| self.names.iter().position(|(known, _)| known == name);
        names.iter().filter_map(|name| self.bodies[position(name)?].function()).collect()
    }

    /// Functions that call one of these imports themselves, ascending.
    fn callers(&self, imports: &[&str]) -> Vec<Function> {
        let wanted = |index: u32| self.symbols.get(index).is_some_and(|symbol| symbol.is_import() && imports.contains(&&*symbol.name));
        let calls = self.program.calls.iter().filter(|call| matches!(call.to, Target::Symbol(index) if wanted(index)));
        let mut found: Vec<Function> = calls.map(|call| call.from).collect();
        found.dedup();
        found
    }

    /// Ways to functions that call a look-up of functions by name.
    fn lookups(&self, imports: &[String]) -> Ways {
        let imports: Vec<&str> = imports.iter().map(String::as_str).collect();
        self.graph.ways(self.callers(&imports).into_iter(), &self.blocked)
    }

    /// Ways to the functions that make objects of the core's classes and that no certain non-allocator reaches: more than the core.
    fn import_like(&self, classes: &Classes, found: &core::Core, start: &Start<'_>) -> Option<Ways> {
        let class = classes.all.iter().position(|class| class.name == found.class)?;
        let outside = self.graph.reach(start.negatives.iter().copied(), &self.blocked);
        let wider = core::candidates(&self.program, classes, class, found.device_table);
        Some(self.graph.ways(wider.into_iter().map(|(function, _)| function).filter(|&function| !outside[function as usize]), &self.blocked))
    }

    fn exports(&self, found: std::result::Result<&core::Core, &String>, imports: Option<&Ways>, lookups: &Ways) -> Vec<Export> {
        let one = |((name, address), body): (&(String, u64), &Body)| {
            let mut export = Export {
                name: name.clone(),
                address: Address(*address),
                body: body.function().map(|function| Address(self.program.start(function))),
                slot: match body {
                    Body::Slot(stub, _) | Body::Empty(stub) | Body::Late(stub) | Body::Unread(stub) => Some(Address(stub.slot)),
                    Body::Direct(_) | Body::None => None,
                },
                class: None,
                verdict: Verdict::Unknown,
                reaches: Vec::new(),
                path: Vec::new(),
                caller_sized: None,
                alarm: None,
                beneath: None,
                internal: None,
                prototype: None,
                says: String::new(),
            };
            match body {
                Body::Empty(stub) => export.says = format!("the jump at {:#x} uses slot {:#x}, which nothing fills", stub.jump, stub.slot),
                Body::Unread(stub) => {
                    export.says = format!("the jump at {:#x} uses slot {:#x} of a table that could not be read", stub.jump, stub.slot);
                }
                Body::Late(stub) => {
                    export.says = format!(
                        "the jump at {:#x} uses slot {:#x}, which is not filled with the rest of its table: later, if at all",
                        stub.jump, stub.slot
                    );
                }
                Body::None => export.says = "no function with known bounds starts here".into(),
                Body::Direct(function) | Body::Slot(_, function) => self.judge(&mut export, *function, found, imports, lookups),
            }
            export
        };
        self.names.iter().zip(&self.bodies).map(one).collect()
    }

    /// Where the core is known, the alarm says nothing new of what reaches it; where it is not, the alarm is all there is.
    fn alarm(&self, exports: &mut [Export], seeds: &[Function], others: &[Function]) {
        let bodies: Vec<Option<Function>> = self.bodies.iter().map(|body| body.function()).collect();
        let raised = alarm::raised(&self.graph, &self.blocked, &bodies, seeds, others);
        for (export, shared) in exports.iter_mut().zip(raised) {
            let Some(shared) = shared.map(|function| Address(self.program.start(function))) else { continue };
            export.alarm = Some(shared);
            if export.verdict == Verdict::Unknown {
                export.says += &format!("; it shares the function at {shared} with exports that allocate");
            }
        }
    }

    /// What each export reaches of the family beneath.
    fn reach(&self, exports: &mut [Export], classes: &Classes, core: Option<&core::Core>, bound: &BTreeSet<u32>, takes: &dyn Fn(&str) -> bool) {
        let taking = self.symbols.symbols.iter().filter(|symbol| symbol.is_import() && takes(&symbol.name));
        let sink = |symbol: &Symbol<'_>| Sink { symbol: symbol.index, name: symbol.name.to_string(), preload_wins: bound.contains(&symbol.index) };
        let mut sinks: Vec<Sink> = taking.map(sink).collect();
        sinks.sort_by(|a, b| a.name.cmp(&b.name));
        let Some(reach) = Reach::new(&self.program, classes, &self.graph, &self.blocked, core, &sinks) else { return };
        for (export, body) in exports.iter_mut().zip(&self.bodies) {
            export.beneath = body.function().map(|body| reach.of(body));
        }
    }

    fn step(&self, edge: &Edge) -> Step {
        Step { at: Address(edge.at), to: Some(Address(self.program.start(edge.to))), name: None, one_of: None }
    }

    fn judge(&self, export: &mut Export, body: Function, found: std::result::Result<&core::Core, &String>, imports: Option<&Ways>, lookups: &Ways) {
        let hops = |ways: &Ways| ways.hops[body as usize];
        if hops(lookups).is_some_and(|hops| hops <= LOOKUP_HOPS) {
            export.verdict = Verdict::HandsOutPointers;
            self.show_path(export, body, lookups, "a look-up of functions by name");
            return;
        }
        let core = match found {
            Ok(core) => core,
            Err(why) => {
                export.says = format!("nothing is known to allocate: {why}");
                return;
            }
        };
        if hops(&core.ways).is_some() {
            export.verdict = Verdict::Allocates;
            self.show_path(export, body, &core.ways, "the functions that allocate");
        } else if let Some((imports, hops)) = imports.and_then(|imports| Some((imports, hops(imports)?))) {
            // Near, it is the export's purpose; far, the loading of a module at first use.
            export.verdict = if hops <= IMPORT_HOPS { Verdict::Imports } else { Verdict::NothingSeen };
            let what = "a function that makes objects of the same classes, but none that the seeds share";
            self.show_path(export, body, imports, what);
        } else {
            export.verdict = Verdict::NothingSeen;
            export.says = "no way of direct calls to what allocates was seen; calls through tables and first use are not followed".into();
        }
    }

    fn show_path(&self, export: &mut Export, body: Function, ways: &Ways, what: &str) {
        let path = ways.path(body);
        let goal = path.last().map_or(body, |edge| edge.to);
        export.reaches.push(Address(self.program.start(goal)).to_string());
        export.path = path.iter().map(|edge| self.step(edge)).collect();
        export.says = match path.len() {
            0 => format!("is itself {what}"),
            1 => format!("calls {what}, at {:#x}", path[0].at),
            hops => format!("reaches {what} in {hops} calls, the first at {:#x}", path[0].at),
        };
    }

    fn show(&self, found: &core::Core) -> Core {
        let function = |&(function, why): &(Function, Why)| {
            let (at, why) = match why {
                Why::Makes(at) => (at, format!("takes the virtual table of {} or of a class derived from it", found.class)),
                Why::CallsSlot(at, offset) => {
                    let target = found.slots.iter().find(|&&(slot, _)| slot == offset).map_or(0, |&(_, function)| self.program.start(function));
                    let device = found.device.as_deref().unwrap_or_default();
                    (at, format!("calls slot {offset:#x}, which in the table of {device} is the function at {target:#x} that makes such objects"))
                }
            };
            Member { address: Address(self.program.start(function)), at: Address(at), why, name: None }
        };
        Core { class: found.class.clone(), device: found.device.clone(), functions: found.members.iter().map(function).collect() }
    }

    /// Symbols that this file calls through its PLT or GOT, and from which exports that is reached.
    fn called(&self, bound: &BTreeSet<u32>, wanted: impl Fn(&Symbol<'_>) -> bool) -> Vec<Called> {
        let mut by_symbol: BTreeMap<u32, Vec<&Call>> = BTreeMap::new();
        for call in &self.program.calls {
            if let Target::Symbol(index) = call.to {
                by_symbol.entry(index).or_default().push(call);
            }
        }
        let mut found = Vec::new();
        for symbol in self.symbols.symbols.iter().filter(|symbol| wanted(symbol)) {
            let calls = by_symbol.get(&symbol.index).map_or(&[][..], Vec::as_slice);
            if calls.is_empty() && !(bound.contains(&symbol.index) && symbol.is_import()) {
                continue;
            }
            // A file that calls thousands of its own exports through its PLT is made to keep us busy.
            let ways = if found.len() < MOST_CALLED { self.graph.ways(calls.iter().map(|call| call.from), &self.blocked) } else { Ways::default() };
            let reached = self
                .names
                .iter()
                .zip(&self.bodies)
                .filter(|(_, body)| body.function().is_some_and(|function| ways.hops.get(function as usize).is_some_and(Option::is_some)));
            found.push(Called {
                name: symbol.name.to_string(),
                class: None,
                at: calls.iter().map(|call| Address(call.at)).collect(),
                reached_from: reached.map(|((name, _), _)| name.clone()).collect(),
                preload_wins: bound.contains(&symbol.index),
            });
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found
    }
}
