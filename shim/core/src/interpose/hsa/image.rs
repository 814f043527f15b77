//! Images of code objects: loading one takes memory for its segments, variables included, and only the executable's end gives it
//! back.
//!
//! What an image takes is read from the code object when a reader is made for it, since loading itself names only the reader.

use core::ffi::{c_char, c_void};

use super::OK;
use super::memory::{Held, pages, passed};
use crate::interpose::keys::{self, kind};
use crate::interpose::{Call, cards};
use crate::ledger::layout::CARDS;
use crate::shim;
use crate::sys::raw;

type FromMemory = unsafe extern "C" fn(*const c_void, usize, *mut u64) -> u32;
type FromFile = unsafe extern "C" fn(i32, *mut u64) -> u32;
/// `hsa_ven_amd_loader_code_object_reader_create_from_file_with_offset_size`, which only the loader's table has.
pub type FromPart = unsafe extern "C" fn(i32, usize, usize, *mut u64) -> u32;
type ReaderDestroy = unsafe extern "C" fn(u64) -> u32;
type Load = unsafe extern "C" fn(u64, u64, u64, *const c_char, *mut u64) -> u32;
type LoadOld = unsafe extern "C" fn(u64, u64, u64, *const c_char) -> u32;
type Destroy = unsafe extern "C" fn(u64) -> u32;

/// What no quota holds: loading what cannot be read is refused. The runtime might read it after all, a moment later or another way.
const UNREADABLE: u64 = u64::MAX;
/// `PT_LOAD`: the runtime takes one piece for all of them, from address 0 to the end of the last.
const LOAD: u32 = 1;
/// Of the first version of code objects: variables, constants and code of one card, a piece for each. `PT_LOOS` itself is memory of the host.
const PIECES: core::ops::RangeInclusive<u32> = 0x6000_0001..=0x6000_0003;

/// Bytes that an ELF file takes when it is loaded, in pages. `read` gives its bytes. 0 where it is none or has nothing to load: the runtime takes nothing then.
fn span(read: impl Fn(u64, &mut [u8]) -> bool) -> u64 {
    let mut header = [0_u8; 64];
    if !read(0, &mut header) {
        return UNREADABLE;
    }
    if header[..4] != *b"\x7fELF" || header[4] != 2 {
        return 0;
    }
    let word = |bytes: &[u8], at: usize| bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes);
    let half = |at: usize| u64::from(header[at]) | u64::from(header[at + 1]) << 8;
    let (table, entry, count) = (word(&header, 32), half(54), half(56));
    let (mut end, mut pieces) = (0_u64, 0_u64);
    for index in 0..count {
        let mut segment = [0_u8; 56];
        let at = index.checked_mul(entry).and_then(|offset| table.checked_add(offset)).filter(|_| entry >= segment.len() as u64);
        if !at.is_some_and(|at| read(at, &mut segment)) {
            return UNREADABLE;
        }
        let (address, size) = (word(&segment, 16), word(&segment, 40));
        match word(&segment, 0) as u32 {
            LOAD => end = end.max(address.saturating_add(size)),
            kind if PIECES.contains(&kind) => pieces = pieces.saturating_add(pages(size)),
            _ => {}
        }
    }
    pages(end).saturating_add(pieces)
}

fn span_in_memory(start: *const c_void, size: u64) -> u64 {
    span(|offset, room| {
        let fits = offset.checked_add(room.len() as u64).is_some_and(|end| end <= size);
        if fits {
            // SAFETY: inside what the caller says is the code object.
            unsafe { core::ptr::copy_nonoverlapping(start.cast::<u8>().add(offset as usize), room.as_mut_ptr(), room.len()) };
        }
        fits
    })
}

fn span_in_file(fd: i32, start: u64) -> u64 {
    span(|offset, room| start.checked_add(offset).is_some_and(|at| raw::pread(fd, room, at) == Ok(room.len())))
}

fn note_reader(call: &Call, status: u32, reader: *mut u64, span: u64) -> u32 {
    if status == OK {
        // SAFETY: the runtime has succeeded, so there was room for its answer.
        shim::note(keys::reader(unsafe { *reader }), span);
    }
    passed(call, status)
}

/// `hsa_code_object_reader_create_from_memory`
///
/// # Safety
///
/// As the runtime's own.
pub unsafe fn reader_from_memory(call: &Call, real: FromMemory, start: *const c_void, size: usize, reader: *mut u64) -> u32 {
    // SAFETY: the caller's.
    let status = unsafe { real(start, size, reader) };
    note_reader(call, status, reader, if status == OK { span_in_memory(start, size as u64) } else { 0 })
}

