//! HIP's own table: records with the version of each name.

use vrocm_audit::gfx::Tier;
use vrocm_audit::gfx::identity::Identity;
use vrocm_audit::gfx::target::Name;
use vrocm_audit::gfx::verdict::{Reason, Verdict};

use crate::stand_in::{HIP, StandIn, TARGETS, array, ids};

/// Records as CLR lays them out: name, a second pointer, two flags, version, and more.
fn records(ids: &[String], off: &str, wrong: usize) -> String {
    let rows = ids
        .iter()
        .enumerate()
        .map(|(index, id)| {
            let Ok(Name::Target(target)) = id.parse() else { panic!("{id}") };
            let triple = target.triple;
            let step = u32::from(triple.step) + u32::from(index < wrong) * 3;
            format!("{{\"{id}\",\"{id}\",{},1,{},{},{step},64}},", u8::from(id != off), triple.major, triple.minor)
        })
        .collect::<Vec<_>>()
        .concat();
    format!(
        "struct isa{{const char*id;const char*alias;char roc,pal;unsigned major,minor,step,rest;}};\n\
         static const struct isa table[]={{{rows}}}; const struct isa*at(int i){{return table+i;}}\n"
    )
}

/// Records of a name and its version and nothing else: the byte where flags would stand is one of the pointer's, or of a field `before`.
fn bare_records(ids: &[&str], before: &str) -> String {
    let row = |id: &&str| {
        let Ok(Name::Target(target)) = id.parse() else { panic!("{id}") };
        let first = if before.is_empty() { "" } else { "64," };
        format!("{{\"{id}\",{first}{},{},{}}},", target.triple.major, target.triple.minor, target.triple.step)
    };
    let rows: String = ids.iter().map(row).collect();
    format!(
        "struct isa{{const char*id;{before}unsigned major,minor,step;}}; static const struct isa table[]={{{rows}}}; const struct isa*at(int i){{return table+i;}}\n"
    )
}

fn hip(source: &str) -> StandIn {
    StandIn::compile("libamdhip64.so.7", &format!("{HIP}{source}"))
}

#[test]
fn its_table_is_read() {
    let library = hip(&records(&ids(&TARGETS), "gfx909", 0));
    let scanned = library.scan();
    assert_eq!((scanned.identity, scanned.tier, scanned.targets.len()), (Identity::Hip, Tier::Registry, 38), "{:?}", scanned.why_no_registry);
    assert_eq!(library.ask("gfx942").verdict, Verdict::Supported);
    assert_eq!((library.ask("gfx909").verdict, library.ask("gfx909").reason), (Verdict::Unsupported, Reason::NotEnabled));
    assert_eq!(library.ask("gfx1250").reason, Reason::NotRegistered);
}

#[test]
fn a_slip_in_the_table_is_borne_and_many_are_not() {
    // One in ten.
    let (all, tenth) = (ids(&TARGETS), ids(&TARGETS).len() / 10);
    assert_eq!(hip(&records(&all, "", tenth)).scan().tier, Tier::Registry);
    assert_eq!(hip(&records(&all, "", tenth + 1)).scan().tier, Tier::Mentions);
}

#[test]
fn without_its_table_nothing_is_supported() {
    let library = hip(&array("names", &ids(&TARGETS)));
    assert_eq!(library.scan().tier, Tier::Mentions);
    assert_eq!((library.ask("gfx942").verdict, library.ask("gfx942").reason), (Verdict::Unknown, Reason::NoRegistry));
    assert_eq!((library.ask("gfx1250").verdict, library.ask("gfx1250").reason), (Verdict::Unsupported, Reason::NameAbsent));
}

#[test]
fn a_feature_that_is_switched_off_is_not_registered_and_the_device_is() {
    // Both states of xnack, of which nothing is left.
    let off = ids(&["gfx1010"]);
    let table = records(&ids(&TARGETS), "", 0);
    let table = off[1..].iter().fold(table, |table, id| table.replace(&format!("{{\"{id}\",\"{id}\",1,"), &format!("{{\"{id}\",\"{id}\",0,")));
    let library = hip(&table);
    assert_eq!(library.ask("gfx1010").verdict, Verdict::Supported);
    assert_eq!((library.ask("gfx1010:xnack+").verdict, library.ask("gfx1010:xnack+").reason), (Verdict::Unsupported, Reason::FeatureNotRegistered));
    // The device is off if its own entry is, whatever its features say.
    let library = hip(&records(&ids(&TARGETS), "gfx906", 0));
    assert_eq!((library.scan().targets.len(), library.ask("gfx906").reason), (38, Reason::NotEnabled));
}

#[test]
fn ten_records_without_flags_are_a_table_and_all_of_it_counts() {
    for before in ["", "unsigned other;"] {
        let library = hip(&bare_records(&TARGETS[18..28], before));
        let scanned = library.scan();
        assert_eq!((scanned.tier, scanned.targets.len()), (Tier::Registry, 10), "{before}: {:?}", scanned.why_no_registry);
    }
    assert_eq!(hip(&bare_records(&TARGETS[18..27], "")).scan().tier, Tier::Mentions);
}
