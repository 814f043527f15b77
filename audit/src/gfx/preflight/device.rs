//! Which version a device has in the eyes of the runtime: the kernel's number, the thunk's table of PCI device ids, and the override variables.
//!
//! The thunk (`libhsakmt`, `topology.c`) looks the device id up in a table of its own first (`manifests/hsa/device-ids.json`). Until ROCm 5.3 it
//! did so for every device, since 5.4 not for those whose `gfx_target_version` has a major above 10. `HSA_OVERRIDE_GFX_VERSION` replaces
//! what comes out; the form with a node's number came with the merged thunk, after 6.2.

use std::collections::BTreeSet;

use serde::Serialize;

use super::super::override_version::{self, Override};
use super::super::target::Triple;
use crate::manifest::BadManifest;
use crate::manifest::devices;

/// A device as the kernel, or an emulator in its place, describes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Device {
    /// What to call it: the file or node it comes from.
    pub from: String,
    /// Number of its KFD node, where it is known.
    pub node: Option<u32>,
    /// `gfx_target_version`, `MMmmss` in decimal; 0 is none.
    pub gfx_target_version: u32,
    /// PCI device id, where it is known.
    pub device_id: Option<u16>,
}

/// A version as the registry is asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// A target.
    Target(Triple),
    /// Numbers that no name of a target has, such as 9.255.255.
    Odd(u32, u32, u32),
    /// None: the device is no GPU for the thunk.
    None,
    /// The thunk refuses the override variable; `hsa_init` fails, which is loud.
    Refused,
}

/// What differs between releases of the thunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rules {
    /// The table counts whatever the major is.
    table_for_all: bool,
    /// `HSA_OVERRIDE_GFX_VERSION_<node>` is read.
    per_node: bool,
}

/// The rules of the releases that a text such as `7.2.4`, `6.2-6.3` or nothing stands for.
fn rules(release: Option<&str>) -> Vec<Rules> {
    let all = [
        Rules { table_for_all: true, per_node: false },
        Rules { table_for_all: false, per_node: false },
        Rules { table_for_all: false, per_node: true },
    ];
    let line = |text: &str| {
        let mut numbers = text.split('.').map(|part| part.parse::<u32>().ok());
        Some((numbers.next()??, numbers.next()??))
    };
    let ends = release.and_then(|release| {
        let (first, last) = release.split_once('-').unwrap_or((release, release));
        Some((line(first)?, line(last)?))
    });
    let Some((first, last)) = ends else { return all.to_vec() };
    let spans = [((0, 0), (5, 3)), ((5, 4), (6, 2)), ((6, 3), (u32::MAX, 0))];
    all.into_iter().zip(spans).filter(|(_, (from, to))| first <= *to && last >= *from).map(|(rules, _)| rules).collect()
}

/// The versions that the device may have for a runtime of this release (`None`: any release). More than one where releases differ, or the
/// device id is not known and could matter.
pub fn versions(device: &Device, environment: &[(String, String)], release: Option<&str>) -> Result<BTreeSet<Version>, BadManifest> {
    let table = devices::embedded()?;
    Ok(rules(release).into_iter().map(|rules| version(device, environment, rules, &table)).collect())
}

fn version(device: &Device, environment: &[(String, String)], rules: Rules, table: &[devices::Row]) -> Version {
    let packed = device.gfx_target_version;
    let (major, minor, step) = (packed / 10_000 % 100, packed / 100 % 100, packed % 100);
    let consulted = rules.table_for_all || major <= 10;
    let row = device.device_id.filter(|_| consulted).and_then(|id| table.iter().find(|row| row.device_id == id));
    if row.is_none() && packed == 0 {
        return Version::None;
    }
    if let Some((_, value)) = variable(environment, device.node, rules.per_node) {
        return match Override::parse(value) {
            Ok(value) => value.triple().map_or(Version::Odd(value.major, value.minor, value.step), Version::Target),
            Err(_) => Version::Refused,
        };
    }
    let [major, minor, step] = row.map_or([major, minor, step], |row| row.version);
    named(major, minor, step)
}

pub(super) fn named(major: u32, minor: u32, step: u32) -> Version {
    match (Override { major, minor, step }).triple() {
        Some(triple) => Version::Target(triple),
        None => Version::Odd(major, minor, step),
    }
}

/// The override variable that counts: the one with the node's number first. An empty one counts too, and is refused.
fn variable(environment: &[(String, String)], node: Option<u32>, per_node: bool) -> Option<&(String, String)> {
    let of = |wanted: Option<u32>| environment.iter().rev().find(|(name, _)| override_version::node(name) == Some(wanted));
    node.filter(|_| per_node).and_then(|node| of(Some(node))).or_else(|| of(None))
}

