//! A plain scan with an override in the environment: it is not applied, and what it would do is said.

use vrocm_audit::elf::Elf;
use vrocm_audit::finding::{Finding, Severity};
use vrocm_audit::gfx::audit;

use crate::stand_in::{StandIn, TARGETS, array, ids};

/// Findings about a variable, with the severities.
fn notes(variable: &str, value: &str, target: Option<&str>) -> Vec<Finding> {
    let runtime = StandIn::rocr(&array("table", &ids(&TARGETS)));
    let stranger = StandIn::compile("libother.so.1", "int other(void){return 0;}\n");
    let target = target.map(|name| name.parse().expect("a target"));
    let mut found = Vec::new();
    let subjects: Vec<_> = [&runtime, &stranger]
        .map(|library| audit::audit(&Elf::open(&library.path).expect("opens"), target, &mut Vec::new()).expect("scanned"))
        .into();
    let environment = [("PATH", "/usr/bin"), (variable, value)].map(|(name, value)| (name.to_string(), value.to_string()));
    audit::note_overrides(environment.into_iter(), target, &subjects, &mut found);
    found
}

#[test]
fn a_plain_scan_says_what_an_override_would_do() {
    for (variable, value, target, severity, says) in [
        ("HSA_OVERRIDE_GFX_VERSION", "9.4.2", None, Severity::Note, "every device would be taken for gfx942; libhsa-runtime64.so.1 registers gfx942"),
        (
            "HSA_OVERRIDE_GFX_VERSION_2",
            "12.5.0",
            None,
            Severity::Note,
            "KFD node 2 would be taken for gfx1250; libhsa-runtime64.so.1 does not register gfx1250",
        ),
        ("HSA_OVERRIDE_GFX_VERSION", "11.0.0", Some("gfx1151"), Severity::Note, "libhsa-runtime64.so.1 registers gfx1100"),
        ("HSA_OVERRIDE_GFX_VERSION", "11.0.0", Some("gfx942"), Severity::Warn, "pretend to be of another generation"),
        ("HSA_OVERRIDE_GFX_VERSION", "11.0", None, Severity::Warn, "fails to start"),
        ("HSA_OVERRIDE_GFX_VERSION", "9.255.255", None, Severity::Warn, "the version of no target"),
    ] {
        let found = notes(variable, value, target);
        assert_eq!(found.len(), 1, "{variable}={value}: {found:?}");
        assert_eq!((found[0].severity, found[0].symbol.as_deref()), (severity, Some(variable)), "{value}");
        assert!(found[0].message.contains(says), "{value}: {}", found[0].message);
        assert!(!found[0].message.contains("libother"), "no runtime, no word about it: {}", found[0].message);
    }
    assert!(notes("HSA_OVERRIDE_GFX", "9.4.2", None).is_empty());
}

#[test]
fn what_is_no_runtime_is_said_to_be_none() {
    let stranger = StandIn::compile("libother.so.1", "int other(void){return 0;}\n");
    let mut found = Vec::new();
    audit::audit(&Elf::open(&stranger.path).expect("opens"), None, &mut found).expect("scanned");
    assert_eq!(found.iter().map(|finding| finding.check).collect::<Vec<_>>(), ["not-a-runtime"]);
}

#[test]
fn a_registry_that_cannot_be_read_is_a_finding() {
    let bare: Vec<_> = TARGETS.into_iter().map(String::from).collect();
    for (list, expected) in [(bare, &["no-registry"][..]), (ids(&TARGETS), &[])] {
        let library = StandIn::rocr(&array("table", &list));
        let mut found = Vec::new();
        audit::audit(&Elf::open(&library.path).expect("opens"), None, &mut found).expect("scanned");
        assert_eq!(found.iter().map(|finding| finding.check).collect::<Vec<_>>(), expected);
    }
}
