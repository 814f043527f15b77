//! The admission protocol under an explorer: every interleaving of a few small programs, where the death of a process is a step
//! between any two accesses to shared memory.
//!
//! The code explored is the product's own (`ledger::protocol`), over a model of the shared words. A thread's behaviour depends
//! on nothing but the answers it has got, so a thread is its list of answers: to learn what it does next, it is run again from
//! the start with these answers and stopped, by unwinding, at the first access that has none yet. A state is the shared words,
//! the locks, who is alive, and the list of answers of each thread; states seen before are not explored again.
//!
//! Checked in every state:
//! - what the driver has given to live processes is at most the quota, and so is what they hold in the ledger;
//! - no live process holds less than the driver gave it (a charge was never reclaimed under a live one);
//! - while somebody adds up under the lock, nobody else is admitted (so that no bytes are seen twice).
//!
//! Checked at every refusal: at some moment of the call there really was no room, or the call waited until its bound for a
//! process that stood still. Checked at the end of every run: after all have ended or died, one who asks for the whole quota
//! gets it.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use vrocm_core::ledger::protocol::{self, Shared, Wait, Word};

use Step::{Claim, Fail, Free, Take, TakeAndFree};

/// An access to what threads share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Op {
    Slots,
    /// A word, or the part of it that a lane has.
    Load(usize, Word, usize),
    Add(usize, Word, usize, u64),
    Sub(usize, Word, usize, u64),
    Queueing,
    SetQueueing(bool),
    Lock,
    Unlock,
    /// The slot's lock, from another descriptor.
    WinSlot(usize),
    ClearSlot(usize, Word, usize),
    LeaveSlot(usize),
    Pause(Wait),
    /// The driver gives or takes.
    Driver(i64),
    /// The call begins: the bytes it wants.
    Begin(u64),
    /// The call ends: admitted or not.
    End(bool),
}

/// What a thread does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Op(Op),
    /// The step is done; `false`: the program as well.
    Done(bool),
}

/// What a program is made of.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Admitted, given, committed; then freed and refunded.
    TakeAndFree(u64),
    /// Admitted, given, committed; kept to the end.
    Take(u64),
    /// Admitted; the driver refuses; given back.
    Fail(u64),
    /// What the slot held from the start is freed and refunded.
    Free(u64),
    /// Becomes the owner of its slot, which a dead process may have left; ends if it is not to be had.
    Claim,
}

/// A thread in the middle of its program: the model of [`Shared`].
struct Thread<'a> {
    me: usize,
    /// How many lanes a slot has, and which of them is this thread's.
    lanes: usize,
    lane: usize,
    answers: RefCell<std::slice::Iter<'a, u64>>,
}

impl Thread<'_> {
    fn op(&self, op: Op) -> u64 {
        match self.answers.borrow_mut().next() {
            Some(&answer) => answer,
            None => resume_unwind(Box::new(op)),
        }
    }

    /// The lanes that a word has parts in: the charges of a process are one word.
    fn lanes_of(&self, word: Word) -> usize {
        if word == Word::Held { 1 } else { self.lanes }
    }

    fn lane_of(&self, word: Word) -> usize {
        if word == Word::Held { 0 } else { self.lane }
    }

    fn clear(&self, slot: usize) {
        for word in [Word::Bid, Word::Held, Word::Flight] {
            for lane in 0..self.lanes_of(word) {
                self.op(Op::ClearSlot(slot, word, lane));
            }
        }
    }

    /// One step of the program. `false`: the program is over.
    fn run(&mut self, step: Step, quota: u64) -> bool {
        let me = self.me;
        if let Free(bytes) = step {
            self.op(Op::Driver(-(bytes as i64)));
            protocol::release(self, me, bytes);
            return true;
        }
        let (Take(bytes) | TakeAndFree(bytes) | Fail(bytes)) = step else {
            if self.op(Op::WinSlot(me)) == 0 {
                return false;
            }
            self.clear(me);
            return true;
        };
        self.op(Op::Begin(bytes));
        let admitted = protocol::reserve(self, me, bytes, quota, 0).is_ok();
        self.op(Op::End(admitted));
        if !admitted {
            return true;
        }
        if matches!(step, Fail(_)) {
            protocol::cancel(self, me, bytes);
            return true;
        }
        self.op(Op::Driver(bytes as i64));
        protocol::commit(self, me, bytes);
        if matches!(step, TakeAndFree(_)) {
            self.op(Op::Driver(-(bytes as i64)));
            protocol::release(self, me, bytes);
        }
        true
    }
}

