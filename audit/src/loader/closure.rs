//! The objects of a process in load order: the program, its preloads, then what they need, breadth first (`rtld.c`, `dl-deps.c`).

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use super::cache::{self, Cache};
use super::candidate::{Library, Outcome, Wanted};
use super::command::{self, Started};
use super::fresh::Stamp;
use super::hwcaps::Cpu;
use super::interpreter::{Interpreter, Libc};
use super::search::{Hit, How, Looked, origin};
use super::secure;
use super::tree::{Tree, identity};
use super::unknown::{self, Code, Unknown};
use super::{Alternative, Error, Failure, Limits, Linking, Object, Request, Resolution};
use crate::elf::{Class, Elf, Endianness, Names};

const PRELOADS: &str = "/etc/ld.so.preload";

/// What does not change while a program is resolved.
#[derive(Debug)]
pub(super) struct Loader {
    pub tree: Tree,
    pub interpreter: Interpreter,
    pub cache: Option<Cache>,
    pub library_path: Option<String>,
    pub wanted: Wanted,
    pub judged: RefCell<HashMap<String, Outcome>>,
    pub capabilities: RefCell<HashMap<String, bool>>,
    preloads: Vec<(String, &'static str)>,
    /// Files beside the objects that decide, as they were read; absent ones too.
    lists: Vec<(String, Option<Stamp>)>,
    pub secure: bool,
    limits: Limits,
}

impl Loader {
    pub(super) fn is_x86_64(&self) -> bool {
        self.wanted.machine == 62
    }
}

/// An object with what the search needs of it.
#[derive(Debug)]
pub(super) struct Node {
    pub object: Object,
    pub rpath: Option<String>,
    pub runpath: Option<String>,
    pub flags_1: u64,
    pub origin: String,
    needed: Vec<String>,
    names: Vec<String>,
    id: (u64, u64),
}

/// The objects of a process on one CPU.
#[derive(Debug)]
pub(super) struct State {
    pub cpu: Cpu,
    pub nodes: Vec<Node>,
}

impl State {
    /// The object that answers to a name already.
    pub(super) fn by_name(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.names.iter().any(|known| known == name) || node.object.soname.as_deref() == Some(name))
    }

    pub(super) fn by_file(&self, id: (u64, u64)) -> Option<usize> {
        self.nodes.iter().position(|node| node.id == id)
    }

    fn objects(&self) -> Vec<Object> {
        self.nodes.iter().map(|node| node.object.clone()).collect()
    }
}

/// One walk for one CPU, with what it met.
pub(super) struct Run<'l> {
    pub loader: &'l Loader,
    pub cpu: Cpu,
    pub cpu_matters: Cell<bool>,
    pub unknowns: RefCell<Vec<Unknown>>,
    /// Secure mode looks for a preload: only set-user-id libraries count, and the cache does not.
    pub only_set_id: Cell<bool>,
}

/// What a walk comes to.
struct Walked {
    state: State,
    failures: Vec<Failure>,
    dropped: Vec<Failure>,
}

impl<'l> Run<'l> {
    pub(super) fn new(loader: &'l Loader, cpu: Cpu) -> Self {
        Self { loader, cpu, cpu_matters: Cell::new(false), unknowns: RefCell::new(Vec::new()), only_set_id: Cell::new(false) }
    }

    pub(super) fn unknown(&self, code: &Code, object: &str, detail: &str) {
        let unknown = Unknown::new(code, object, detail);
        let mut unknowns = self.unknowns.borrow_mut();
        if !unknowns.contains(&unknown) {
            unknowns.push(unknown);
        }
    }

    fn walk(&self, program: Node) -> Walked {
        let mut walked = Walked { state: State { cpu: self.cpu, nodes: vec![program] }, failures: Vec::new(), dropped: Vec::new() };
        for (name, by) in &self.loader.preloads {
            self.preload(&mut walked, name, by);
        }
        let mut next = 0;
        while next < walked.state.nodes.len() {
            for name in walked.state.nodes[next].needed.clone() {
                self.need(&mut walked, &name, next);
            }
            next += 1;
        }
        walked
    }

