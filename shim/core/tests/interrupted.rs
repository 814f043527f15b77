//! The key table while a second caller does all of its work between any two instructions of the first.
//!
//! The processor stops after each instruction of the first caller (the trap flag); at one of them the second caller runs to its
//! end, in the handler, which is the same to a table without locks as another thread. Each instruction has its turn, so what goes
//! wrong between any two does so in every run, on every machine. A caller that is halted and never goes on is not among it, nor
//! are two that take turns several times: that is for the threads in `table.rs`.
#![cfg(target_arch = "x86_64")]

use std::arch::asm;
use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};

use vrocm_core::table::{Counted, Entry, Key, Table};

/// `struct sigaction` of the C library.
#[repr(C)]
struct Action {
    handler: extern "C" fn(c_int),
    mask: [u64; 16],
    flags: c_int,
    restorer: usize,
}

unsafe extern "C" {
    fn sigaction(signal: c_int, new: *const Action, old: *mut c_void) -> c_int;
}

const SIGTRAP: c_int = 5;

/// Instructions that the first caller has done, and the one after which the second runs.
static DONE: AtomicU64 = AtomicU64::new(0);
static TURN: AtomicU64 = AtomicU64::new(0);
/// The second caller, where there is one.
static SECOND: AtomicPtr<&mut dyn FnMut()> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn stopped(_signal: c_int) {
    if DONE.fetch_add(1, Relaxed) == TURN.load(Relaxed) {
        // SAFETY: set by `interrupted`, which waits for this thread's work and lends it out for as long.
        if let Some(second) = unsafe { SECOND.swap(std::ptr::null_mut(), Relaxed).as_mut() } {
            second();
        }
    }
}

/// Does `first`, and `second` after so many instructions of it. `false`: `first` has fewer, and `second` came after it.
fn interrupted(turn: u64, first: impl FnOnce(), mut second: impl FnMut()) -> bool {
    let mut lent: &mut dyn FnMut() = &mut second;
    DONE.store(0, Relaxed);
    TURN.store(turn, Relaxed);
    SECOND.store((&raw mut lent).cast(), Relaxed);
    // SAFETY: the flag makes the processor stop after each instruction, for the handler that is set; nothing else changes.
    unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    first();
    // SAFETY: back to what it was.
    unsafe { asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq") };
    let was_in_time = SECOND.swap(std::ptr::null_mut(), Relaxed).is_null();
    if !was_in_time {
        second();
    }
    was_in_time
}

/// Two calls of a fresh table, the second after each instruction of the first; `check` sees what both answered.
fn at_every_instruction<A, B>(
    prepare: impl Fn(&Table),
    first: impl Fn(&Table) -> A,
    second: impl Fn(&Table) -> B,
    check: impl Fn(u64, &Table, A, B),
) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let action = Action { handler: stopped, mask: [0; 16], flags: 0, restorer: 0 };
    // SAFETY: a handler for a signal that nothing else here makes.
    assert_eq!(unsafe { sigaction(SIGTRAP, &raw const action, std::ptr::null_mut()) }, 0);
    let mut turns = 0;
    for turn in 0.. {
        let table = Table::new();
        prepare(&table);
        let (mut a, b) = (None, RefCell::new(None));
        let was_in_time = interrupted(turn, || a = Some(first(black_box(&table))), || *b.borrow_mut() = Some(second(black_box(&table))));
        check(turn, &table, a.expect("it was called"), b.into_inner().expect("it was called"));
        if !was_in_time {
            break;
        }
        turns += 1;
    }
    assert!((20..100_000).contains(&turns), "{turns} instructions: the processor did not stop after each");
}

const KEY: Key = Key::new(1, 0x7f00_0000_1000);
const OTHER: Key = Key::new(1, 0x7f00_0000_2000);

fn charge(table: &Table, key: Key, bytes: u64) -> Option<Entry> {
    table.insert(key, Entry::new(0, 1, bytes)).expect("there is memory")
}

fn bytes(entry: Option<Entry>) -> u64 {
    entry.map_or(0, |entry| entry.bytes)
}