/// The number that the kernel packs a version into.
pub fn pack(triple: Triple) -> u32 {
    triple.major.saturating_mul(10_000).saturating_add(u32::from(triple.minor) * 100 + u32::from(triple.step))
}

#[cfg(test)]
mod tests {
    use super::{Device, Version, pack, versions};
    use crate::gfx::target::{Name, Triple};

    fn device(gfx_target_version: u32, device_id: Option<u16>) -> Device {
        Device { from: "test".into(), node: Some(1), gfx_target_version, device_id }
    }

    fn ask(device: &Device, variables: &[(&str, &str)], release: Option<&str>) -> Vec<String> {
        let environment: Vec<_> = variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let show = |version| match version {
            Version::Target(triple) => triple.to_string(),
            Version::Odd(major, minor, step) => format!("{major}.{minor}.{step}"),
            Version::None => "none".into(),
            Version::Refused => "refused".into(),
        };
        versions(device, &environment, release).expect("table").into_iter().map(show).collect()
    }

    #[test]
    fn c4_packed_versions_and_the_hex_step() {
        for (packed, name) in
            [(90402, "gfx942"), (90010, "gfx90a"), (90500, "gfx950"), (110_501, "gfx1151"), (120_001, "gfx1201"), (120_500, "gfx1250")]
        {
            assert_eq!(ask(&device(packed, None), &[], None), [name]);
            let Ok(Name::Target(target)) = name.parse() else { panic!("{name}") };
            assert_eq!(pack(target.triple), packed);
        }
        assert_eq!(ask(&device(0, None), &[], None), ["none"]);
        assert_eq!(ask(&device(91_700, None), &[], None), ["9.17.0"], "no hex digit: kept as numbers");
        assert_eq!(pack(Triple { major: u32::MAX, minor: 15, step: 15 }), u32::MAX);
    }

    #[test]
    fn x1_the_device_id_table_wins_up_to_major_10() {
        assert_eq!(ask(&device(90500, Some(0x740f)), &[], Some("7.2.4")), ["gfx90a"], "a gfx950 with the id of an MI210 enumerates as one");
        assert_eq!(ask(&device(90402, Some(0x74a1)), &[], Some("7.2.4")), ["gfx942"], "an id that is not in the table");
        assert_eq!(ask(&device(100_300, Some(0x740f)), &[], Some("7.2")), ["gfx90a"], "10 is not above 10");
        assert_eq!(ask(&device(120_500, Some(0x740f)), &[], Some("7.2")), ["gfx1250"], "above 10 the table is not consulted");
        assert_eq!(ask(&device(120_500, Some(0x740f)), &[], Some("5.2")), ["gfx90a"], "until 5.3 it was");
        assert_eq!(ask(&device(120_500, Some(0x740f)), &[], Some("5.3-5.4")), ["gfx90a", "gfx1250"], "a release that cannot be told leaves both");
        assert_eq!(ask(&device(0, Some(0x740f)), &[], Some("7.2")), ["gfx90a"]);
    }

    #[test]
    fn x2_overrides_valid_invalid_per_node_and_of_a_generic() {
        let gpu = device(120_500, None);
        assert_eq!(ask(&gpu, &[("HSA_OVERRIDE_GFX_VERSION", "11.0.0")], Some("7.2")), ["gfx1100"]);
        assert_eq!(ask(&gpu, &[("HSA_OVERRIDE_GFX_VERSION", "11.0")], Some("7.2")), ["refused"]);
        assert_eq!(ask(&gpu, &[("HSA_OVERRIDE_GFX_VERSION", "")], Some("7.2")), ["refused"], "set to nothing is set");
        assert_eq!(ask(&gpu, &[("HSA_OVERRIDE_GFX_VERSION", "9.255.255")], Some("7.2")), ["9.255.255"]);
        let both = [("HSA_OVERRIDE_GFX_VERSION", "11.0.0"), ("HSA_OVERRIDE_GFX_VERSION_1", "9.0.10")];
        assert_eq!(ask(&gpu, &both, Some("7.2")), ["gfx90a"], "the node's own goes first");
        assert_eq!(ask(&gpu, &both, Some("6.2")), ["gfx1100"], "before 6.3 there was none");
        assert_eq!(ask(&gpu, &[("HSA_OVERRIDE_GFX_VERSION_2", "9.0.10")], Some("7.2")), ["gfx1250"], "another node's");
        assert_eq!(ask(&device(0, None), &both, Some("7.2")), ["none"], "only a device that is one already is overridden");
    }
}
