//! A registry that a function builds, as in ROCr.

use vrocm_audit::gfx::Tier;
use vrocm_audit::gfx::verdict::{Reason, Verdict};

use crate::stand_in::{StandIn, TARGETS, array, builder, calls, hidden_immediates, ids};

#[test]
fn the_one_function_that_names_features() {
    // Another table names bare ids, some of which are not registered.
    let bare: Vec<_> = TARGETS.into_iter().chain(["gfx600", "gfx703"]).map(String::from).collect();
    let library = StandIn::rocr(&format!("{}{}{}", builder("build", &ids(&TARGETS)), builder("mach", &bare), array("names", &bare)));
    let scanned = library.scan();
    assert_eq!((scanned.tier, scanned.targets.len()), (Tier::Registry, 39), "{:?}", scanned.why_no_registry);
    assert_eq!(scanned.mentioned_only, ["gfx600", "gfx703"]);
    assert_eq!(library.ask("gfx1250").reason, Reason::NotRegistered);
    assert_eq!(library.ask("gfx600").reason, Reason::LegacyNameOnly);
    assert_eq!(library.ask("gfx90a:xnack+").verdict, Verdict::Supported);
}

#[test]
fn names_that_the_builder_assembles_are_registered() {
    // memcpy of a short string is a store of immediates.
    let build = format!("void build(void){{char b[8];__builtin_memcpy(b,\"gfx1250\",8);take(b);{}}}\n", calls(&ids(&TARGETS)));
    let source = format!("void add(const char *); void take(char *);{build}");
    let library = StandIn::rocr(&source);
    assert_eq!(library.scan().targets.len(), 40);
    assert_eq!(library.ask("gfx1250").verdict, Verdict::Supported);
}

#[test]
fn names_that_other_code_assembles_leave_a_doubt() {
    let source = format!(
        "{}{}",
        builder("build", &ids(&TARGETS)),
        "void take(char *); void other(void){char b[8];__builtin_memcpy(b,\"gfx1250\",8);take(b);}\n"
    );
    assert_eq!(StandIn::rocr(&source).ask("gfx1250").reason, Reason::Contradiction);
}

/// ROCr has lists of names beside its registry; one of fewer than ten, with features or not, is no second one.
#[test]
fn a_short_list_beside_the_function_is_no_registry() {
    let few = ids(&["gfx90a"]);
    assert_eq!(few.len(), 9);
    let library = StandIn::rocr(&format!("{}{}", builder("build", &ids(&TARGETS)), array("few", &few)));
    assert_eq!(library.scan().tier, Tier::Registry);
    let ten = [few, vec!["gfx900".to_string()]].concat();
    let library = StandIn::rocr(&format!("{}{}", builder("build", &ids(&TARGETS)), array("ten", &ten)));
    assert_eq!(library.scan().tier, Tier::Mentions, "ten may be one");
}

/// Linkers may put constants among the code, below those that are read first.
#[test]
fn ids_among_the_code_are_found_by_the_function() {
    let all = ids(&TARGETS);
    let names: String = all
        .iter()
        .enumerate()
        .map(|(at, id)| format!("__asm__(\".text\\n.hidden id{at}\\nid{at}: .asciz \\\"{id}\\\"\");extern const char id{at}[];\n"))
        .collect();
    let calls: String = (0..all.len()).map(|at| format!("add(id{at});")).collect();
    let hidden = "#pragma GCC visibility push(hidden)\n";
    let bare = array("bare", &TARGETS.map(String::from));
    let library = StandIn::rocr(&format!("{bare}{hidden}{names}#pragma GCC visibility pop\nvoid add(const char *); void build(void){{{calls}}}\n"));
    let scanned = library.scan();
    assert_eq!((scanned.tier, scanned.targets.len()), (Tier::Registry, 39), "{:?}", scanned.why_no_registry);
}

#[test]
fn two_functions_are_none() {
    let library = StandIn::rocr(&format!("{}{}", builder("one", &ids(&TARGETS)), builder("two", &ids(&TARGETS[8..12]))));
    let scanned = library.scan();
    assert_eq!((scanned.tier, scanned.targets.len(), scanned.mentioned_only.len()), (Tier::Mentions, 0, 39));
    assert!(scanned.why_no_registry.is_some_and(|why| why.contains("2 functions")));
    assert_eq!((library.ask("gfx942").verdict, library.ask("gfx942").reason), (Verdict::Unknown, Reason::NoRegistry));
    assert_eq!((library.ask("gfx1250").verdict, library.ask("gfx1250").reason), (Verdict::Unsupported, Reason::NameAbsent));
}

#[test]
fn an_absence_without_a_registry_is_held_against_the_code() {
    let source = format!("{}{}{}", builder("one", &ids(&TARGETS)), builder("two", &ids(&TARGETS[8..12])), hidden_immediates("inl", "gfx1250"));
    assert_eq!(StandIn::rocr(&source).ask("gfx1250").reason, Reason::NoRegistry);
}

#[test]
fn checks_refuse_a_builder() {
    let some = &TARGETS[8..27];
    for (targets, why) in [
        (ids(some), "19 targets"),
        (ids(&TARGETS).into_iter().filter(|id| id != "gfx908").collect(), "not gfx908 itself"),
        (ids(&TARGETS).into_iter().filter(|id| id != "gfx900:xnack+").collect(), "one state only"),
        (ids(&TARGETS).into_iter().filter(|id| id != "gfx1030").collect(), "no gfx1030"),
    ] {
        let scanned = StandIn::rocr(&builder("build", &targets)).scan();
        assert_eq!(scanned.tier, Tier::Mentions);
        assert!(scanned.why_no_registry.as_ref().is_some_and(|found| found.contains(why)), "{why}: {:?}", scanned.why_no_registry);
    }
}
