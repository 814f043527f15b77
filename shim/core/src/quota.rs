//! The configuration: which figure is whose, and what an unusable one does.
//!
//! Read once, when the library is loaded, from the block of the environment that the process was started with. A variable set
//! later by the program itself changes nothing: the figure is the operator's, `getenv` while another thread calls `setenv` is
//! undefined, and programs that set their title overwrite the block. `docs/QUOTA.md` has the grammar for operators.
//!
//! | variable | value |
//! |---|---|
//! | `VROCM_DEVICE_MEMORY_LIMIT_<address>` | MiB, for the card with that PCI address or UUID (`0000_c3_00_0`, `GPU_73bce18fb2e0c5ef`) |
//! | `VROCM_DEVICE_MEMORY_LIMIT_<i>` | MiB, for the card at position `i` (0 to 63) of the container |
//! | `VROCM_DEVICE_MEMORY_LIMIT` | MiB, for every card without a figure of its own |
//! | `VROCM_LEDGER_PATH` | where the ledger is; default `/dev/shm/vrocm-ledger` |
//! | `LIBVROCM_LOG_LEVEL` | 0, 1 or 2; default 1 |
//!
//! The first that is *set* decides, in the order above; one that is set and cannot be used refuses, and never falls through.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicU8, Ordering};

use crate::card::CardId;
use crate::sys::text::Text;
use crate::sys::thread::Patience;

/// Positions that may have a figure of their own.
pub const POSITIONS: usize = 64;
/// Addresses that may have a figure of their own.
const ADDRESSES: usize = 64;
/// Bytes of a ledger path, the final NUL included.
const PATH_ROOM: usize = 1024;

/// What one variable says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// The variable is not set.
    Unset,
    /// It is set, and says nothing that could be held: the card is refused.
    Unusable,
    /// The quota in bytes, at least 1 MiB.
    Bytes(u64),
}

impl Figure {
    /// Reads a value: a decimal number of MiB, no sign, no blank, no unit; 0 and what overflows 64 bits of bytes are unusable.
    pub fn parse(value: &[u8]) -> Self {
        let mut mib = 0_u64;
        for &byte in value {
            let Some(sum) = byte.is_ascii_digit().then(|| mib.checked_mul(10)?.checked_add(u64::from(byte - b'0'))).flatten() else {
                return Self::Unusable;
            };
            mib = sum;
        }
        match mib.checked_mul(1 << 20) {
            None | Some(0) => Self::Unusable,
            Some(bytes) => Self::Bytes(bytes),
        }
    }
}

/// Where a figure came from, for the message that explains a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// `VROCM_DEVICE_MEMORY_LIMIT_<address>`.
    Address(CardId),
    /// `VROCM_DEVICE_MEMORY_LIMIT_<i>`.
    Position(usize),
    /// `VROCM_DEVICE_MEMORY_LIMIT`.
    General,
}

impl Source {
    /// Appends the variable's name.
    pub fn show(self, text: &mut Text) {
        text.str("VROCM_DEVICE_MEMORY_LIMIT");
        match self {
            Self::Address(id) => id.show(text.str("_")),
            Self::Position(position) => _ = text.str("_").dec(position as u64),
            Self::General => {}
        }
    }
}

/// The whole configuration of a process.
#[allow(clippy::struct_excessive_bools, reason = "each is one fact about one variable")]
#[derive(Debug, Clone)]
pub struct Config {
    general: Figure,
    positions: [Figure; POSITIONS],
    addresses: [(CardId, Figure); ADDRESSES],
    address_count: usize,
    /// More addresses than there is room for: cards that none of the kept ones names are refused.
    address_overflow: bool,
    /// A suffix that is neither a position nor an address was seen.
    stray: bool,
    path: [u8; PATH_ROOM],
    path_length: usize,
    path_overflow: bool,
    level: u8,
    level_set: bool,
    path_set: bool,
}

const GENERAL: &[u8] = b"VROCM_DEVICE_MEMORY_LIMIT";
const DEFAULT_PATH: &CStr = c"/dev/shm/vrocm-ledger";