/// `hsa_code_object_reader_create_from_file`
///
/// # Safety
///
/// As the runtime's own.
pub unsafe fn reader_from_file(call: &Call, real: FromFile, fd: i32, reader: *mut u64) -> u32 {
    let span = span_in_file(fd, 0);
    // SAFETY: the caller's.
    let status = unsafe { real(fd, reader) };
    note_reader(call, status, reader, span)
}

/// As [`reader_from_file`], for a part of the file.
///
/// # Safety
///
/// As the runtime's own.
pub unsafe fn reader_from_part(real: FromPart, fd: i32, offset: usize, size: usize, reader: *mut u64) -> u32 {
    let span = span_in_file(fd, offset as u64);
    // SAFETY: the caller's.
    let status = unsafe { real(fd, offset, size, reader) };
    if status == OK {
        // SAFETY: the runtime has succeeded, so there was room for its answer.
        shim::note(keys::reader(unsafe { *reader }), span);
    }
    status
}

/// `hsa_code_object_reader_destroy`: its note goes.
///
/// # Safety
///
/// As the runtime's own.
pub unsafe fn reader_destroy(call: &Call, real: ReaderDestroy, reader: u64) -> u32 {
    let key = keys::reader(reader);
    let noted = shim::take_note(key);
    // SAFETY: the caller's.
    let status = unsafe { real(reader) };
    if status != OK
        && let Some(span) = noted
    {
        shim::note(key, span);
    }
    passed(call, status)
}

/// What a load answers that was refused before it took memory: `HSA_STATUS_ERROR_` `INVALID_ARGUMENT`, `INVALID_AGENT`, `OUT_OF_RESOURCES`, `NOT_INITIALIZED`,
/// `INCOMPATIBLE_ARGUMENTS`, `INVALID_EXECUTABLE`, `FROZEN_EXECUTABLE`, `INVALID_CODE_OBJECT_READER`.
const NOTHING_TAKEN: [u32; 8] = [0x1001, 0x1004, super::OUT_OF_RESOURCES, 0x100B, 0x100D, 0x1011, 0x1012, 0x1021];

/// After any other failure the memory stays with the executable until it ends: ROCr's loader reads symbols and relocations when the segments are there, and leaves
/// those behind when it finds a fault (`loader/executable.cpp`).
fn load(call: &Call, executable: u64, agent: u64, span: u64, run: impl FnOnce() -> u32) -> u32 {
    let Some(card) = cards::of_handle(call.runtime, agent).filter(|_| span != 0) else { return passed(call, run()) };
    let Some(held) = Held::reserve(call, card, span) else { return super::OUT_OF_RESOURCES };
    let status = run();
    if NOTHING_TAKEN.contains(&status) {
        held.cancel();
    } else {
        let key = keys::executable(executable, held.card());
        held.add(key, kind::IMAGE);
    }
    passed(call, status)
}

/// `hsa_executable_load_agent_code_object`
///
/// # Safety
///
/// As the runtime's own.
pub unsafe fn load_agent_code_object(
    call: &Call,
    real: Load,
    executable: u64,
    agent: u64,
    reader: u64,
    options: *const c_char,
    loaded: *mut u64,
) -> u32 {
    let span = shim::read_note(keys::reader(reader)).unwrap_or(UNREADABLE);
    // SAFETY: the caller's.
    load(call, executable, agent, span, || unsafe { real(executable, agent, reader, options, loaded) })
}

/// `hsa_executable_load_code_object`: of HSA 1.0, where the handle is the address of the file in memory.
///
/// # Safety
///
/// As the runtime's own.
pub unsafe fn load_code_object(call: &Call, real: LoadOld, executable: u64, agent: u64, object: u64, options: *const c_char) -> u32 {
    // ROCr reads the headers there before anything else, so they may be read; null it refuses.
    let span = if object == 0 { 0 } else { span_in_memory(object as *const c_void, i64::MAX as u64) };
    // SAFETY: the caller's.
    load(call, executable, agent, span, || unsafe { real(executable, agent, object, options) })
}

/// `hsa_executable_destroy`: all that it has loaded, on every card.
///
/// # Safety
///
/// As the runtime's own.
pub unsafe fn destroy(call: &Call, real: Destroy, executable: u64) -> u32 {
    let mut claimed = [const { None }; CARDS];
    for (index, claim) in claimed.iter_mut().enumerate() {
        *claim = shim::claim(keys::executable(executable, index as u8));
    }
    // SAFETY: the caller's.
    let status = unsafe { real(executable) };
    for claim in claimed.into_iter().flatten() {
        if status == OK {
            claim.release();
        } else {
            claim.restore();
        }
    }
    passed(call, status)
}
