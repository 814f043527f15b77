//! Names of GPU targets: the grammar, and the triple behind a name.
//!
//! `gfx942` is (9, 4, 2): a decimal major, one hex digit each for minor and step. Runtimes look devices up by the triple and code
//! objects by the name with its features, `gfx90a:sramecc+:xnack-`. A generic (`gfx11-generic`) names a family of code objects, no device.
//! Grammar: LLVM "User Guide for AMDGPU Backend", target id; ROCr `isa.cpp`.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// What precedes a target in the names that HSA itself uses.
pub const HSA_PREFIX: &str = "amdgcn-amd-amdhsa--";

/// Majors that a KFD node can report: six bits of the engine id.
pub const MOST_MAJOR: u32 = 63;
/// The oldest major with a ROCm runtime (gfx600, Southern Islands). Smaller numbers in a file are chance.
pub const LEAST_MAJOR: u32 = 6;

/// Version of an instruction set: major, minor, step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Triple {
    /// Generation: 9 for CDNA and Vega, 10 to 12 for RDNA.
    pub major: u32,
    /// 0 to 15.
    pub minor: u8,
    /// 0 to 15.
    pub step: u8,
}

impl Triple {
    /// Reads what follows `gfx`: decimal major, hex minor, hex step, nothing else.
    fn from_digits(digits: &str) -> Result<Self, Problem> {
        if !digits.is_ascii() {
            return Err(Problem::NotHex);
        }
        if digits.len() < 3 {
            return Err(Problem::TooShort);
        }
        let (major, tail) = digits.split_at(digits.len() - 2);
        let nibble = |index: usize| match tail.as_bytes()[index] {
            digit @ b'0'..=b'9' => Ok(digit - b'0'),
            digit @ b'a'..=b'f' => Ok(digit - b'a' + 10),
            _ => Err(Problem::NotHex),
        };
        if !major.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Problem::MajorNotDecimal);
        }
        if major.starts_with('0') {
            return Err(Problem::LeadingZero);
        }
        let (minor, step) = (nibble(0)?, nibble(1)?);
        Ok(Self { major: major.parse().map_err(|_| Problem::MajorTooLarge)?, minor, step })
    }

    /// True for majors that a runtime could hold, 6 to 63: tells names from chance and from constants that run into each other (`gfx942a`).
    pub fn plausible(self) -> bool {
        (LEAST_MAJOR..=MOST_MAJOR).contains(&self.major)
    }
}

impl fmt::Display for Triple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gfx{}{:x}{:x}", self.major, self.minor, self.step)
    }
}

impl Serialize for Triple {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.major, self.minor, self.step).serialize(serializer)
    }
}

/// State of the two features that a target id can carry; `None` is "any".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Features {
    /// Error correction in SRAM on or off.
    pub sramecc: Option<bool>,
    /// Page-fault replay on or off.
    pub xnack: Option<bool>,
}

impl Features {
    /// True if neither is given.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// Reads `:sramecc+:xnack-` without its first colon. The order of the two does not matter; each at most once.
    fn parse(text: &str) -> Result<Self, Problem> {
        let mut features = Self::default();
        for part in text.split(':') {
            let (name, on) = match (part.strip_suffix('+'), part.strip_suffix('-')) {
                (Some(name), _) => (name, true),
                (_, Some(name)) => (name, false),
                _ => return Err(Problem::FeatureWithoutSign),
            };
            let slot = match name {
                "sramecc" => &mut features.sramecc,
                "xnack" => &mut features.xnack,
                _ => return Err(Problem::UnknownFeature),
            };
            if slot.replace(on).is_some() {
                return Err(Problem::FeatureTwice);
            }
        }
        Ok(features)
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, state) in [("sramecc", self.sramecc), ("xnack", self.xnack)] {
            match state {
                Some(true) => write!(f, ":{name}+")?,
                Some(false) => write!(f, ":{name}-")?,
                None => {}
            }
        }
        Ok(())
    }
}

/// A device's target, with or without features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// The instruction set.
    pub triple: Triple,
    /// The features asked for.
    pub features: Features,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.triple, self.features)
    }
}

/// A family of code objects: `gfx11-generic`, `gfx9-4-generic`. No device carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generic {
    /// Major of the family.
    pub major: u32,
    /// The second number, where there is one.
    pub minor: Option<u32>,
    /// The features asked for.
    pub features: Features,
}

impl fmt::Display for Generic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gfx{}", self.major)?;
        if let Some(minor) = self.minor {
            write!(f, "-{minor}")?;
        }
        write!(f, "-generic{}", self.features)
    }
}

/// A well-formed name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Name {
    /// Of a device.
    Target(Target),
    /// Of a family of code objects.
    Generic(Generic),
}