impl Config {
    /// What holds when no variable is set.
    pub const fn new() -> Self {
        Self {
            general: Figure::Unset,
            positions: [Figure::Unset; POSITIONS],
            addresses: [(CardId::NONE, Figure::Unset); ADDRESSES],
            address_count: 0,
            address_overflow: false,
            stray: false,
            path: [0; PATH_ROOM],
            path_length: 0,
            path_overflow: false,
            level: 1,
            level_set: false,
            path_set: false,
        }
    }

    /// Takes in one `NAME=value` of the environment. Of a name that comes twice the first counts, as with `getenv`.
    pub fn take(&mut self, entry: &[u8]) {
        // Most entries of an environment are none of ours: two bytes tell.
        if !matches!(entry, [b'V', b'R', ..] | [b'L', b'I', ..]) {
            return;
        }
        let Some(equals) = entry.iter().position(|&byte| byte == b'=') else { return };
        let Some((name, [_, value @ ..])) = entry.split_at_checked(equals) else { return };
        if name == b"LIBVROCM_LOG_LEVEL" {
            self.take_level(value);
        } else if name == b"VROCM_LEDGER_PATH" {
            self.take_path(value);
        } else if name == GENERAL {
            first(&mut self.general, value);
        } else if let Some([b'_', suffix @ ..]) = name.strip_prefix(GENERAL) {
            self.take_suffixed(suffix, value);
        }
    }

    fn take_level(&mut self, value: &[u8]) {
        if self.level_set {
            return;
        }
        self.level_set = true;
        if let [digit @ b'0'..=b'2'] = value {
            self.level = digit - b'0';
        }
    }

    fn take_path(&mut self, value: &[u8]) {
        if self.path_set {
            return;
        }
        self.path_set = true;
        match self.path.get_mut(..value.len()) {
            // The last byte stays 0.
            Some(room) if value.len() < PATH_ROOM => {
                room.copy_from_slice(value);
                self.path_length = value.len();
            }
            _ => self.path_overflow = true,
        }
    }

    fn take_suffixed(&mut self, suffix: &[u8], value: &[u8]) {
        if let Some(figure) = position(suffix).and_then(|position| self.positions.get_mut(position)) {
            first(figure, value);
            return;
        }
        let Some(id) = CardId::parse(suffix) else {
            self.stray = true;
            return;
        };
        let kept = self.addresses.get(..self.address_count).unwrap_or_default();
        if kept.iter().any(|(known, _)| *known == id) {
            return;
        }
        match self.addresses.get_mut(self.address_count) {
            Some(room) => {
                *room = (id, Figure::parse(value));
                self.address_count += 1;
            }
            None => self.address_overflow = true,
        }
    }

    /// The figure for a card: `ids` are all the identities it is known by, `position` its place in the container, where known.
    ///
    /// Two variables that name the card by two identities: the smaller counts, and one unusable makes both so.
    pub fn figure(&self, ids: &[CardId], position: Option<usize>) -> (Figure, Option<Source>) {
        let mut found: Option<(Figure, Source)> = None;
        for &(id, figure) in self.addresses.get(..self.address_count).unwrap_or_default() {
            if !ids.contains(&id) {
                continue;
            }
            found = match (found, figure) {
                (Some((Figure::Unusable, _)), _) => found,
                (Some((Figure::Bytes(known), _)), Figure::Bytes(bytes)) if known <= bytes => found,
                _ => Some((figure, Source::Address(id))),
            };
        }
        if let Some((figure, source)) = found {
            return (figure, Some(source));
        }
        if self.address_overflow {
            return (Figure::Unusable, None);
        }
        if let Some(position) = position
            && let Some(&figure) = self.positions.get(position)
            && figure != Figure::Unset
        {
            return (figure, Some(Source::Position(position)));
        }
        (self.general, (self.general != Figure::Unset).then_some(Source::General))
    }