    fn preload(&self, walked: &mut Walked, name: &str, by: &'static str) {
        // In secure mode a name with a slash is dropped without a word; one without needs the set-user-id bit on the library, whoever names it.
        if self.loader.secure && by != PRELOADS && !secure::is_preload(name) {
            return;
        }
        // It is in the process already, as one that is named twice is, and keeps its place behind what the program needs.
        if self.answers_interpreter(name) {
            return;
        }
        self.only_set_id.set(self.loader.secure && !name.contains('/'));
        let requested = self.request(&mut walked.state, name, 0);
        self.only_set_id.set(false);
        match requested {
            Ok(Some(index)) => {
                let object = &mut walked.state.nodes[index].object;
                object.rule = format!("{by}, {}", object.rule);
                object.how = How::Preload;
            }
            Ok(None) => {}
            // The loader reports it and goes on.
            Err(failure) => walked.dropped.push(failure),
        }
    }

    /// A needed name is expanded before anything is compared with it, unlike that of a preload.
    fn need(&self, walked: &mut Walked, name: &str, from: usize) {
        let node = &walked.state.nodes[from];
        let asked = match self.expand(node, name) {
            Some(expanded) => self.request(&mut walked.state, &expanded, from),
            None => Err(Failure {
                name: name.to_string(),
                needed_by: node.object.path.clone(),
                file: Some(name.to_string()),
                problem: "empty dynamic string token substitution".into(),
            }),
        };
        if let Err(failure) = asked
            && !walked.failures.contains(&failure)
        {
            walked.failures.push(failure);
        }
    }

    /// Index of a new object; `None` where one of this name or file is there already.
    fn request(&self, state: &mut State, name: &str, from: usize) -> Result<Option<usize>, Failure> {
        if name.contains("\\x") {
            self.unknown(&unknown::NAME, &state.nodes[from].object.path, name);
        }
        if state.by_name(name).is_some() {
            return Ok(None);
        }
        let fail = |file, problem| Failure { name: name.to_string(), needed_by: state.nodes[from].object.path.clone(), file, problem };
        if self.answers_interpreter(name) {
            let node = self.interpreter(name, from);
            state.nodes.push(node);
            return Ok(Some(state.nodes.len() - 1));
        }
        let hit = match self.look(state, name, from) {
            Looked::Hit(hit) => hit,
            Looked::Missing => return Err(fail(None, "cannot open shared object file: No such file or directory".into())),
            Looked::Fatal { path, problem } => return Err(fail(Some(path), problem)),
        };
        if let Some(index) = state.by_file(hit.library.id) {
            state.nodes[index].names.push(name.to_string());
            return Ok(None);
        }
        if state.nodes.len() >= self.loader.limits.objects {
            self.unknown(&unknown::BOUND, name, &format!("the process would have more than {} objects", self.loader.limits.objects));
            return Ok(None);
        }
        let node = self.node(hit, name, from);
        state.nodes.push(node);
        Ok(Some(state.nodes.len() - 1))
    }

    /// The interpreter is in the process before anything is searched for: as the program names it, and by its soname.
    fn answers_interpreter(&self, name: &str) -> bool {
        let path = &self.loader.interpreter.path;
        name == path || self.loader.interpreter_library().is_some_and(|library| library.names.soname.as_deref() == Some(name))
    }

    fn interpreter(&self, name: &str, from: usize) -> Node {
        let path = self.loader.interpreter.path.clone();
        let library = self
            .loader
            .interpreter_library()
            .unwrap_or_else(|| Box::new(Library { id: (0, 0), stamp: Stamp::default(), names: Names::default(), flags_1: 0 }));
        let mut node = self.node(Hit { path, how: How::Interpreter, rule: "interpreter of the program".into(), library }, name, from);
        // What a loader needs itself is nobody's business before it has relocated itself.
        node.needed.clear();
        node
    }