impl Shared for Thread<'_> {
    fn slots(&self) -> usize {
        self.op(Op::Slots) as usize
    }
    fn load(&self, slot: usize, word: Word) -> u64 {
        (0..self.lanes_of(word)).map(|lane| self.op(Op::Load(slot, word, lane))).sum()
    }
    fn add(&self, slot: usize, word: Word, bytes: u64) {
        self.op(Op::Add(slot, word, self.lane_of(word), bytes));
    }
    fn sub(&self, slot: usize, word: Word, bytes: u64) {
        self.op(Op::Sub(slot, word, self.lane_of(word), bytes));
    }
    fn queueing(&self) -> bool {
        self.op(Op::Queueing) != 0
    }
    fn set_queueing(&self, on: bool) {
        self.op(Op::SetQueueing(on));
    }
    fn lock(&mut self) -> bool {
        self.op(Op::Lock) != 0
    }
    fn unlock(&mut self) {
        self.op(Op::Unlock);
    }
    fn sweep(&mut self, slot: usize) {
        if self.op(Op::WinSlot(slot)) != 0 {
            self.clear(slot);
            self.op(Op::LeaveSlot(slot));
        }
    }
    fn pause(&mut self, wait: Wait) -> bool {
        self.op(Op::Pause(wait)) != 0
    }
}

/// How the deciding lock behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Queue {
    /// It is had, sooner or later.
    Works,
    /// No descriptor is left: it is never had, and nobody can be swept.
    Missing,
    /// Whoever finds it taken may give up.
    TimesOut,
}

struct Scenario {
    name: &'static str,
    quota: u64,
    /// The slot of each thread, and its program. Threads of one slot are one process.
    threads: Vec<(usize, Vec<Step>)>,
    /// Slots whose process starts only with [`Claim`]: the one before may have died.
    deaths: u8,
    queue: Queue,
    /// False refusals are allowed (there is no lock to prevent them).
    may_refuse: bool,
    /// This thread is never to be refused.
    never: Option<usize>,
    /// What the slots hold at the start.
    start: [u64; SLOTS],
    /// A call does not wait for dying processes: that wait also hides other mistakes.
    hasty: bool,
    /// Lanes of each slot: the threads of a process have one each, as far as there are some.
    lanes: usize,
}

const SLOTS: usize = 3;
/// Words of a slot: bid, held and flight of the first lane, bid and flight of the second.
const WORDS: usize = 5;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    words: [[u64; WORDS]; SLOTS],
    queueing: bool,
    /// Thread that holds the deciding lock.
    lock: Option<u8>,
    /// It has let the others' bids settle and is adding up: until it is done nobody else may be admitted.
    deciding: bool,
    /// Who holds the slot's lock: its own process, or a thread that sweeps.
    slot_lock: [Option<u8>; SLOTS],
    alive: [bool; SLOTS],
    given: [u64; SLOTS],
    deaths: u8,
    threads: Vec<ThreadState>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[allow(clippy::struct_excessive_bools, reason = "each is one fact about one call")]
struct ThreadState {
    /// The step of the program, and the answers got in it, as a node of the step's tree.
    step: u8,
    node: u32,
    gone: bool,
    wants: u64,
    /// During this call there was a moment without room.
    justified: bool,
    /// A wait of this call has reached its bound.
    timed_out: bool,
    wakes: [u8; 3],
    /// Somebody else has changed something since the last wake.
    changed: bool,
}