    /// Visits the figures that are set.
    pub fn each_figure(&self, mut visit: impl FnMut(Source, Figure)) {
        for &(id, figure) in self.addresses.get(..self.address_count).unwrap_or_default() {
            visit(Source::Address(id), figure);
        }
        for (position, &figure) in self.positions.iter().enumerate().filter(|(_, figure)| **figure != Figure::Unset) {
            visit(Source::Position(position), figure);
        }
        if self.general != Figure::Unset {
            visit(Source::General, self.general);
        }
    }

    /// True if at least one figure can be held: the process may have cards that are not refused.
    pub fn any_usable(&self) -> bool {
        let usable = |figure: &Figure| matches!(figure, Figure::Bytes(_));
        usable(&self.general) || self.positions.iter().any(usable) || self.addresses.iter().any(|(_, figure)| usable(figure))
    }

    /// True if some variable begins like ours and names no card: worth a line, since a limit that was meant is not held.
    pub fn has_stray_name(&self) -> bool {
        self.stray
    }

    /// Where the ledger is. `None`: the path is too long to be kept, and everything is refused.
    pub fn ledger_path(&self) -> Option<&CStr> {
        if self.path_overflow {
            return None;
        }
        if self.path_length == 0 {
            return Some(DEFAULT_PATH);
        }
        CStr::from_bytes_until_nul(&self.path).ok()
    }

    /// The level of messages.
    pub fn log_level(&self) -> u8 {
        self.level
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}

/// Sets a figure that is not set yet.
fn first(figure: &mut Figure, value: &[u8]) {
    if *figure == Figure::Unset {
        // An empty value is set and unusable.
        *figure = if value.is_empty() { Figure::Unusable } else { Figure::parse(value) };
    }
}

/// A position as the reference writes it: decimal, no leading zero.
fn position(suffix: &[u8]) -> Option<usize> {
    match suffix {
        [digit @ b'0'..=b'9'] => Some(usize::from(digit - b'0')),
        [tens @ b'1'..=b'9', digit @ b'0'..=b'9'] => Some(usize::from(tens - b'0') * 10 + usize::from(digit - b'0')),
        _ => None,
    }
}

/// The configuration of the process, filled once.
pub struct Once {
    state: AtomicU8,
    config: UnsafeCell<Config>,
}

// SAFETY: the cell is written only by the thread that moved `state` from UNREAD to READING, and read only after READY.
unsafe impl Sync for Once {}

const UNREAD: u8 = 0;
const READING: u8 = 1;
const READY: u8 = 2;

impl Once {
    /// Nothing read yet.
    pub const fn new() -> Self {
        Self { state: AtomicU8::new(UNREAD), config: UnsafeCell::new(Config::new()) }
    }

    /// The configuration; read from `environment` by the first caller, normally the library's constructor.
    ///
    /// `None`: another thread is reading it and was stopped in the middle.
    ///
    /// # Safety
    ///
    /// `environment` is null, or an array of C strings that ends with a null pointer and that nobody changes meanwhile.
    pub unsafe fn get(&self, environment: *const *const c_char) -> Option<&Config> {
        if self.state.load(Ordering::Acquire) != READY {
            // SAFETY: the caller's.
            unsafe { self.read(environment)? };
        }
        // SAFETY: after READY nobody writes.
        Some(unsafe { &*self.config.get() })
    }

    #[cold]
    unsafe fn read(&self, environment: *const *const c_char) -> Option<()> {
        if self.state.compare_exchange(UNREAD, READING, Ordering::Acquire, Ordering::Acquire).is_ok() {
            // SAFETY: only the thread that moved the state gets here, once.
            let config = unsafe { &mut *self.config.get() };
            let mut next = environment;
            // SAFETY: the array and its strings are the caller's to vouch for.
            while let Some(entry) = unsafe { next.as_ref() }
                && !entry.is_null()
            {
                // SAFETY: as above.
                config.take(unsafe { CStr::from_ptr(*entry) }.to_bytes());
                // SAFETY: the entry was not the last.
                next = unsafe { next.add(1) };
            }
            self.state.store(READY, Ordering::Release);
            return Some(());
        }
        let mut patience = Patience::milliseconds(1000);
        while self.state.load(Ordering::Acquire) != READY {
            if !patience.pause() {
                return None;
            }
        }
        Some(())
    }
}

impl Default for Once {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::{Config, Figure, Once, Source};
    use crate::card::CardId;

