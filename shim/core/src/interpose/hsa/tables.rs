//! Extension tables: structures of functions that the runtime fills in.
//!
//! Most of what is in them follows the loader, so it is ours already. The one function that opens code objects and has no export
//! of its own is replaced by its place in the loader's table.

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use super::OK;
use super::image::{self, FromPart};
use super::memory::passed;
use crate::interpose::lookup::replacement;
use crate::interpose::{Call, call::Lacking};

type Table = unsafe extern "C" fn(u16, u16, u16, *mut usize) -> u32;
type MajorTable = unsafe extern "C" fn(u16, u16, usize, *mut usize) -> u32;

const LOADER: u16 = 0x201;
/// `hsa_ven_amd_loader_code_object_reader_create_from_file_with_offset_size` in the loader's table, from version 1.02 on.
const FROM_PART: usize = 5;
/// More functions than any table has.
const MOST: usize = 64;
/// No function's address: what the runtime has not written.
const UNTOUCHED: usize = 0x5652_4f43_4d00_0001;

static REAL_FROM_PART: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn from_part(fd: i32, offset: usize, size: usize, reader: *mut u64) -> u32 {
    match REAL_FROM_PART.load(Relaxed) {
        0 => u32::lacking(),
        // SAFETY: what the runtime put into its table, as hsa_ven_amd_loader.h declares it.
        real => unsafe { image::reader_from_part(core::mem::transmute::<usize, FromPart>(real), fd, offset, size, reader) },
    }
}

/// Puts ours into the functions that the runtime has filled in.
fn fill(call: &Call, extension: u16, functions: &mut [usize]) {
    for (index, function) in functions.iter_mut().enumerate() {
        if let Some(ours) = replacement(call.runtime, *function) {
            *function = ours;
        } else if extension == LOADER && index == FROM_PART && call.runtime.contains(*function) {
            REAL_FROM_PART.store(*function, Relaxed);
            *function = from_part as FromPart as usize;
        }
    }
}

/// `hsa_system_get_extension_table`, which is not told how large the table is.
///
/// # Safety
///
/// As the runtime's own.
pub unsafe fn extension_table(call: &Call, real: Table, extension: u16, major: u16, minor: u16, table: *mut usize) -> u32 {
    if table.is_null() {
        // SAFETY: the caller's.
        return passed(call, unsafe { real(extension, major, minor, table) });
    }
    let mut room = [UNTOUCHED; MOST];
    // SAFETY: the caller's; there is more room than any table needs.
    let status = unsafe { real(extension, major, minor, room.as_mut_ptr()) };
    let count = room.iter().position(|&function| function == UNTOUCHED).unwrap_or(MOST);
    let functions = room.get_mut(..count).unwrap_or_default();
    fill(call, extension, functions);
    // SAFETY: as many as the runtime would have written there.
    unsafe { core::ptr::copy_nonoverlapping(functions.as_ptr(), table, functions.len()) };
    passed(call, status)
}

/// `hsa_system_get_major_extension_table`
///
/// # Safety
///
/// As the runtime's own.
pub unsafe fn major_extension_table(call: &Call, real: MajorTable, extension: u16, major: u16, bytes: usize, table: *mut usize) -> u32 {
    // SAFETY: the caller's.
    let status = unsafe { real(extension, major, bytes, table) };
    if status == OK && !table.is_null() {
        // SAFETY: the caller gives that many bytes, of pointers.
        fill(call, extension, unsafe { core::slice::from_raw_parts_mut(table, (bytes / size_of::<usize>()).min(MOST)) });
    }
    passed(call, status)
}