/// A slot's lock is its process's.
const OWNER: u8 = 0xff;

/// The answers that a step of a thread can get, as a tree. What a step did is forgotten when it is done.
#[derive(Default)]
struct Tree {
    nodes: Vec<(Vec<u64>, Next)>,
    children: HashMap<(u32, u64), u32>,
    /// The first node where the lock is asked for. There the protocol remembers nothing but its arguments (it is the head of the
    /// loop in `queue`), so all such nodes are one.
    at_lock: Option<u32>,
}

struct Explorer<'a> {
    scenario: &'a Scenario,
    /// By thread and step.
    trees: Vec<Vec<Tree>>,
    hasher: std::hash::RandomState,
    /// Words and flag at ends that were checked.
    checked: HashSet<([[u64; WORDS]; SLOTS], bool)>,
    states: usize,
    ends: usize,
    /// By thread.
    refusals: Vec<usize>,
    timeouts: usize,
}

/// Wakes the threads that wait for something to happen.
fn tell_others(state: &mut State, thread: usize) {
    for (other, local) in state.threads.iter_mut().enumerate() {
        local.changed |= other != thread;
    }
}

fn word_index(word: Word, lane: usize) -> usize {
    match (word, lane) {
        (Word::Bid, 0) => 0,
        (Word::Held, _) => 1,
        (Word::Flight, 0) => 2,
        (Word::Bid, _) => 3,
        (Word::Flight, _) => 4,
    }
}

impl<'a> Explorer<'a> {
    fn new(scenario: &'a Scenario) -> Self {
        let refusals = vec![0; scenario.threads.len()];
        Self { scenario, trees: vec![], hasher: std::hash::RandomState::new(), checked: HashSet::new(), states: 0, ends: 0, refusals, timeouts: 0 }
    }

    fn next_of(&self, thread: usize, step: usize, answers: &[u64]) -> Next {
        let (slot, program) = &self.scenario.threads[thread];
        let lanes = self.scenario.lanes;
        // A thread that finds no lane of its own shares one: here the last.
        let lane = self.scenario.threads[..thread].iter().filter(|(other, _)| other == slot).count().min(lanes - 1);
        let mut model = Thread { me: *slot, lanes, lane, answers: RefCell::new(answers.iter()) };
        match catch_unwind(AssertUnwindSafe(|| model.run(program[step], self.scenario.quota))) {
            Ok(goes_on) => Next::Done(goes_on && step + 1 < program.len()),
            Err(payload) => match payload.downcast::<Op>() {
                Ok(op) => Next::Op(*op),
                Err(payload) => resume_unwind(payload),
            },
        }
    }

    fn grow_trees(&mut self) {
        for thread in 0..self.scenario.threads.len() {
            self.trees.push(Vec::new());
            for step in 0..self.scenario.threads[thread].1.len() {
                let next = self.next_of(thread, step, &[]);
                self.trees[thread].push(Tree { nodes: vec![(Vec::new(), next)], ..Tree::default() });
            }
        }
    }

    /// Where a thread is after an answer.
    fn advance(&mut self, thread: usize, local: &mut ThreadState, answer: u64) {
        let step = usize::from(local.step);
        local.node = self.child(thread, step, local.node, answer);
        if let Next::Done(true) = self.trees[thread][step].nodes[local.node as usize].1 {
            local.step += 1;
            local.node = 0;
        }
    }

    fn child(&mut self, thread: usize, step: usize, node: u32, answer: u64) -> u32 {
        if let Some(&child) = self.trees[thread][step].children.get(&(node, answer)) {
            return child;
        }
        let mut answers = self.trees[thread][step].nodes[node as usize].0.clone();
        answers.push(answer);
        let next = self.next_of(thread, step, &answers);
        let tree = &mut self.trees[thread][step];
        let child = match tree.at_lock {
            Some(known) if next == Next::Op(Op::Lock) => known,
            _ => {
                tree.nodes.push((answers, next));
                tree.nodes.len() as u32 - 1
            }
        };
        if next == Next::Op(Op::Lock) {
            tree.at_lock = Some(child);
        }
        tree.children.insert((node, answer), child);
        child
    }