    const MIB: u64 = 1 << 20;

    fn config(entries: &[&str]) -> Config {
        let mut config = Config::new();
        for entry in entries {
            config.take(entry.as_bytes());
        }
        config
    }

    #[test]
    fn a_figure_is_a_bare_decimal_number_of_mib() {
        assert_eq!(Figure::parse(b"64"), Figure::Bytes(64 * MIB));
        assert_eq!(Figure::parse(b"0064"), Figure::Bytes(64 * MIB));
        assert_eq!(Figure::parse(b"17592186044415"), Figure::Bytes(17_592_186_044_415 * MIB));
        for value in [
            "",
            "0",
            "000",
            "abc",
            "-5",
            "+5",
            " 5",
            "5 ",
            "64x",
            "4096MiB",
            "0x40",
            "1e3",
            "17592186044416",
            "17592186044417",
            "18446744073709551616",
            "5\n",
        ] {
            assert_eq!(Figure::parse(value.as_bytes()), Figure::Unusable, "{value:?}");
        }
    }

    #[test]
    fn the_most_precise_variable_that_is_set_decides() {
        let card = CardId::pci(0, 3, 0, 0, 0);
        let all = config(&["VROCM_DEVICE_MEMORY_LIMIT=1", "VROCM_DEVICE_MEMORY_LIMIT_1=2", "VROCM_DEVICE_MEMORY_LIMIT_0000_03_00_0=3"]);
        assert_eq!(all.figure(&[card], Some(1)), (Figure::Bytes(3 * MIB), Some(Source::Address(card))));
        assert_eq!(all.figure(&[], Some(1)), (Figure::Bytes(2 * MIB), Some(Source::Position(1))));
        assert_eq!(all.figure(&[], Some(0)), (Figure::Bytes(MIB), Some(Source::General)));
        assert_eq!(all.figure(&[], None), (Figure::Bytes(MIB), Some(Source::General)));
        assert_eq!(config(&[]).figure(&[card], Some(0)), (Figure::Unset, None));
    }

    #[test]
    fn an_unusable_figure_never_falls_through() {
        let card = CardId::pci(0, 3, 0, 0, 0);
        for value in ["", "0", "x"] {
            let position = config(&["VROCM_DEVICE_MEMORY_LIMIT=64", &format!("VROCM_DEVICE_MEMORY_LIMIT_0={value}")]);
            assert_eq!(position.figure(&[card], Some(0)).0, Figure::Unusable);
            assert_eq!(position.figure(&[card], Some(1)).0, Figure::Bytes(64 * MIB));
            assert!(position.any_usable());
            let address = config(&["VROCM_DEVICE_MEMORY_LIMIT=64", &format!("VROCM_DEVICE_MEMORY_LIMIT_03_00_0={value}")]);
            assert_eq!(address.figure(&[card], Some(0)).0, Figure::Unusable);
        }
        assert!(!config(&["VROCM_DEVICE_MEMORY_LIMIT="]).any_usable());
        assert!(!config(&[]).any_usable());
    }

    #[test]
    fn of_two_identities_the_smaller_figure_counts() {
        let (pci, uuid) = (CardId::pci(0, 3, 0, 0, 0), CardId::uuid(0x1234_5678_9abc_def0));
        let by_pci = |mib: &str| format!("VROCM_DEVICE_MEMORY_LIMIT_0000_03_00_0={mib}");
        let by_uuid = |mib: &str| format!("VROCM_DEVICE_MEMORY_LIMIT_GPU_123456789abcdef0={mib}");
        for (first, second, wanted) in
            [("8", "4", Figure::Bytes(4 * MIB)), ("4", "8", Figure::Bytes(4 * MIB)), ("x", "4", Figure::Unusable), ("4", "x", Figure::Unusable)]
        {
            assert_eq!(config(&[&by_pci(first), &by_uuid(second)]).figure(&[pci, uuid], None).0, wanted, "{first} {second}");
            assert_eq!(config(&[&by_uuid(first), &by_pci(second)]).figure(&[pci, uuid], None).0, wanted, "{first} {second}");
        }
    }

