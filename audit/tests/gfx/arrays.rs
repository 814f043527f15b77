//! A registry that is a constant array of ids.

use vrocm_audit::gfx::Tier;
use vrocm_audit::gfx::verdict::{Reason, Verdict};

use crate::stand_in::{StandIn, TARGETS, array, hidden_immediates, ids};

fn complete() -> Vec<String> {
    let mut all = ids(&TARGETS);
    all.extend(["gfx9-generic", "gfx9-4-generic", "gfx10-1-generic", "gfx10-3-generic", "gfx11-generic", "gfx12-generic"].map(String::from));
    all
}

#[test]
fn complete_table() {
    let library = StandIn::rocr(&array("table", &complete()));
    let scanned = library.scan();
    assert_eq!((scanned.tier, scanned.targets.len(), scanned.generics.len(), scanned.mentioned_only.len()), (Tier::Registry, 39, 6, 0));
    for (name, verdict, reason) in [
        ("gfx1250", Verdict::Unsupported, Reason::NotRegistered),
        ("gfx110", Verdict::Unsupported, Reason::NotRegistered),
        ("gfx1201", Verdict::Supported, Reason::Registered),
        ("gfx90a", Verdict::Supported, Reason::Registered),
        ("gfx942:sramecc+:xnack-", Verdict::Supported, Reason::Registered),
        ("amdgcn-amd-amdhsa--gfx1100", Verdict::Supported, Reason::Registered),
        ("gfx1100:xnack+", Verdict::Unsupported, Reason::FeatureNotRegistered),
        ("gfx900:sramecc+", Verdict::Unsupported, Reason::FeatureNotRegistered),
        ("gfx11-generic", Verdict::Unknown, Reason::GenericOnly),
        ("gfx13-generic", Verdict::Unknown, Reason::GenericOnly),
    ] {
        let answer = library.ask(name);
        assert_eq!((answer.verdict, answer.reason), (verdict, reason), "{name}: {}", answer.message);
    }
    assert_eq!(library.ask("gfx1250").nearest, ["gfx1200", "gfx1201", "gfx1150"]);
    assert!(library.ask("gfx1201").nearest.is_empty(), "what is supported needs no neighbour");
    for (name, says) in
        [("gfx1100:xnack+", "it is registered without features"), ("gfx900:sramecc+", "it is registered as gfx900, gfx900:xnack-, gfx900:xnack+")]
    {
        let message = library.ask(name).message;
        assert!(message.ends_with(says), "{message}");
    }
}

#[test]
fn table_without_one_name() {
    let targets: Vec<_> = TARGETS.into_iter().filter(|&target| target != "gfx1030").collect();
    let library = StandIn::rocr(&array("table", &ids(&targets)));
    assert_eq!(library.scan().targets.len(), 38);
    assert_eq!(library.ask("gfx1030").verdict, Verdict::Unsupported);
    assert_eq!(library.ask("gfx1031").verdict, Verdict::Supported);
}

#[test]
fn ten_targets_are_a_table_and_nine_are_not() {
    let ten = ["gfx900", "gfx906", "gfx908", "gfx90a", "gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx1200", "gfx1201"];
    assert_eq!(StandIn::rocr(&array("table", &ids(&ten))).ask("gfx1100").verdict, Verdict::Supported);
    let nine = StandIn::rocr(&array("table", &ids(&ten[..9])));
    assert_eq!(nine.scan().tier, Tier::Mentions);
    assert_eq!(nine.ask("gfx1100").reason, Reason::NoRegistry);
    assert_eq!(nine.ask("gfx1250").reason, Reason::TooFewNames);
}

#[test]
fn s2_legacy_names_are_no_support() {
    let legacy = "__attribute__((used)) static const char a[]=\"amdgcn-amd-amdhsa--gfx600\", b[]=\"gfx703\";\n";
    let library = StandIn::rocr(&format!("{}{legacy}", array("table", &complete())));
    assert_eq!(library.scan().mentioned_only, ["gfx600", "gfx703"]);
    for name in ["gfx600", "gfx703"] {
        let answer = library.ask(name);
        assert_eq!((answer.verdict, answer.reason), (Verdict::Unsupported, Reason::LegacyNameOnly), "{name}");
    }
    assert_eq!(library.ask("gfx601").reason, Reason::NotRegistered);
}