    fn next(&self, state: &State, thread: usize) -> Option<Op> {
        let local = &state.threads[thread];
        if local.gone {
            return None;
        }
        match self.trees[thread][usize::from(local.step)].nodes[local.node as usize].1 {
            Next::Op(op) => Some(op),
            Next::Done(_) => None,
        }
    }

    /// Wakes of one call per kind of wait before the model says that the time is up. Without the lock only the quota is checked, and
    /// few do.
    fn wakes(&self) -> u8 {
        if self.scenario.queue == Queue::Works { 6 } else { 1 }
    }

    fn slots(&self) -> usize {
        self.scenario.threads.iter().map(|(slot, _)| slot + 1).max().unwrap_or(0)
    }

    fn threads_of(&self, slot: usize) -> usize {
        self.scenario.threads.iter().filter(|(other, _)| *other == slot).count()
    }

    /// The answers that an operation can get now; none: it waits.
    fn answers(&self, state: &State, thread: usize, op: Op) -> Vec<u64> {
        let local = &state.threads[thread];
        match op {
            Op::Slots => vec![self.slots() as u64],
            Op::Load(slot, word, lane) => vec![state.words[slot][word_index(word, lane)]],
            Op::Queueing => vec![state.queueing.into()],
            Op::Lock => match (self.scenario.queue, state.lock) {
                (Queue::Missing, _) | (Queue::TimesOut, Some(_)) => vec![0],
                (_, None) => vec![1],
                (Queue::Works, Some(_)) => vec![],
            },
            Op::WinSlot(slot) => vec![(self.scenario.queue != Queue::Missing && state.slot_lock[slot].is_none()).into()],
            Op::Pause(Wait::Dying) if self.scenario.hasty => vec![0],
            Op::Pause(wait) => {
                let changed = local.changed;
                if changed && local.wakes[wait as usize] < self.wakes() {
                    vec![1]
                } else if changed || !self.anybody_else_moves(state, thread) {
                    vec![0]
                } else {
                    vec![]
                }
            }
            _ => vec![0],
        }
    }

    /// True if some other thread has something to do that is not waiting.
    fn anybody_else_moves(&self, state: &State, thread: usize) -> bool {
        (0..state.threads.len()).any(|other| {
            other != thread
                && match self.next(state, other) {
                    None => false,
                    Some(Op::Pause(wait)) => state.threads[other].changed && state.threads[other].wakes[wait as usize] < self.wakes(),
                    Some(op) => !self.answers(state, other, op).is_empty(),
                }
        })
    }