impl Name {
    /// Reads what follows `gfx`, features included. `text` must be the whole rest of the name.
    fn after_tag(text: &str) -> Result<Self, Problem> {
        let (base, features) = match text.split_once(':') {
            Some((base, features)) => (base, Features::parse(features)?),
            None => (text, Features::default()),
        };
        let Some(family) = base.strip_suffix("-generic") else {
            return Ok(Self::Target(Target { triple: Triple::from_digits(base)?, features }));
        };
        let (major, minor) = match family.split_once('-') {
            Some((major, minor)) => (major, Some(family_number(minor)?)),
            None => (family, None),
        };
        Ok(Self::Generic(Generic { major: family_number(major)?, minor, features }))
    }

    /// Reads a name that stands in a file: `gfx` and the rest, nothing before it, majors that a runtime could hold.
    pub fn in_file(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let name = Self::after_tag(text.strip_prefix("gfx")?).ok()?;
        let plausible = match name {
            Self::Target(target) => target.triple.plausible(),
            Self::Generic(generic) => (LEAST_MAJOR..=MOST_MAJOR).contains(&generic.major),
        };
        plausible.then_some(name)
    }
}

fn family_number(text: &str) -> Result<u32, Problem> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Problem::MajorNotDecimal);
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(Problem::LeadingZero);
    }
    text.parse().map_err(|_| Problem::MajorTooLarge)
}

impl FromStr for Name {
    type Err = Malformed;

    /// Reads a name as people and HSA write it, `amdgcn-amd-amdhsa--` in front allowed.
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let fail = |problem| Malformed { text: text.to_owned(), problem };
        let name = text.strip_prefix(HSA_PREFIX).unwrap_or(text);
        match name.strip_prefix("gfx") {
            Some(rest) => Self::after_tag(rest).map_err(fail),
            None if name.get(..3).is_some_and(|tag| tag.eq_ignore_ascii_case("gfx")) => Err(fail(Problem::UpperCase)),
            None => Err(fail(Problem::NoTag)),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target(target) => target.fmt(f),
            Self::Generic(generic) => generic.fmt(f),
        }
    }
}

/// Why a text names no target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// Does not start with `gfx`.
    NoTag,
    /// `GFX1100`.
    UpperCase,
    /// `gfx9`, `gfx12`: a family.
    TooShort,
    /// A character that is none of `0-9a-f` where minor and step stand.
    NotHex,
    /// Something else than digits before minor and step.
    MajorNotDecimal,
    /// `gfx0942`.
    LeadingZero,
    /// More than 32 bits.
    MajorTooLarge,
    /// `gfx90a:xnack`.
    FeatureWithoutSign,
    /// Neither `sramecc` nor `xnack`.
    UnknownFeature,
    /// The same feature more than once.
    FeatureTwice,
}

impl Problem {
    /// One clause that says what is wrong.
    pub fn explain(self) -> &'static str {
        match self {
            Self::NoTag => "it does not start with gfx (or amdgcn-amd-amdhsa--gfx)",
            Self::UpperCase => "names are lower case",
            Self::TooShort => "after gfx stand a decimal major, a hex digit for minor and one for step (gfx942, gfx1100); this is a family at most",
            Self::NotHex => "the last two characters before any feature are hex digits in lower case, minor and step",
            Self::MajorNotDecimal => "the major, all but the last two characters after gfx, is decimal",
            Self::LeadingZero => "numbers have no leading zero",
            Self::MajorTooLarge => "the major is absurdly large",
            Self::FeatureWithoutSign => "a feature ends in + or -, as in gfx90a:xnack+",
            Self::UnknownFeature => "the features of a target are sramecc and xnack",
            Self::FeatureTwice => "a feature may be given once",
        }
    }
}

