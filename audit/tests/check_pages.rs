//! `docs/checks/` is made from the checks' own texts. `UPDATE_DOCS=1 cargo test -p vrocm-audit --test check_pages` rewrites it.

use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs};

use vrocm_audit::commands::checks;
use vrocm_audit::coverage::Label;
use vrocm_audit::evidence::Verdict;
use vrocm_audit::finding::{Check, page};
use vrocm_audit::gfx::verdict::Reason;
use vrocm_audit::manifest::explain::{Remedy, Texts};
use vrocm_audit::manifest::{Action, Class, Family, beyond, beyond_preload};

fn pages() -> BTreeMap<String, String> {
    let mut pages = BTreeMap::new();
    let texts = Texts::embedded().expect("good data");
    for check in checks() {
        let paste = texts.remedy(check.id).map(Remedy::lines).unwrap_or_default();
        assert!(pages.insert(format!("{}.md", check.id), page(check, &paste)).is_none(), "two checks are called {}", check.id);
    }
    let row = |check: &Check| format!("| [{0}]({0}.md) | {1} | {2} |\n", check.id, check.severity.word(), check.what);
    let mut rows: Vec<String> = checks().map(row).collect();
    rows.sort();
    let head = "# Checks\n\nEach page is made from the text that `vrocm-audit explain` prints; do not edit them by hand.\n\n| check | severity | what is checked |\n|---|---|---|\n";
    let mut readme = head.to_string() + &rows.concat();
    readme += "\n## What no preload closes\n\nNo checks: `coverage` and `gate` name them, `docs/DOORS.md` has the list.\n\n| way | what is done | found in a program by |\n|---|---|---|\n";
    for way in beyond::entries().expect("good data") {
        let finders: Vec<String> = way.found_by.iter().map(|finder| format!("{} [{1}]({1}.md)", finder.command, finder.check)).collect();
        let finders = if finders.is_empty() { "-".into() } else { finders.join(", ") };
        readme += &format!("| [{0}]({0}.md) | {1} | {finders} |\n", way.id, way.what);
        assert!(pages.insert(format!("{}.md", way.id), way.page()).is_none(), "{} is a check, too", way.id);
    }
    pages.insert("README.md".into(), readme);
    pages
}

#[test]
fn pages_are_those_of_the_checks() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/checks");
    let pages = pages();
    if env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("docs/ is writable");
        for (name, text) in &pages {
            fs::write(folder.join(name), text).expect("docs/checks/ is writable");
        }
    }
    let entries = fs::read_dir(&folder).expect("docs/checks/ is part of the checkout");
    let found: BTreeMap<String, String> = entries
        .map(|entry| entry.expect("readable").path())
        .map(|path| (path.file_name().unwrap_or_default().to_string_lossy().into_owned(), fs::read_to_string(path).expect("text")))
        .collect();
    let differ: Vec<&String> = pages.keys().chain(found.keys()).filter(|name| pages.get(*name) != found.get(*name)).collect();
    assert!(differ.is_empty(), "docs/checks/ is not what the checks say, rewrite it with UPDATE_DOCS=1: {differ:?}");
}

#[test]
fn texts_are_whole() {
    for check in checks() {
        assert!(check.id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{}", check.id);
        for text in [check.what, check.why, check.fix, check.source] {
            assert!(!text.trim().is_empty() && text.trim() == text, "{}: {text:?}", check.id);
        }
    }
}

#[test]
fn remedies_are_for_checks_and_words_are_none() {
    let texts = Texts::embedded().expect("good data");
    for remedy in &texts.remedies {
        assert!(checks().any(|check| check.id == remedy.check), "{} is no check", remedy.check);
    }
    for word in &texts.words {
        assert!(checks().all(|check| check.id != word.word), "{} is a check: its word is never reached", word.word);
    }
}

/// Whatever word stands in a report, `explain` knows it: labels, verdicts, actions, classes, reasons.
#[test]
fn every_word_of_a_report_is_explained() {
    let texts = Texts::embedded().expect("good data");
    let mut words: Vec<&str> = Label::ALL.map(Label::word).into();
    words.extend(Verdict::ALL.map(Verdict::word));
    words.extend([Action::Charge, Action::Refund, Action::Report, Action::HandOut, Action::Pass].map(Action::word));
    words.extend(
        [
            Reason::Registered,
            Reason::NotRegistered,
            Reason::LegacyNameOnly,
            Reason::FeatureNotRegistered,
            Reason::NotEnabled,
            Reason::NameAbsent,
            Reason::Contradiction,
            Reason::NoRegistry,
            Reason::TooFewNames,
            Reason::GenericOnly,
            Reason::NotRocr,
            Reason::NoSuchTarget,
            Reason::Disagreement,
        ]
        .map(Reason::word),
    );
    for word in words {
        assert!(checks().any(|check| check.id == word) || texts.word(word).is_some(), "{word}: explain does not know it");
    }
    for class in Class::ALL {
        assert!(texts.word(class.word()).is_none() && checks().all(|check| check.id != class.word()), "{class} means two things");
    }
}

/// What no preload closes: the table that reports read is that of the entries, and an id means nothing else.
#[test]
fn ways_that_no_preload_closes_are_explained() {
    let (entries, texts) = (beyond::entries().expect("good data"), Texts::embedded().expect("good data"));
    let families = Family::embedded().expect("good data");
    assert_eq!(
        beyond_preload().iter().map(|way| (way.id, way.what)).collect::<Vec<_>>(),
        entries.iter().map(|entry| (entry.id.as_str(), entry.what.as_str())).collect::<Vec<_>>()
    );
    assert!(texts.word("beyond-preload").is_some());
    for entry in &entries {
        let id = entry.id.as_str();
        assert!(id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{id}");
        assert!(texts.word(id).is_none() && Class::ALL.iter().all(|class| class.word() != id), "{id} means two things");
        assert!(families.iter().all(|family| family.row(id).is_none()), "{id} is an export");
        for name in &entry.families {
            assert!(families.iter().any(|family| family.name() == name), "{id}: {name} is no family");
        }
        for finder in &entry.found_by {
            assert!(checks().any(|check| check.id == finder.check), "{id}: {} is no check", finder.check);
            assert!(["bindings", "consumers"].contains(&finder.command.as_str()), "{id}: {} looks at no program", finder.command);
        }
        let printed = std::process::Command::new(env!("CARGO_BIN_EXE_vrocm-audit")).args(["explain", id]).output().expect("it runs");
        let printed = String::from_utf8(printed.stdout).expect("text");
        assert!(printed.starts_with(&format!("{id} (no preload closes it)\n")), "{printed}");
        for text in [&entry.what, &entry.why, &entry.fix].into_iter().chain(entry.evidence.iter().map(|item| &item.says)) {
            assert!(printed.contains(text.as_str()), "{id}: explain leaves out {text}");
        }
    }
}

/// `docs/DOORS.md` has the same list, with the same words.
#[test]
fn the_doors_that_stay_open_are_those_of_the_data() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/DOORS.md")).expect("text");
    let section = text.split("\n## ").find(|section| section.starts_with("What stays open")).expect("the section");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |"));
    let doors: Vec<Vec<&str>> = rows.map(|row| row.splitn(3, " | ").map(|cell| cell.trim_matches('`')).collect()).collect();
    let entries = beyond::entries().expect("good data");
    let data: Vec<Vec<&str>> = entries.iter().map(|entry| vec![entry.id.as_str(), &entry.what, &entry.why]).collect();
    assert_eq!(doors, data);
}