    fn apply(&mut self, state: &State, thread: usize, op: Op, answer: u64) -> State {
        let mut after = state.clone();
        let slot_of_thread = self.scenario.threads[thread].0;
        match op {
            Op::Add(slot, word, lane, bytes) => {
                let decider = state.lock == Some(thread as u8);
                if word == Word::Held && state.deciding && !decider && self.scenario.queue == Queue::Works {
                    self.fail(state, "admitted while another decides");
                }
                after.words[slot][word_index(word, lane)] += bytes;
                after.deciding |= decider && word == Word::Bid && state.queueing && !state.threads[thread].timed_out;
            }
            Op::Sub(slot, word, lane, bytes) => {
                let left = after.words[slot][word_index(word, lane)].checked_sub(bytes);
                after.words[slot][word_index(word, lane)] = left.unwrap_or_else(|| self.fail(state, "a word went below zero"));
            }
            Op::SetQueueing(on) => {
                after.queueing = on;
                after.deciding = false;
            }
            Op::Lock if answer != 0 => after.lock = Some(thread as u8),
            Op::Unlock => after.lock = None,
            Op::WinSlot(slot) if answer != 0 => {
                if slot == slot_of_thread {
                    after.slot_lock[slot] = Some(OWNER);
                    after.alive[slot] = true;
                } else {
                    after.slot_lock[slot] = Some(thread as u8);
                }
            }
            Op::ClearSlot(slot, word, lane) => after.words[slot][word_index(word, lane)] = 0,
            Op::LeaveSlot(slot) => after.slot_lock[slot] = None,
            Op::Driver(bytes) => after.given[slot_of_thread] = after.given[slot_of_thread].wrapping_add_signed(bytes),
            Op::Begin(bytes) => {
                let local = &mut after.threads[thread];
                (local.wants, local.justified, local.timed_out, local.wakes, local.changed) = (bytes, false, false, [0; 3], false);
            }
            Op::End(admitted) => {
                if !admitted {
                    self.refusals[thread] += 1;
                    if self.scenario.never == Some(thread) {
                        self.fail(state, "refused, though it was only to wait");
                    }
                    let local = &state.threads[thread];
                    if !local.justified && !local.timed_out && !self.scenario.may_refuse {
                        self.fail(state, "refused, though there was room all the time");
                    }
                    if !local.justified && local.timed_out {
                        self.timeouts += 1;
                    }
                }
                after.threads[thread].wants = 0;
            }
            Op::Pause(wait) => {
                let local = &mut after.threads[thread];
                if answer == 0 {
                    local.timed_out |= wait != Wait::Dying;
                } else {
                    local.wakes[wait as usize] += 1;
                }
                local.changed = false;
            }
            _ => {}
        }
        let mut local = after.threads[thread].clone();
        self.advance(thread, &mut local, answer);
        after.threads[thread] = local;
        if matches!(op, Op::Add(_, Word::Held | Word::Flight, ..) | Op::Sub(..) | Op::ClearSlot(..) | Op::LeaveSlot(_)) {
            tell_others(&mut after, thread);
        }
        self.check(&mut after);
        after
    }

    /// The invariants, in every state.
    fn check(&self, state: &mut State) {
        let live = |words: &dyn Fn(usize) -> u64| (0..SLOTS).filter(|&slot| state.alive[slot]).map(words).sum::<u64>();
        let (given, held) = (live(&|slot| state.given[slot]), live(&|slot| state.words[slot][1]));
        if given > self.scenario.quota {
            self.fail(state, "the driver gave live processes more than the quota");
        }
        if held > self.scenario.quota {
            self.fail(state, "live processes hold more than the quota");
        }
        for slot in 0..SLOTS {
            if state.alive[slot] && state.words[slot][1] < state.given[slot] {
                self.fail(state, "a live process holds less than the driver gave it");
            }
        }
        let no_room = |wants: u64| wants != 0 && held + wants > self.scenario.quota;
        for local in &mut state.threads {
            local.justified |= no_room(local.wants);
        }
    }

    fn kill(&self, state: &State, slot: usize) -> State {
        let mut after = state.clone();
        after.alive[slot] = false;
        after.given[slot] = 0;
        after.deaths += 1;
        for (thread, (owner, program)) in self.scenario.threads.iter().enumerate() {
            // A thread that has yet to claim the slot is another process, which comes later.
            let waiting = (after.threads[thread].step, after.threads[thread].node) == (0, 0) && matches!(program[0], Claim);
            if *owner == slot && !waiting {
                after.threads[thread].gone = true;
                if after.lock == Some(thread as u8) {
                    after.lock = None;
                    after.deciding = false;
                }
                for lock in &mut after.slot_lock {
                    if *lock == Some(thread as u8) {
                        *lock = None;
                    }
                }
            }
        }
        if after.slot_lock[slot] == Some(OWNER) {
            after.slot_lock[slot] = None;
        }
        tell_others(&mut after, usize::MAX);
        after
    }