    fn node(&self, hit: Hit, name: &str, from: usize) -> Node {
        let Library { id, stamp, names, flags_1 } = *hit.library;
        self.note_tags(&hit.path, &names, false);
        let file = self.loader.tree.file(&hit.path).unwrap_or_default();
        let origin = origin(&self.loader.tree.absolute(&hit.path));
        Node {
            names: vec![hit.path.clone(), name.to_string()],
            object: Object {
                path: hit.path,
                soname: names.soname,
                how: hit.how,
                rule: hit.rule,
                needed_by: Some(from),
                name: name.to_string(),
                file,
                stamp,
            },
            rpath: names.rpath,
            runpath: names.runpath,
            flags_1,
            origin,
            needed: names.needed,
            id,
        }
    }

    /// Only the program's audit tags count; those of a library were copied into the program's `DT_DEPAUDIT` when it was linked.
    fn note_tags(&self, path: &str, names: &Names, program: bool) {
        for linked in &names.linked {
            let audit = linked.tag.ends_with("AUDIT");
            if audit && !program {
                continue;
            }
            let code = if audit { &unknown::AUDIT } else { &unknown::FILTER };
            self.unknown(code, path, &format!("{} {}", linked.tag, linked.name));
        }
    }
}

impl Loader {
    /// What is no longer as it was read.
    pub(super) fn changed<'o>(&self, objects: impl Iterator<Item = &'o Object>) -> Vec<Unknown> {
        let mut read: Vec<(&str, Option<Stamp>)> =
            objects.filter(|object| object.stamp != Stamp::default()).map(|object| (object.path.as_str(), Some(object.stamp))).collect();
        read.extend(self.lists.iter().map(|(path, stamp)| (path.as_str(), *stamp)));
        read.sort_unstable_by_key(|&(path, _)| path);
        read.dedup();
        let changed = read.into_iter().filter(|&(path, stamp)| Stamp::of(&self.tree, path) != stamp);
        changed.map(|(path, _)| Unknown::new(&unknown::CHANGED, path, "is not the file that was read")).collect()
    }

    fn interpreter_library(&self) -> Option<Box<Library>> {
        match self.judge(&self.interpreter.path) {
            Outcome::Taken(library) => Some(library),
            _ => None,
        }
    }
}

/// See [`super::resolve`].
pub(super) fn resolve(request: &Request) -> Result<Resolution, Error> {
    let (mut resolution, marked) = resolve_once(request, true)?;
    if marked {
        let (plain, _) = resolve_once(request, false)?;
        let paths = |resolution: &Resolution| -> Vec<Vec<String>> {
            resolution.sets().map(|objects| objects.iter().map(|object| object.path.clone()).collect()).collect()
        };
        if paths(&resolution) != paths(&plain) || resolution.failures != plain.failures {
            let detail = "set-user-id, set-group-id or with capabilities, and what is loaded depends on whether that takes effect";
            resolution.unknowns.push(Unknown::new(&unknown::SECURE, resolution.program.as_str(), detail));
        }
    }
    Ok(resolution)
}

