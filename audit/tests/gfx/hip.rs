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
    assert_eq!(hip(&records(&ids(&TARGETS), "", 3)).scan().tier, Tier::Registry);
    assert_eq!(hip(&records(&ids(&TARGETS), "", 30)).scan().tier, Tier::Mentions);
}

#[test]
fn without_its_table_nothing_is_supported() {
    let library = hip(&array("names", &ids(&TARGETS)));
    assert_eq!(library.scan().tier, Tier::Mentions);
    assert_eq!((library.ask("gfx942").verdict, library.ask("gfx942").reason), (Verdict::Unknown, Reason::NoRegistry));
    assert_eq!((library.ask("gfx1250").verdict, library.ask("gfx1250").reason), (Verdict::Unsupported, Reason::NameAbsent));
}