    /// Everybody has ended: the whole quota must be there for one who comes now.
    fn check_end(&mut self, state: &State) {
        self.ends += 1;
        for slot in (0..SLOTS).filter(|&slot| state.alive[slot]) {
            if state.words[slot] != [0, state.given[slot], 0, 0, 0] {
                self.fail(state, "a live process that has ended its calls holds other than the driver gave it");
            }
        }
        if self.scenario.queue == Queue::Missing || !self.checked.insert((state.words, state.queueing)) {
            return;
        }
        let mut words = state.words;
        let mut answers: Vec<u64> = Vec::new();
        let quota = self.scenario.quota;
        loop {
            let probe = Scenario { lanes: self.scenario.lanes, ..scenario("", quota, vec![(SLOTS, vec![Fail(quota)])], 0) };
            let Next::Op(op) = Explorer::new(&probe).next_of(0, 0, &answers) else { return };
            // The newcomer's own slot is one further; only its `Held` matters here.
            answers.push(match op {
                Op::Slots => SLOTS as u64,
                Op::Load(slot, word, lane) if slot < SLOTS => words[slot][word_index(word, lane)],
                Op::ClearSlot(slot, word, lane) => {
                    words[slot][word_index(word, lane)] = 0;
                    0
                }
                Op::Lock | Op::WinSlot(_) => 1,
                // A flag that a dead decider left must not keep anybody out.
                Op::Queueing => state.queueing.into(),
                Op::End(false) => self.fail(state, "after all have ended, the whole quota is not to be had"),
                _ => 0,
            });
        }
    }

    fn fail(&self, state: &State, what: &str) -> ! {
        let paths: Vec<_> = state
            .threads
            .iter()
            .enumerate()
            .map(|(thread, local)| {
                let step = usize::from(local.step);
                let (answers, next) = &self.trees[thread][step].nodes[local.node as usize];
                let path: Vec<_> = (0..answers.len()).map(|length| (self.next_of(thread, step, &answers[..length]), answers[length])).collect();
                format!("thread {thread} step {step}{}: {path:?} next {next:?}", if local.gone { " (dead)" } else { "" })
            })
            .collect();
        panic!("{}: {what}\n{state:#?}\n{}", self.scenario.name, paths.join("\n"));
    }

    fn explore(&mut self) {
        let threads = self.scenario.threads.len();
        self.grow_trees();
        let mut start = State {
            words: [[0; WORDS]; SLOTS],
            queueing: false,
            lock: None,
            deciding: false,
            slot_lock: [None; SLOTS],
            alive: [false; SLOTS],
            given: [0; SLOTS],
            deaths: 0,
            threads: Vec::new(),
        };
        for thread in 0..threads {
            start.threads.push(ThreadState {
                step: 0,
                node: 0,
                gone: false,
                wants: 0,
                justified: false,
                timed_out: false,
                wakes: [0; 3],
                changed: false,
            });
            let (slot, program) = &self.scenario.threads[thread];
            if !matches!(program[0], Claim) {
                start.slot_lock[*slot] = Some(OWNER);
                start.alive[*slot] = true;
                start.words[*slot][1] = self.scenario.start[*slot];
                start.given[*slot] = self.scenario.start[*slot];
            }
        }
        let mut seen: HashSet<u64> = HashSet::new();
        let mut stack = vec![start];
        while let Some(state) = stack.pop() {
            let mut moved = false;
            let mut waiting = false;
            for thread in 0..threads {
                let Some(op) = self.next(&state, thread) else { continue };
                waiting = true;
                for answer in self.answers(&state, thread, op) {
                    moved = true;
                    let mut after = self.apply(&state, thread, op, answer);
                    if joined(op)
                        && let Some(op) = self.next(&after, thread)
                    {
                        let answer = self.answers(&after, thread, op)[0];
                        after = self.apply(&after, thread, op, answer);
                    }
                    self.push(after, &mut seen, &mut stack);
                }
            }
            for slot in 0..SLOTS {
                let running = (0..threads).any(|thread| self.scenario.threads[thread].0 == slot && self.next(&state, thread).is_some());
                if state.deaths < self.scenario.deaths && state.alive[slot] && (running || state.words[slot][1] != 0) {
                    let after = self.kill(&state, slot);
                    self.push(after, &mut seen, &mut stack);
                }
            }
            if waiting && !moved {
                self.fail(&state, "everybody waits for everybody");
            }
            if !waiting {
                self.check_end(&state);
            }
        }
        println!(
            "{}: {} states, {} ends, {:?} refusals by thread, {} of them after waiting to the bound",
            self.scenario.name, self.states, self.ends, self.refusals, self.timeouts
        );
        assert!(self.ends > 0);
    }

