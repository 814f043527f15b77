//! `HSA_OVERRIDE_GFX_VERSION` and its kin with a node's number: the version a node's devices pretend to have.
//!
//! Read by the thunk (`libhsakmt`, topology.c at rocm-7.0): the variable with the KFD node's number first, then the plain one; a value that
//! it cannot read fails the node loudly. A valid one replaces the triple, and a triple that the registry lacks is skipped just as silently.

use std::fmt;

use super::target::Triple;

/// The variable for all nodes.
pub const VARIABLE: &str = "HSA_OVERRIDE_GFX_VERSION";

/// A version that replaces a device's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Override {
    /// 0 to 63.
    pub major: u32,
    /// 0 to 255.
    pub minor: u32,
    /// 0 to 255.
    pub step: u32,
}

/// A value that the thunk refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadOverride {
    /// Set to nothing.
    #[error("it is set but empty, which the runtime refuses: unset it")]
    Empty,
    /// Not three numbers with dots between and nothing after.
    #[error("{0:?} is not three decimal numbers with dots between them, as in 11.0.0: the runtime refuses it, and hsa_init fails")]
    Shape(String),
    /// A number out of range.
    #[error("{0:?} is out of range (63.255.255 at most): the runtime refuses it, and hsa_init fails")]
    Range(String),
}

impl Override {
    /// Reads a value as the thunk does, `sscanf("%u.%u.%u%c") == 3`: spaces and a sign before a number pass, anything after the third fails.
    pub fn parse(text: &str) -> Result<Self, BadOverride> {
        if text.is_empty() {
            return Err(BadOverride::Empty);
        }
        let shape = || BadOverride::Shape(text.into());
        let (major, rest) = number(text).ok_or_else(shape)?;
        let (minor, rest) = rest.strip_prefix('.').and_then(number).ok_or_else(shape)?;
        let (step, rest) = rest.strip_prefix('.').and_then(number).ok_or_else(shape)?;
        if !rest.is_empty() {
            return Err(shape());
        }
        if major > 63 || minor > 255 || step > 255 {
            return Err(BadOverride::Range(text.into()));
        }
        Ok(Self { major, minor, step })
    }

    /// The target it names; `None` where minor or step have no hex digit of their own (9.255.255, a generic's version).
    pub fn triple(self) -> Option<Triple> {
        let digit = |value: u32| u8::try_from(value).ok().filter(|&value| value < 16);
        Some(Triple { major: self.major, minor: digit(self.minor)?, step: digit(self.step)? })
    }

    /// What to say where the device's own target is of another major: code for the one may hang the other, and newer runtimes refuse.
    pub fn warning(self, own: Triple) -> Option<String> {
        (own.major != self.major).then(|| {
            format!("{VARIABLE}={self} makes a {own} pretend to be of another generation: its code may hang the device, and newer runtimes refuse it")
        })
    }
}

impl fmt::Display for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.step)
    }
}

/// The KFD node that a variable is for: `Some(None)` for all nodes, `None` for a variable that is no override.
pub fn node(variable: &str) -> Option<Option<u32>> {
    let rest = variable.strip_prefix(VARIABLE)?;
    if rest.is_empty() {
        return Some(None);
    }
    let digits = rest.strip_prefix('_')?;
    // Made by "%d": no sign, no leading zero.
    let canonical = digits == "0" || (!digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit()));
    canonical.then(|| digits.parse().ok())?.map(Some)
}

/// A number as `%u` reads it, and what follows.
fn number(text: &str) -> Option<(u32, &str)> {
    let text = text.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    let (negative, text) = match text.strip_prefix('-') {
        Some(text) => (true, text),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = text.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    if digits.is_empty() {
        return None;
    }
    // Beyond 32 bits, and below zero, the value is far out of any range here.
    let value = digits.parse().unwrap_or(u32::MAX);
    Some((if negative { value.wrapping_neg() } else { value }, rest))
}

#[cfg(test)]
mod tests {
    use super::{BadOverride, Override, node};
    use crate::gfx::target::Triple;

    #[test]
    fn values_that_the_thunk_takes() {
        for (text, expected) in
            [("11.0.0", (11, 0, 0)), ("9.0.10", (9, 0, 10)), (" +9. 0.10", (9, 0, 10)), ("63.255.255", (63, 255, 255)), ("010.03.00", (10, 3, 0))]
        {
            let (major, minor, step) = expected;
            assert_eq!(Override::parse(text), Ok(Override { major, minor, step }), "{text:?}");
        }
    }

    #[test]
    fn values_that_it_refuses() {
        assert_eq!(Override::parse(""), Err(BadOverride::Empty));
        for text in ["11", "11.0", "11.0.", "11.0.0 ", "11.0.0.0", "gfx1100", "11,0,0", "a.b.c", "11.0.0\n", " "] {
            assert_eq!(Override::parse(text), Err(BadOverride::Shape(text.into())));
        }
        for text in ["64.0.0", "11.256.0", "11.0.256", "-1.0.0", "99999999999.0.0"] {
            assert_eq!(Override::parse(text), Err(BadOverride::Range(text.into())));
        }
    }

    #[test]
    fn the_target_behind_a_value() {
        let name = |text| Override::parse(text).ok().and_then(Override::triple).map(|triple| triple.to_string());
        assert_eq!(name("9.0.10").as_deref(), Some("gfx90a"));
        assert_eq!(name("11.0.0").as_deref(), Some("gfx1100"));
        assert_eq!(name("9.255.255"), None);
        // 15 is the last hex digit.
        assert_eq!((name("12.15.15").as_deref(), name("12.16.0"), name("12.0.16")), (Some("gfx12ff"), None, None));
    }

    #[test]
    fn another_generation_is_warned_of() {
        let value = Override { major: 9, minor: 0, step: 0 };
        assert!(value.warning(Triple { major: 11, minor: 0, step: 3 }).is_some_and(|text| text.contains("9.0.0") && text.contains("gfx1103")));
        assert_eq!(value.warning(Triple { major: 9, minor: 4, step: 2 }), None);
    }

    #[test]
    fn variables_of_the_family() {
        assert_eq!(node("HSA_OVERRIDE_GFX_VERSION"), Some(None));
        assert_eq!(node("HSA_OVERRIDE_GFX_VERSION_1"), Some(Some(1)));
        assert_eq!(node("HSA_OVERRIDE_GFX_VERSION_0"), Some(Some(0)));
        for other in [
            "HSA_OVERRIDE_GFX_VERSION_",
            "HSA_OVERRIDE_GFX_VERSION_01",
            "HSA_OVERRIDE_GFX_VERSION_x",
            "HSA_OVERRIDE_GFX",
            "HSA_OVERRIDE_GFX_VERSIONS",
        ] {
            assert_eq!(node(other), None, "{other}");
        }
    }
}