/// A text that names no target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no target: {}", problem.explain())]
pub struct Malformed {
    /// The text as given.
    pub text: String,
    /// What is wrong with it.
    pub problem: Problem,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Features, Generic, Name, Problem, Target, Triple};

    fn problem(text: &str) -> Problem {
        text.parse::<Name>().expect_err(text).problem
    }

    #[test]
    fn names_of_devices() {
        for (text, major, minor, step) in [
            ("gfx90a", 9, 0, 10),
            ("gfx90c", 9, 0, 12),
            ("gfx942", 9, 4, 2),
            ("gfx1100", 11, 0, 0),
            ("gfx110", 1, 1, 0),
            ("gfx12ff", 12, 15, 15),
            ("amdgcn-amd-amdhsa--gfx1250", 12, 5, 0),
        ] {
            let features = Features::default();
            assert_eq!(text.parse(), Ok(Name::Target(Target { triple: Triple { major, minor, step }, features })), "{text}");
        }
    }

    #[test]
    fn features_in_any_order_and_shown_in_one() {
        for text in ["gfx942:sramecc+:xnack-", "gfx942:xnack-:sramecc+", "amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-"] {
            assert_eq!(text.parse::<Name>().map(|name| name.to_string()).as_deref(), Ok("gfx942:sramecc+:xnack-"));
        }
        assert_eq!(problem("gfx90a:"), Problem::FeatureWithoutSign);
        assert_eq!(problem("gfx90a:xnack"), Problem::FeatureWithoutSign);
        assert_eq!(problem("gfx90a:wave64+"), Problem::UnknownFeature);
        assert_eq!(problem("gfx90a:xnack+:xnack-"), Problem::FeatureTwice);
        assert_eq!(problem("gfx90a:xnack+:"), Problem::FeatureWithoutSign);
    }

    #[test]
    fn generics() {
        let generic = |major, minor| Ok(Name::Generic(Generic { major, minor, features: Features::default() }));
        assert_eq!("gfx11-generic".parse(), generic(11, None));
        assert_eq!("gfx9-4-generic".parse(), generic(9, Some(4)));
        assert_eq!("gfx9-4-generic:xnack+".parse::<Name>().map(|name| name.to_string()).as_deref(), Ok("gfx9-4-generic:xnack+"));
        assert_eq!(problem("gfx-generic"), Problem::MajorNotDecimal);
        assert_eq!(problem("gfx9--generic"), Problem::MajorNotDecimal);
        assert_eq!("gfx9-0-generic".parse(), generic(9, Some(0)));
        assert_eq!((problem("gfx09-generic"), problem("gfx9-04-generic")), (Problem::LeadingZero, Problem::LeadingZero));
    }

    #[test]
    fn what_is_malformed_says_why() {
        for (text, expected) in [
            ("", Problem::NoTag),
            ("sm_90", Problem::NoTag),
            (" gfx942", Problem::NoTag),
            ("-gfx1250", Problem::NoTag),
            ("amdgcn-amd-amdhsa--", Problem::NoTag),
            ("GFX1100", Problem::UpperCase),
            ("Gfx1100", Problem::UpperCase),
            ("gfx", Problem::TooShort),
            ("gfx9", Problem::TooShort),
            ("gfx11", Problem::TooShort),
            ("gfx12", Problem::TooShort),
            ("gfx1150x", Problem::NotHex),
            ("gfx115X", Problem::NotHex),
            ("gfx90A", Problem::NotHex),
            ("gfx942 ", Problem::NotHex),
            ("gfx0942", Problem::LeadingZero),
            ("gfx9b42", Problem::MajorNotDecimal),
            ("gfxé42", Problem::NotHex),
            ("gfx99999999999999942", Problem::MajorTooLarge),
        ] {
            assert_eq!(problem(text), expected, "{text:?}");
        }
    }

    #[test]
    fn constants_that_ran_into_each_other_are_no_names_of_a_file() {
        for text in [&b"gfx942a"[..], b"gfx902d", b"gfx1010a", b"gfx90cd", b"gfx110", b"gfx9", b"gfx11add"] {
            assert_eq!(Name::in_file(text), None, "{text:?}");
        }
        assert!(Name::in_file(b"gfx90a:sramecc+:xnack-").is_some());
    }

    proptest! {
        #[test]
        fn round_trip(major in 1_u32..100_000, minor in 0_u8..16, step in 0_u8..16, sramecc: Option<bool>, xnack: Option<bool>) {
            let target = Target { triple: Triple { major, minor, step }, features: Features { sramecc, xnack } };
            prop_assert_eq!(target.to_string().parse(), Ok(Name::Target(target)));
            prop_assert_eq!(format!("{}{target}", super::HSA_PREFIX).parse(), Ok(Name::Target(target)));
        }

        #[test]
        fn round_trip_of_generics(major in 0_u32..100_000, minor: Option<u32>, sramecc: Option<bool>, xnack: Option<bool>) {
            let generic = Generic { major, minor, features: Features { sramecc, xnack } };
            prop_assert_eq!(generic.to_string().parse(), Ok(Name::Generic(generic)));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            if let Ok(name) = text.parse::<Name>() {
                prop_assert_eq!(name.to_string().parse(), Ok(name));
            }
        }

        #[test]
        fn any_tail_is_read_or_refused(tail in "[0-9a-fx:+a-z-]{0,12}") {
            if let Ok(name) = format!("gfx{tail}").parse::<Name>() {
                prop_assert_eq!(name.to_string().parse(), Ok(name));
            }
        }
    }
}