    fn push(&mut self, mut state: State, seen: &mut HashSet<u64>, stack: &mut Vec<State>) {
        // Steps that nobody else can notice are taken at once: they lead to the same states in whatever order.
        while let Some((thread, op)) = self.quiet_step(&state) {
            let answer = self.answers(&state, thread, op)[0];
            state = self.apply(&state, thread, op, answer);
        }
        if seen.insert(self.hasher.hash_one(&state)) {
            self.states += 1;
            stack.push(state);
        }
    }

    fn quiet_step(&self, state: &State) -> Option<(usize, Op)> {
        (0..state.threads.len()).find_map(|thread| {
            let op = self.next(state, thread)?;
            let slot = self.scenario.threads[thread].0;
            let quiet = match op {
                Op::Slots | Op::End(_) | Op::Driver(1..) => true,
                Op::Load(other, ..) => other == slot && self.threads_of(slot) == 1,
                _ => false,
            };
            quiet.then_some((thread, op))
        })
    }
}

/// Steps that are taken together with the one after them, as late as possible: the driver has the memory until the refund
/// begins, and a call has begun no earlier than its first access.
fn joined(op: Op) -> bool {
    matches!(op, Op::Begin(_) | Op::Driver(..=-1))
}

fn explore(scenario: &Scenario) -> (Vec<usize>, usize) {
    let mut explorer = Explorer::new(scenario);
    explorer.explore();
    (explorer.refusals, explorer.timeouts)
}

fn scenario(name: &'static str, quota: u64, threads: Vec<(usize, Vec<Step>)>, deaths: u8) -> Scenario {
    Scenario { name, quota, threads, deaths, queue: Queue::Works, may_refuse: false, never: None, start: [0; SLOTS], hasty: false, lanes: 1 }
}

#[test]
fn two_want_the_same_room() {
    let (refusals, _) = explore(&scenario("two want the same room", 4, vec![(0, vec![Take(3)]), (1, vec![Take(3)])], 0));
    assert!(refusals.iter().all(|&count| count > 0), "either can be the one that is refused");
}

#[test]
fn two_want_the_same_room_and_may_die() {
    explore(&Scenario { hasty: true, ..scenario("two in haste", 4, vec![(0, vec![Take(3)]), (1, vec![Take(3)])], 1) });
    explore(&scenario("two want the same room and may die", 4, vec![(0, vec![Take(3)]), (1, vec![Take(3)])], 2));
}

#[test]
fn room_for_both_is_given_to_both() {
    let (refusals, _) = explore(&scenario("room for both", 4, vec![(0, vec![Take(2)]), (1, vec![Take(2)])], 0));
    assert_eq!(refusals, [0, 0]);
}

#[test]
fn room_that_is_freed_in_time_is_room() {
    explore(&scenario("one frees while the other asks", 4, vec![(0, vec![TakeAndFree(3), TakeAndFree(1)]), (1, vec![TakeAndFree(3)])], 1));
}