    #[test]
    fn the_first_of_two_equal_names_counts() {
        assert_eq!(config(&["VROCM_DEVICE_MEMORY_LIMIT=1", "VROCM_DEVICE_MEMORY_LIMIT=2"]).figure(&[], None).0, Figure::Bytes(MIB));
        let twice = config(&["VROCM_DEVICE_MEMORY_LIMIT_03_00_0=1", "VROCM_DEVICE_MEMORY_LIMIT_0000_03_00_0=2"]);
        assert_eq!(twice.figure(&[CardId::pci(0, 3, 0, 0, 0)], None).0, Figure::Bytes(MIB));
    }

    #[test]
    fn suffixes_that_name_no_card_are_noticed() {
        for name in ["_64", "_007", "_-1", "_", "_0x1", "_GPU", "_03_00"] {
            assert!(config(&[&format!("VROCM_DEVICE_MEMORY_LIMIT{name}=1")]).has_stray_name(), "{name}");
        }
        for name in ["", "_0", "_63", "_03_00_0", "S"] {
            assert!(!config(&[&format!("VROCM_DEVICE_MEMORY_LIMIT{name}=1")]).has_stray_name(), "{name}");
        }
    }

    #[test]
    fn more_addresses_than_fit_refuse_the_rest() {
        let names: Vec<String> = (0..65).map(|bus| format!("VROCM_DEVICE_MEMORY_LIMIT_0000_{bus:02x}_00_0=1")).collect();
        let many = config(&names.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(many.figure(&[CardId::pci(0, 63, 0, 0, 0)], Some(0)).0, Figure::Bytes(MIB));
        assert_eq!(many.figure(&[CardId::pci(0, 64, 0, 0, 0)], Some(0)).0, Figure::Unusable);
    }

    #[test]
    fn path_and_level() {
        let path = |value: &str| config(&[&format!("VROCM_LEDGER_PATH={value}")]).ledger_path().map(|path| path.to_str().unwrap().to_owned());
        assert_eq!(path("").as_deref(), Some("/dev/shm/vrocm-ledger"));
        assert_eq!(path("/run/x").as_deref(), Some("/run/x"));
        assert_eq!(path(&"x".repeat(1023)).map(|path| path.len()), Some(1023));
        assert_eq!(path(&"x".repeat(1024)), None);
        for (value, level) in [("0", 0), ("1", 1), ("2", 2), ("3", 1), ("", 1), ("02", 1), ("x", 1)] {
            assert_eq!(config(&[&format!("LIBVROCM_LOG_LEVEL={value}")]).log_level(), level, "{value:?}");
        }
        assert_eq!(config(&["LIBVROCM_LOG_LEVEL=9", "LIBVROCM_LOG_LEVEL=2"]).log_level(), 1, "the first counts, also when it is malformed");
    }

    #[test]
    fn the_environment_is_read_once() {
        let once = Once::new();
        let environment = [c"PATH=/bin".as_ptr(), c"VROCM_DEVICE_MEMORY_LIMIT=5".as_ptr(), c"NOEQUALS".as_ptr(), core::ptr::null()];
        // SAFETY: four entries, the last one null.
        let read = unsafe { once.get(environment.as_ptr()) }.unwrap().figure(&[], None).0;
        assert_eq!(read, Figure::Bytes(5 * MIB));
        // SAFETY: null is allowed.
        let again = unsafe { once.get(core::ptr::null()) }.unwrap().figure(&[], None).0;
        assert_eq!(again, Figure::Bytes(5 * MIB));
    }
}
