//! What runs on a card, as sources that hiprtc compiles at run time for the card that is there. They use the compiler's builtins only.

/// A kind of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// A kernel that keeps every unit busy.
    Soak,
    /// A variable of that many bytes, and a kernel that uses it.
    Module(u64),
}

impl Code {
    /// As the probe's command names it.
    pub fn word(self) -> String {
        match self {
            Self::Soak => "soak,0".into(),
            Self::Module(bytes) => format!("module,{bytes}"),
        }
    }

    /// Of the words of a command.
    pub fn of(kind: &str, bytes: &str) -> Option<Self> {
        let bytes = bytes.parse().ok()?;
        match kind {
            "soak" => Some(Self::Soak),
            "module" => Some(Self::Module(bytes)),
            _ => None,
        }
    }

    /// The source.
    pub fn source(self) -> String {
        match self {
            Self::Soak => soak(),
            Self::Module(bytes) => format!("__attribute__((device)) unsigned char big[{bytes}ull];\n{TOUCH}{{ big[value] = value; }}\n"),
        }
    }
}

const TOUCH: &str = "extern \"C\" __attribute__((global)) void touch(unsigned value) ";

/// Name of the kernel that keeps units busy.
pub const SOAK: &str = "soak";
/// Threads of a block of it.
pub const THREADS: u32 = 256;
/// Turns of its loop: about ten milliseconds a launch on a whole card.
pub const TURNS: u32 = 8192;

/// Blocks of a launch: several rounds for every unit, so that the last one's half-empty card does not count.
pub fn blocks(compute_units: u32) -> u32 {
    compute_units.saturating_mul(64).clamp(1, 1 << 20)
}

/// Eight chains that do not wait for each other: a kernel bound by latency would leave room, and shares of it would seem larger than they are. Each block that
/// comes to its end counts itself, so that one that did not run is no figure.
fn soak() -> String {
    let chain = |index: u32| format!("        a{index} = __builtin_fmaf(a{index}, x, y);\n");
    let chains: String = (0..8).map(chain).collect();
    format!(
        "extern \"C\" __attribute__((global)) void {SOAK}(unsigned *words, unsigned turns) {{\n\
         \x20   float x = 0.5f + turns * 1e-9f, y = 1.0f + __builtin_amdgcn_workitem_id_x() * 1e-6f;\n\
         \x20   float a0 = y, a1 = y + 1, a2 = y + 2, a3 = y + 3, a4 = y + 4, a5 = y + 5, a6 = y + 6, a7 = y + 7;\n\
         \x20   for (unsigned turn = 0; turn < turns; turn++) {{\n{chains}\x20   }}\n\
         \x20   float sum = a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7;\n\
         \x20   if (sum == -1.0f) words[1] = 1;\n\
         \x20   if (__builtin_amdgcn_workitem_id_x() == 0) __atomic_fetch_add(words, 1u, __ATOMIC_RELAXED);\n\
         }}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_named_and_found_by_its_name() {
        for code in [Code::Soak, Code::Module(512 << 20)] {
            let word = code.word();
            let (kind, bytes) = word.split_once(',').unwrap();
            assert_eq!(Code::of(kind, bytes), Some(code));
            assert!(code.source().contains("__attribute__((global)) void"));
        }
        assert_eq!((Code::of("soak", "x"), Code::of("", "0")), (None, None));
        assert_eq!((blocks(304), blocks(u32::MAX), blocks(0)), (19456, 1 << 20, 1));
    }
}