#[test]
fn room_that_moves_from_one_to_another_is_not_seen_twice() {
    // While the first frees 3, the second takes them: the third, which wants 1, has room at every moment.
    let threads = vec![(0, vec![Free(3)]), (1, vec![Take(3)]), (2, vec![Take(1)])];
    explore(&Scenario { start: [3, 0, 0], hasty: true, ..scenario("room that moves", 4, threads, 0) });
}

#[test]
fn a_reservation_that_fails_is_waited_for() {
    let (refusals, timeouts) = explore(&scenario("the driver refuses one", 4, vec![(0, vec![Fail(3)]), (1, vec![Take(3)])], 1));
    assert_eq!(timeouts, 0, "of {refusals:?}");
    // Nobody dies: the bytes of the one come back, and the other needs only to wait for them.
    explore(&Scenario { never: Some(1), ..scenario("the driver refuses one, nobody dies", 4, vec![(0, vec![Fail(3)]), (1, vec![Take(3)])], 0) });
    for lanes in [1, 2] {
        let threads = vec![(0, vec![Fail(3)]), (0, vec![Take(3)])];
        explore(&Scenario { never: Some(1), lanes, ..scenario("the driver refuses one, two threads of one process", 4, threads, 0) });
    }
}

#[test]
fn two_threads_of_one_process() {
    for lanes in [1, 2] {
        let threads = vec![(0, vec![Take(3)]), (0, vec![TakeAndFree(3)])];
        explore(&Scenario { lanes, ..scenario("two threads of one process", 4, threads, 1) });
    }
}

#[test]
fn a_thread_with_a_lane_of_its_own_and_another_process() {
    let threads = vec![(0, vec![Free(1)]), (0, vec![Take(3)]), (1, vec![Take(3)])];
    explore(&Scenario { lanes: 2, start: [1, 0, 0], hasty: true, ..scenario("a lane and another process", 4, threads, 1) });
}

#[test]
#[ignore = "3 million states"]
fn two_threads_and_another_process() {
    for lanes in [1, 2] {
        let threads = vec![(0, vec![Take(2)]), (0, vec![Take(1)]), (1, vec![Take(2)])];
        explore(&Scenario { lanes, ..scenario("two threads and another process", 4, threads, 1) });
    }
}

#[test]
fn three_processes_with_room_for_all() {
    let (refusals, _) =
        explore(&scenario("three processes with room for all", 6, vec![(0, vec![Take(2)]), (1, vec![Take(2)]), (2, vec![Take(2)])], 1));
    assert_eq!(refusals, [0, 0, 0]);
}

#[test]
#[ignore = "17 million states, a minute"]
fn three_processes_want_the_same_room() {
    explore(&scenario("three processes", 4, vec![(0, vec![Take(3)]), (1, vec![Take(2)]), (2, vec![Take(2)])], 0));
}

#[test]
fn a_dead_slot_is_taken_over() {
    let threads = vec![(0, vec![Take(3)]), (1, vec![Take(2)]), (0, vec![Claim, Take(2)])];
    explore(&scenario("a dead slot is taken over", 4, threads, 1));
}

#[test]
fn without_the_lock_the_quota_still_holds() {
    for queue in [Queue::Missing, Queue::TimesOut] {
        let threads = vec![(0, vec![Take(3)]), (1, vec![TakeAndFree(3)])];
        explore(&Scenario { queue, may_refuse: true, ..scenario("no lock, two processes", 4, threads, 1) });
        let threads = vec![(0, vec![Take(3)]), (0, vec![Take(2)])];
        explore(&Scenario { queue, may_refuse: true, ..scenario("no lock, two threads", 4, threads, 1) });
    }
}

#[test]
fn a_sum_that_does_not_fit_carries_and_is_more_than_any_quota() {
    let mut adder = protocol::Adder::default();
    adder.add(|| [1 << 63], || 5);
    adder.add(|| [0, 1 << 63], || 6);
    assert_eq!(adder.sum(), protocol::Sum { bids: u64::MAX, held: 11 });
}
