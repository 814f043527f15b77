//! Subdirectories for better CPUs: `glibc-hwcaps/x86-64-v3` from glibc 2.33 on, the older power set (`tls/haswell/x86_64`) up to 2.36
//! (`_dl_important_hwcaps` in `elf/dl-hwcaps.c`, `sysdeps/x86/cpu-features.c`).

use std::fmt;

use serde::{Serialize, Serializer};

/// What the loader asks a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cpu {
    /// x86-64 level of the psABI, 1 to 4.
    pub level: u8,
    /// `AT_PLATFORM`, or what glibc puts in its place: `x86_64`, `haswell`, `xeon_phi`.
    pub platform: &'static str,
    /// glibc's legacy capability of that name (up to 2.36).
    pub avx512_1: bool,
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "x86-64-v{} {}{}", self.level, self.platform, if self.avx512_1 { " avx512_1" } else { "" })
    }
}

impl Serialize for Cpu {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Names of subdirectories whose presence makes the answer depend on the CPU.
pub const LEGACY: [&str; 5] = ["tls", "x86_64", "haswell", "xeon_phi", "avx512_1"];

impl Cpu {
    /// Every kind; some of them no vendor makes, which errs on the side of more answers.
    pub fn all() -> impl Iterator<Item = Self> {
        let of_level = |level| {
            ["x86_64", "haswell", "xeon_phi"]
                .into_iter()
                .flat_map(move |platform| [false, true].map(move |avx512_1| Self { level, platform, avx512_1 }))
        };
        (1..=4).flat_map(of_level)
    }

    /// The CPU of a machine from its `/proc/cpuinfo`; `None` where that tells no x86-64 CPU.
    pub fn from_cpuinfo(text: &str) -> Option<Self> {
        let field =
            |name: &str| text.lines().find(|line| line.starts_with(name)).and_then(|line| line.split_once(':')).map(|(_, value)| value.trim());
        let flags: Vec<&str> = field("flags")?.split(' ').collect();
        let has = |names: &[&str]| names.iter().all(|name| flags.contains(name));
        if !has(&["lm"]) {
            return None;
        }
        let levels: [&[&str]; 3] = [
            &["cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"],
            &["avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"],
            &["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"],
        ];
        let level = 1 + levels.iter().take_while(|names| has(names)).count() as u8;
        let intel = field("vendor_id") == Some("GenuineIntel");
        let platform = match () {
            () if intel && has(&["avx512cd", "avx512er", "avx512pf"]) => "xeon_phi",
            () if intel && has(&["avx2", "fma", "bmi1", "bmi2", "abm", "movbe", "popcnt"]) => "haswell",
            () => "x86_64",
        };
        let avx512_1 = intel && has(&["avx512cd", "avx512bw", "avx512dq", "avx512vl"]) && !has(&["avx512er"]);
        Some(Self { level, platform, avx512_1 })
    }

    /// Subdirectories in the loader's order, each with its `/`; the directory itself, as an empty name, is last.
    pub fn subdirectories(&self, named: bool, legacy: bool) -> Vec<String> {
        let mut names = Vec::new();
        if named {
            names.extend((2..=self.level).rev().map(|level| format!("glibc-hwcaps/x86-64-v{level}/")));
        }
        if legacy {
            let mut parts = vec!["tls", self.platform];
            parts.extend(self.avx512_1.then_some("avx512_1"));
            parts.push("x86_64");
            for subset in (1..1_u32 << parts.len()).rev() {
                let chosen = parts.iter().rev().enumerate().rev().filter(|(bit, _)| subset >> bit & 1 != 0);
                let name: String = chosen.map(|(_, part)| format!("{part}/")).collect();
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        names.push(String::new());
        names
    }
}

#[cfg(test)]
mod tests {
    use super::Cpu;

    #[test]
    fn l19_components_repeat() {
        let cpu = Cpu { level: 1, platform: "x86_64", avx512_1: false };
        let seen = ["tls/x86_64/x86_64/", "tls/x86_64/", "tls/", "x86_64/x86_64/", "x86_64/", ""];
        assert_eq!(cpu.subdirectories(false, true), seen, "as LD_DEBUG=libs of glibc 2.36 lists them");
        let cpu = Cpu { level: 3, ..cpu };
        assert_eq!(cpu.subdirectories(true, false), ["glibc-hwcaps/x86-64-v3/", "glibc-hwcaps/x86-64-v2/", ""]);
    }

    #[test]
    fn the_cpu_of_a_machine() {
        let text =
            "vendor_id\t: AuthenticAMD\nflags\t\t: lm cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3 avx avx2 bmi1 bmi2 f16c fma abm movbe xsave\n";
        assert_eq!(Cpu::from_cpuinfo(text), Some(Cpu { level: 3, platform: "x86_64", avx512_1: false }));
        let intel = text.replace("AuthenticAMD", "GenuineIntel");
        assert_eq!(Cpu::from_cpuinfo(&intel).map(|cpu| cpu.platform), Some("haswell"));
        assert_eq!(Cpu::from_cpuinfo("Features : fp asimd"), None);
    }
}