#[test]
fn a_list_of_bare_names_is_no_registry() {
    let bare: Vec<_> = TARGETS.into_iter().map(String::from).collect();
    let library = StandIn::rocr(&array("table", &bare));
    assert_eq!(library.scan().tier, Tier::Mentions);
    assert_eq!(library.ask("gfx942").verdict, Verdict::Unknown);
    assert_eq!(library.ask("gfx1250").reason, Reason::NameAbsent);
}

#[test]
fn s13_a_name_in_immediates_only_is_not_called_absent() {
    let library = StandIn::rocr(&format!("{}{}", array("table", &complete()), hidden_immediates("inl", "gfx1250")));
    let answer = library.ask("gfx1250");
    assert_eq!((answer.verdict, answer.reason), (Verdict::Unknown, Reason::Contradiction), "{}", answer.message);
    assert_eq!(library.ask("gfx1251").verdict, Verdict::Unsupported);
}

#[test]
fn an_embedded_code_object_contradicts() {
    // A msgpack string of 26 bytes, as in the metadata of a code object.
    let note = "__attribute__((used)) static char blob[]=\"\\xba\" \"amdgcn-amd-amdhsa--gfx1250\" \"\\xae\" \"amdhsa.version\";\n";
    let library = StandIn::rocr(&format!("{}{note}", array("table", &complete())));
    assert_eq!(library.ask("gfx1250").reason, Reason::Contradiction);
}

#[test]
fn s13_fused_constants_neither_count_nor_hide() {
    let fused = "__attribute__((used)) static const char a[]=\"gfx942amdgcn gfx1250a libgfx1251_x\";\n";
    let targets: Vec<_> = TARGETS.into_iter().filter(|&target| target != "gfx942").collect();
    let registry = StandIn::rocr(&format!("{}{fused}", array("table", &ids(&targets))));
    assert!(registry.scan().mentioned_only.is_empty());
    assert_eq!(registry.ask("gfx942").reason, Reason::NotRegistered);
    assert_eq!(registry.ask("gfx942a").reason, Reason::NotRegistered);
    // Without a registry they are enough not to say "absent".
    let bare: Vec<_> = targets.iter().copied().map(String::from).collect();
    let mentions = StandIn::rocr(&format!("{}{fused}", array("table", &bare)));
    for name in ["gfx942", "gfx1250", "gfx1251"] {
        assert_eq!(mentions.ask(name).reason, Reason::NoRegistry, "{name}");
    }
    assert_eq!(mentions.ask("gfx125").reason, Reason::NameAbsent);
    assert_eq!(mentions.ask("gfx1252").reason, Reason::NameAbsent);
}

#[test]
fn two_arrays_are_none() {
    let library = StandIn::rocr(&format!("{}{}", array("one", &complete()), array("two", &ids(&TARGETS[..20]))));
    let scanned = library.scan();
    assert_eq!(scanned.tier, Tier::Mentions);
    assert!(scanned.why_no_registry.is_some_and(|why| why.contains("2 arrays")));
    assert_eq!(library.ask("gfx942").verdict, Verdict::Unknown);
}

#[test]
fn a_copy_of_a_name_by_other_code_is_no_second_registry() {
    let copy = "void copy(void){__asm__ volatile(\"movups 1f(%rip), %xmm0\\n.section .rodata\\n1:.asciz \\\"gfx90a:xnack+\\\"\\n.previous\");}\n";
    let library = StandIn::rocr(&format!("{}{copy}", array("table", &complete())));
    assert_eq!(library.scan().tier, Tier::Registry);
}

/// More ids than any runtime holds: no structure is looked for, and nothing is called absent.
#[test]
fn a_crowd_of_names_gives_no_verdict() {
    let crowd = |text: &str, section: &str| format!("__asm__(\".section {section}\\n.rept 16500\\n{text}\\n.endr\\n.previous\");\n");
    for crowd in [crowd(".asciz \\\"gfx900\\\"", ".rodata"), crowd(".ascii \\\"gfx\\\"", ".text")] {
        let words = format!("__attribute__((used)) static char words[]=\"{} \";\n", TARGETS.join(" "));
        let library = StandIn::rocr(&format!("{}{words}{crowd}", array("names", &TARGETS.map(String::from))));
        let scanned = library.scan();
        assert_eq!((scanned.tier, scanned.targets.len()), (Tier::Mentions, 0));
        assert!(scanned.why_no_registry.as_ref().is_some_and(|why| why.contains("more ids than any runtime")), "{:?}", scanned.why_no_registry);
        for name in ["gfx942", "gfx1250"] {
            assert_eq!((library.ask(name).verdict, library.ask(name).reason), (Verdict::Unknown, Reason::NoRegistry), "{name}");
        }
    }
}