/// All that is left, whatever the key.
fn rest(table: &Table) -> u64 {
    let mut sum = 0;
    table.take_all(|_| true, |entry| sum += entry.bytes);
    sum
}

#[test]
fn of_two_that_take_a_key_one_gets_it() {
    at_every_instruction(
        |table| _ = charge(table, KEY, 10),
        |table| table.take(KEY),
        |table| table.take(KEY),
        |turn, table, first, second| assert_eq!((bytes(first) + bytes(second), rest(table)), (10, 0), "at {turn}: {first:?} {second:?}"),
    );
}

#[test]
fn a_key_that_is_freed_and_charged_again_in_between_is_not_lost() {
    let again = |table: &Table| {
        let taken = table.take(KEY);
        bytes(taken) + bytes(charge(table, KEY, 7))
    };
    at_every_instruction(
        |table| _ = charge(table, KEY, 10),
        |table| table.take(KEY),
        again,
        |turn, table, first, second| assert_eq!(bytes(first) + second + rest(table), 17, "at {turn}: {first:?} {second}"),
    );
}

#[test]
fn of_two_that_charge_a_key_none_is_lost() {
    for key in [KEY, OTHER] {
        at_every_instruction(
            |table| _ = charge(table, KEY, 1),
            |table| charge(table, KEY, 10),
            |table| charge(table, key, 100),
            |turn, table, first, second| assert_eq!(bytes(first) + bytes(second) + rest(table), 111, "at {turn}: {first:?} {second:?}"),
        );
    }
    // A cell that is free is filled by one of them.
    at_every_instruction(
        |table| _ = (charge(table, KEY, 1), table.take(KEY)),
        |table| charge(table, KEY, 10),
        |table| charge(table, KEY, 100),
        |turn, table, first, second| assert_eq!(bytes(first) + bytes(second) + rest(table), 110, "at {turn}: {first:?} {second:?}"),
    );
}

#[test]
fn the_last_reference_goes_once() {
    let gone = |counted: &Counted| if let Counted::Gone(entry) = counted { entry.bytes } else { 0 };
    let two = |table: &Table| _ = (charge(table, KEY, 10), table.count(KEY, 1, 0));
    at_every_instruction(
        two,
        |table| table.count(KEY, -1, 0),
        |table| table.count(KEY, -1, 0),
        |turn, table, first, second| assert_eq!((gone(&first) + gone(&second), rest(table)), (10, 0), "at {turn}: {first:?} {second:?}"),
    );
    at_every_instruction(
        |table| _ = charge(table, KEY, 10),
        |table| table.count(KEY, -1, 0),
        |table| table.take(KEY),
        |turn, table, first, second| assert_eq!(gone(&first) + bytes(second) + rest(table), 10, "at {turn}: {first:?} {second:?}"),
    );
    // Freed and charged again in between: the new one has all its references.
    at_every_instruction(
        two,
        |table| table.count(KEY, -1, 0),
        |table| (table.take(KEY), charge(table, KEY, 7)),
        |turn, table, first, second| {
            let kept = bytes(table.find(KEY));
            assert_eq!(bytes(second.0) + bytes(second.1) + gone(&first) + rest(table), 17, "at {turn}: {first:?} {second:?}");
            assert!(kept == 7 || gone(&first) == 7, "at {turn}: {first:?} {second:?}");
        },
    );
}

#[test]
fn a_reset_and_a_free_give_back_once() {
    let reset = |table: &Table| {
        let mut sum = 0;
        table.take_all(|entry| entry.bytes == 10, |entry| sum += entry.bytes);
        sum
    };
    at_every_instruction(
        |table| _ = charge(table, KEY, 10),
        reset,
        |table| table.take(KEY),
        |turn, table, first, second| assert_eq!((first + bytes(second), rest(table)), (10, 0), "at {turn}: {first} {second:?}"),
    );
    // What took its place in between is not what was to be reset.
    at_every_instruction(
        |table| _ = charge(table, KEY, 10),
        reset,
        |table| bytes(table.take(KEY)) + bytes(charge(table, KEY, 7)),
        |turn, table, first, second| assert_eq!((first + second, rest(table)), (10, 7), "at {turn}: {first} {second}"),
    );
}