/// One resolution, and whether the program is marked for secure mode; the mode counts only where `secure` says so.
fn resolve_once(request: &Request, secure: bool) -> Result<(Resolution, bool), Error> {
    let tree = Tree::new(&request.root, &request.cwd, request.limits.probes, request.limits.bytes);
    let started = match &request.interpreter {
        None => command::start(&tree, request)?,
        Some(_) => Started::given(request),
    };
    let fail = |problem: String| Error { subject: started.program.clone(), problem };
    let file = tree.file(&started.program).map_err(|error| fail(error.to_string()))?;
    let metadata = std::fs::metadata(&file).map_err(|error| fail(error.to_string()))?;
    let image = Elf::open(&file).map_err(|error| fail(error.to_string()))?;
    let mut unknowns: Vec<Unknown> =
        started.scripts.iter().map(|script| Unknown::new(&unknown::SCRIPT, &script.path, format!("a script for {}", script.interpreter))).collect();
    let variable = |name: &str| started.environment.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str());

    let path = match &request.interpreter {
        None => image.interpreter().map_err(|error| fail(error.to_string()))?,
        given => given.clone(),
    };
    let (interpreter, linking) = match &path {
        None => (None, Linking::Static),
        Some(path) => match Interpreter::read(&tree, path) {
            Ok(interpreter) => {
                let linking = match interpreter.libc {
                    Libc::Glibc => Linking::Glibc,
                    Libc::Musl => Linking::Musl,
                    Libc::Other => Linking::Other,
                };
                (Some(interpreter), linking)
            }
            Err(problem) => return Err(fail(format!("its interpreter {path}: {problem}: the program cannot start"))),
        },
    };
    if let (Linking::Musl | Linking::Other, Some(path)) = (linking, &path) {
        unknowns.push(Unknown::new(&unknown::INTERPRETER, path, format!("started by {path}, whose search is not glibc's")));
    }

    let names = if image.dynamic.is_empty() { Names::default() } else { image.names().map_err(|error| fail(error.to_string()))? };
    let data = if image.header.endian == Endianness::Big { 2 } else { 1 };
    let wanted = Wanted { class: image.header.class, machine: image.header.machine, data };
    // The kernel tells a program where it lies; what is given to a loader lies where it was said to.
    let canonical = match &request.interpreter {
        None => tree.canonical(&started.program).unwrap_or_else(|_| started.program.clone()),
        Some(_) => tree.absolute(&started.program),
    };
    let dynamic = linking == Linking::Glibc;
    let marked = dynamic && request.interpreter.is_none() && secure::is_marked(&file, &metadata);
    let secure = secure && marked;
    if dynamic {
        note_variables(&variable, interpreter.as_ref(), &mut unknowns);
    }
    let cached = interpreter.as_ref().filter(|_| dynamic).map(|interpreter| interpreter.cache.as_str());
    let lists = cached.into_iter().flat_map(|cache| [cache, PRELOADS]);
    let lists = lists.chain(path.as_deref()).map(|path| (path.to_string(), Stamp::of(&tree, path))).collect();
    let cache = cached.and_then(|path| read_cache(&tree, path, wanted, &mut unknowns));
    let preloads = if dynamic { preloads(&tree, &variable, request, &mut unknowns) } else { Vec::new() };
    let loader = Loader {
        interpreter: interpreter.clone().unwrap_or_else(|| Interpreter {
            path: String::new(),
            libc: Libc::Other,
            version: None,
            directories: Vec::new(),
            lib: None,
            cache: String::new(),
        }),
        cache,
        library_path: variable("LD_LIBRARY_PATH").filter(|_| !secure).map(Into::into),
        wanted,
        judged: RefCell::default(),
        capabilities: RefCell::default(),
        preloads,
        lists,
        secure,
        limits: request.limits,
        tree,
    };
    let program = || Node {
        object: Object {
            path: started.program.clone(),
            soname: names.soname.clone(),
            how: How::Program,
            rule: "the command".into(),
            needed_by: None,
            name: started.program.clone(),
            file: file.clone(),
            stamp: Stamp::from(&metadata),
        },
        rpath: names.rpath.clone(),
        runpath: names.runpath.clone(),
        flags_1: image.dynamic.flags_1(),
        origin: origin(&canonical),
        needed: if dynamic { names.needed.clone() } else { Vec::new() },
        names: Vec::new(),
        id: identity(&metadata),
    };

    let first = request.cpu.unwrap_or(Cpu { level: 1, platform: "x86_64", avx512_1: false });
    let (walked, matters, found) = walk_once(&loader, first, program(), &names);
    merge(&mut unknowns, found);
    let objects = walked.state.objects();
    let mut alternatives: Vec<Alternative> = Vec::new();
    if matters && request.cpu.is_none() {
        for cpu in Cpu::all().filter(|&cpu| cpu != first) {
            let (other, _, found) = walk_once(&loader, cpu, program(), &names);
            merge(&mut unknowns, found);
            let others = other.state.objects();
            if others == objects && other.failures == walked.failures {
                continue;
            }
            match alternatives.iter_mut().find(|known| known.objects == others && known.failures == other.failures) {
                Some(known) => known.cpus.push(cpu),
                None => {
                    alternatives.push(Alternative { cpus: vec![cpu], objects: others, failures: other.failures, state: Rc::new(other.state) });
                }
            }
        }
    }
    if loader.tree.exhausted() {
        merge(
            &mut unknowns,
            vec![Unknown::new(&unknown::BOUND, &started.program, format!("more than {} files were asked for", request.limits.probes))],
        );
    }
    let resolution = Resolution {
        program: started.program,
        scripts: started.scripts,
        arguments: started.arguments,
        environment: started.environment,
        linking,
        interpreter,
        objects,
        failures: walked.failures,
        dropped: walked.dropped,
        unknowns,
        alternatives,
        loader: Rc::new(loader),
        state: Rc::new(walked.state),
    };
    Ok((resolution, marked))
}

