//! What a body knows of its call.

use super::Family;
use super::rows::TABLE;
use super::runtimes::{self, Runtime};
use crate::shim;
use crate::sys::loaded;
use crate::sys::log::{self, Said, TRACE};

/// A call of an entry point.
#[derive(Clone, Copy)]
pub struct Call {
    /// The row's number.
    pub row: usize,
    /// The runtime whose function the caller means.
    pub runtime: &'static Runtime,
    /// Where the call came from; 0 where that is not known (functions whose arguments fill all registers).
    pub caller: usize,
}

impl Call {
    /// Counts the call and finds the function that it is for. `None`: no runtime in the process has it.
    ///
    /// Inlined into each entry point, where row and family are constants.
    #[inline(always)]
    #[allow(clippy::inline_always)]
    pub fn enter(row: usize, family: Family, caller: usize) -> Option<(Self, usize)> {
        shim::count_call(row);
        if log::enabled(TRACE) {
            trace(row, caller);
        }
        let (runtime, real) = runtimes::real(row, family, caller)?;
        Some((Self { row, runtime, caller }, real))
    }

    /// The address of another function of the same runtime; `None` where it has none of that name.
    pub fn sibling(&self, row: usize) -> Option<usize> {
        self.runtime.own(row)
    }

    /// True if this runtime's own code called.
    pub fn is_from_itself(&self) -> bool {
        self.runtime.contains(self.caller)
    }

    /// True if a HIP runtime called: what it is told about a card, it tells through entry points of its own.
    pub fn is_from_hip(&self) -> bool {
        runtimes::containing(self.caller).is_some_and(|runtime| runtime.family() == Family::Hip)
    }

    /// Says that the shim refused.
    pub fn refused(&self) {
        shim::count_refusal(self.row);
    }

    /// Says that the runtime failed.
    pub fn failed(&self) {
        shim::count_failure(self.row);
    }

    /// The name.
    pub fn name(&self) -> &'static str {
        TABLE.get(self.row).map_or("", |row| row.name)
    }
}

/// Says who called, the first few times.
#[cold]
fn trace(row: usize, caller: usize) {
    static SAID: [Said; TABLE.len()] = [const { Said::new() }; TABLE.len()];
    if !SAID.get(row).is_some_and(|said| said.first(3)) {
        return;
    }
    let Some(row) = TABLE.get(row) else { return };
    log::line(TRACE, |text| {
        text.str(row.name).str(" <- ");
        let mut found = false;
        loaded::each(|object| {
            found = caller != 0 && object.contains(caller);
            if found {
                match object.path() {
                    b"" => text.str("the program"),
                    path => text.foreign(path),
                };
            }
            found
        });
        if !found {
            text.str("?");
        }
    });
}

/// What the library's destructor does at level 2: says what was counted.
pub fn dump() {
    if !log::enabled(TRACE) {
        return;
    }
    for (number, row) in TABLE.iter().enumerate() {
        let (calls, refused, failed) = shim::counts(number);
        if calls != 0 {
            log::line(TRACE, |text| {
                text.str("counter ").str(row.name).str(" calls=").dec(calls);
                text.str(" refused=").dec(refused.into()).str(" failed=").dec(failed.into());
            });
        }
    }
    shim::each_card(|id, quota, used| {
        log::line(TRACE, |text| {
            id.show(text.str("counter card "));
            text.str(" quota=").dec(quota).str(" used=").dec(used);
        });
    });
}

/// What a call answers whose runtime has no such function.
pub trait Lacking {
    /// That answer.
    fn lacking() -> Self;
}

impl Lacking for i32 {
    /// `hipErrorNotSupported`.
    fn lacking() -> Self {
        801
    }
}

impl Lacking for u32 {
    /// `HSA_STATUS_ERROR`.
    fn lacking() -> Self {
        0x1000
    }
}

impl Lacking for () {
    fn lacking() -> Self {}
}

impl<T> Lacking for *mut T {
    fn lacking() -> Self {
        core::ptr::null_mut()
    }
}
