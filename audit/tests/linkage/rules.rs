//! Every linkage rule fires on its fixtures and is silent on the clean ones; every case of `fixtures/cases` is judged as its source says.

use std::collections::BTreeSet;

use super::fixture::{Fixture, audit, policy, root, verdict};
use vrocm_audit::finding::Severity;
use vrocm_audit::linkage::RULES;

#[test]
fn every_rule_has_a_fixture_on_which_it_fires() {
    let fixtures = Fixture::all_below(&root().join("fixtures/linkage"));
    let ids: BTreeSet<&str> = RULES.iter().map(|rule| rule.check.id).collect();
    let mut proven = BTreeSet::new();
    for fixture in &fixtures {
        let folder = fixture.folder();
        if folder == "clean" {
            continue;
        }
        assert!(ids.contains(folder.as_str()), "fixtures/linkage/{folder} is named after no rule");
        let fires = fixture.fires();
        assert!(fires.iter().any(|fires| fires.rule == folder), "{} does not say that {folder} fires", fixture.name());
        proven.insert(folder);
    }
    let unproven: Vec<&&str> = ids.iter().filter(|id| !proven.contains(**id)).collect();
    assert!(unproven.is_empty(), "no fixture in fixtures/linkage/ for {unproven:?}");
}

/// What a fixture does not name must not be found, notes apart: so each rule is silent on the fixtures of all others as well.
#[test]
fn each_fixture_finds_what_it_says_and_nothing_else() {
    check(&Fixture::all_below(&root().join("fixtures/linkage")));
}

#[test]
fn each_case_is_judged_as_it_says() {
    check(&Fixture::all_below(&root().join("fixtures/cases")));
}

fn check(fixtures: &[Fixture]) {
    assert!(!fixtures.is_empty());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut wrong = Vec::new();
    for fixture in fixtures {
        let file = fixture.build(folder.path());
        let list = fixture.list();
        let (subject, findings) = audit(&file, &policy(&fixture.policy_keys()), list.as_ref());
        let fires = fixture.fires();
        let shown = || {
            findings.iter().map(|found| format!("    {} {}: {}", found.severity.word(), found.check, found.message)).collect::<Vec<_>>().join("\n")
        };
        for expected in &fires {
            let fits = |found: &&vrocm_audit::finding::Finding| {
                found.check == expected.rule && found.severity == expected.severity && found.message.contains(&expected.text)
            };
            if !findings.iter().any(|found| fits(&found)) {
                wrong.push(format!(
                    "{}: {} {}: {} is not found\n{}",
                    fixture.name(),
                    expected.severity.word(),
                    expected.rule,
                    expected.text,
                    shown()
                ));
            }
        }
        let announced = |id: &str, severity| fires.iter().any(|fires| fires.rule == id && fires.severity == severity);
        for found in findings.iter().filter(|found| found.severity > Severity::Note && !announced(found.check, found.severity)) {
            wrong.push(format!("{}: unannounced {} {}: {}", fixture.name(), found.severity.word(), found.check, found.message));
        }
        for (keys, expected) in fixture.judgements() {
            let (_, findings) = audit(&file, &policy(&keys), list.as_ref());
            if verdict(&findings) != expected {
                wrong.push(format!("{}: {} under {keys}, not {expected}", fixture.name(), verdict(&findings)));
            }
        }
        for (namespace, number) in fixture.floors() {
            if subject.floors.get(&namespace) != Some(&number) {
                wrong.push(format!("{}: floors are {:?}", fixture.name(), subject.floors));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