fn walk_once(loader: &Loader, cpu: Cpu, program: Node, names: &Names) -> (Walked, bool, Vec<Unknown>) {
    let run = Run::new(loader, cpu);
    run.note_tags(&program.object.path, names, true);
    let walked = run.walk(program);
    (walked, run.cpu_matters.get(), run.unknowns.take())
}

fn merge(unknowns: &mut Vec<Unknown>, found: Vec<Unknown>) {
    for unknown in found {
        if !unknowns.contains(&unknown) {
            unknowns.push(unknown);
        }
    }
}

/// Variables that change the search in ways that are not modelled.
fn note_variables<'e>(variable: &dyn Fn(&str) -> Option<&'e str>, interpreter: Option<&Interpreter>, unknowns: &mut Vec<Unknown>) {
    if let Some(value) = variable("LD_AUDIT").filter(|value| !value.is_empty()) {
        unknowns.push(Unknown::new(&unknown::AUDIT, "LD_AUDIT", value));
    }
    let tunables = variable("GLIBC_TUNABLES").filter(|value| value.contains("glibc.rtld.") || value.contains("glibc.cpu."));
    let legacy = interpreter.is_some_and(Interpreter::legacy_hwcaps);
    let masks = ["LD_HWCAP_MASK", "LD_ASSUME_KERNEL"].map(|name| (name, variable(name).filter(|_| legacy)));
    for (name, value) in [("GLIBC_TUNABLES", tunables)].into_iter().chain(masks) {
        if let Some(value) = value {
            unknowns.push(Unknown::new(&unknown::TUNABLES, name, value));
        }
    }
}

fn read_cache(tree: &Tree, path: &str, wanted: Wanted, unknowns: &mut Vec<Unknown>) -> Option<Cache> {
    let bytes = match tree.read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => {
            unknowns.push(Unknown::new(&unknown::CACHE, path, error.to_string()));
            return None;
        }
    };
    let Some(flags) = cache::flags(wanted.machine, wanted.class == Class::Elf64) else {
        unknowns.push(Unknown::new(&unknown::CACHE, path, format!("the flags of machine {} are not known", wanted.machine)));
        return None;
    };
    Cache::read(&bytes, flags).map_err(|problem| unknowns.push(Unknown::new(&unknown::CACHE, path, problem))).ok()
}

/// Preloads in order, each with where it is named.
fn preloads<'e>(
    tree: &Tree,
    variable: &dyn Fn(&str) -> Option<&'e str>,
    request: &Request,
    unknowns: &mut Vec<Unknown>,
) -> Vec<(String, &'static str)> {
    let listed = |text: &str, by| text.split([' ', ':']).filter(|name| !name.is_empty()).map(|name| (name.to_string(), by)).collect::<Vec<_>>();
    let mut all = listed(variable("LD_PRELOAD").unwrap_or_default(), "LD_PRELOAD");
    all.extend(request.preloads.iter().map(|name| (name.clone(), "--preload")));
    match tree.read(PRELOADS) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            // A carriage return is part of a name.
            for line in text.split('\n') {
                let names = line.split('#').next().unwrap_or_default();
                all.extend(names.split([' ', '\t', ':']).filter(|name| !name.is_empty()).map(|name| (name.to_string(), PRELOADS)));
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => unknowns.push(Unknown::new(&unknown::UNREADABLE, PRELOADS, error.to_string())),
    }
    all
}
