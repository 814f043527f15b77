//! The manifests themselves, and that bad ones are refused by file, entry and rule.

use vrocm_audit::manifest::{Acceptances, Class, ClassTable, Family, Release, builds, schema};

fn families() -> Vec<Family> {
    Family::embedded().expect("the manifests inside the program")
}

fn hip() -> Family {
    families().into_iter().find(|family| family.name() == "hip").expect("hip")
}

#[test]
fn every_export_of_every_known_build_is_classified_and_no_entry_is_for_nothing() {
    for family in families() {
        assert!(family.builds.len() >= 4, "{}", family.name());
        for build in family.builds {
            for export in build.exports() {
                assert!(family.row(export.name).is_some(), "{} {} has no judgement", build.release, export.name);
            }
        }
        for row in family.rows() {
            assert!(
                family.builds.iter().any(|build| build.exports().any(|export| export.name == row.name)),
                "{} is exported by no known build",
                row.name
            );
            let judgement = family.judgement(row.name).expect("parses").expect("is there");
            assert_eq!((judgement.name.as_str(), judgement.class), (row.name, row.class), "the span in the text is that of the entry");
            for checked in judgement.checked.iter().chain(judgement.by_version.iter().flat_map(|other| &other.versions)) {
                let build = family.builds.iter().find(|build| build.release == *checked).expect("a known build");
                assert!(build.exports().any(|export| export.name == row.name), "{} names {checked}, which does not export it", row.name);
            }
        }
    }
    assert_eq!(families().iter().map(|family| family.rows().len()).collect::<Vec<_>>(), [552, 260]);
}

#[test]
fn a_class_holds_for_its_release_and_the_stricter_one_in_between() {
    let (hip, table) = (hip(), ClassTable::embedded().expect("the table"));
    let judge = |release: Option<&str>| {
        let release = release.map(|text| text.parse::<Release>().expect("a release"));
        let judged = hip.judge("hipHostAlloc", release, &table).expect("a judgement");
        (judged.class, judged.strictest)
    };
    // Device memory up to 5.7.1, host memory from 6.4.3 on.
    assert_eq!(judge(Some("5.2.3")), (Class::DeviceAlloc, false));
    assert_eq!(judge(Some("5.7")), (Class::DeviceAlloc, false));
    assert_eq!(judge(Some("6.4.3")), (Class::HostAlloc, false));
    assert_eq!(judge(Some("7.2.4")), (Class::HostAlloc, false));
    assert_eq!(judge(Some("6.0.2")), (Class::DeviceAlloc, true), "between two that differ");
    assert_eq!(judge(Some("5.4")), (Class::DeviceAlloc, false), "between two that agree");
    assert_eq!(judge(Some("4.5")), (Class::DeviceAlloc, false), "older than all");
    assert_eq!(judge(Some("9.0")), (Class::HostAlloc, false), "newer than all");
    assert_eq!(judge(None), (Class::DeviceAlloc, true), "unknown");
    assert!(hip.judge("hipNoSuchThing", None, &table).is_none());
}

/// A `classes.json` with one entry, in which a part is replaced.
fn classes(from: &str, to: &str) -> Result<schema::ClassesFile, schema::BadManifest> {
    let good = "{\n\"schema_version\": 1,\n\"family\": \"hip\",\n\"releases\": [\"5.7.1\", \"6.4.3\"],\n\"exports\": [\n\
        {\"name\": \"hipA\", \"class\": \"indirect-alloc\", \"size\": \"caller\", \"decides\": \"the caller\", \"by_version\": [{\"versions\": [\"5.7.1\"], \"class\": \"other\", \"evidence\": [{\"kind\": \"source\", \"at\": \"a\", \"says\": \"b\"}]}], \"checked\": [\"5.7.1\", \"6.4.3\"], \"evidence\": [{\"kind\": \"source\", \"at\": \"a\", \"says\": \"b\"}]},\n\
        {\"name\": \"hipB\", \"class\": \"free\", \"undoes\": \"device\", \"checked\": [\"6.4.3\"], \"evidence\": [{\"kind\": \"header\", \"at\": \"a\", \"says\": \"b\"}]}\n]\n}\n";
    assert!(from.is_empty() || good.contains(from), "{from} is part of the entry");
    schema::read_classes("x/classes.json", &good.replacen(from, to, 1))
}

#[test]
fn a_judgement_that_breaks_a_rule_is_refused() {
    assert_eq!(classes("", "").expect("the good one").exports.len(), 2);
    for (from, to, entry, rule) in [
        ("\"schema_version\": 1", "\"schema_version\": 2", "schema_version", "reads version 1"),
        ("\"size\": \"caller\", ", "", "hipA", "`size`"),
        ("\"decides\": \"the caller\", ", "", "hipA", "`decides`"),
        ("\"undoes\": \"device\", ", "", "hipB", "`undoes`"),
        ("\"class\": \"free\"", "\"class\": \"freed\"", "line 7", "unknown variant"),
        ("\"name\": \"hipB\"", "\"name\": \"hipA\"", "hipA", "twice"),
        ("\"name\": \"hipA\"", "\"name\": \"hipZ\"", "hipB", "not sorted"),
        ("\"checked\": [\"6.4.3\"]", "\"checked\": []", "hipB", "at least one release"),
        ("\"checked\": [\"6.4.3\"]", "\"checked\": [\"9.9\"]", "hipB", "not among"),
        ("\"versions\": [\"5.7.1\"]", "\"versions\": []", "hipA", "at least one release"),
        ("\"versions\": [\"5.7.1\"]", "\"versions\": [\"5.7.1\", \"5.7.1\"]", "hipA", "twice"),
        ("\"class\": \"other\"", "\"class\": \"indirect-alloc\", \"size\": \"caller\"", "hipA", "differs"),
        ("\"at\": \"a\"", "\"at\": \" \"", "hipA", "evidence"),
        ("\"releases\": [\"5.7.1\", \"6.4.3\"]", "\"releases\": [\"6.4.3\", \"5.7.1\"]", "releases", "oldest first"),
        ("\"class\": \"free\"", "\"colour\": 1, \"class\": \"free\"", "line 7", "unknown field"),
    ] {
        let bad = classes(from, to).expect_err(to);
        assert_eq!(bad.file, "x/classes.json");
        assert!(bad.entry.starts_with(entry) && bad.rule.contains(rule), "{to}: {bad}");
    }
}

#[test]
fn an_entry_that_is_not_on_its_own_line_is_refused() {
    let entry = |name: &str| {
        format!(
            "{{\"name\": \"{name}\", \"class\": \"other\", \"checked\": [\"1.0\"], \"evidence\": [{{\"kind\": \"source\", \"at\": \"a\", \"says\": \"b\"}}]}}"
        )
    };
    let file = |between: &str| {
        format!("{{\"schema_version\": 1, \"family\": \"x\", \"releases\": [\"1.0\"], \"exports\": [\n{},{between}{}\n]}}", entry("a"), entry("b"))
    };
    assert_eq!(schema::rows("x", &file("\n")).expect("one entry a line").len(), 2);
    assert!(schema::rows("x", &file(" ")).expect_err("two entries in a line").rule.contains("line of its own"));
}

#[test]
fn the_table_of_classes_answers_for_every_class() {
    let text = std::fs::read_to_string("../manifests/classes.json").expect("readable");
    assert!(ClassTable::read("t", &text).is_ok());
    let without = |needle: &str| text.lines().filter(|line| !line.contains(needle)).collect::<Vec<_>>().join("\n");
    for needle in ["\"class\": \"free\"", "\"size\": \"caller\"", "\"class\": \"launch\""] {
        assert!(ClassTable::read("t", &without(needle)).is_err(), "{needle}");
    }
    let passing = text.replacen("\"actions\": [\"charge\"]", "\"actions\": [\"charge\", \"pass\"]", 1);
    assert!(ClassTable::read("t", &passing).expect_err("a class that must be held").rule.contains("passing a call on"));
    let both = text.replacen("\"must_interpose\": true,", "\"must_interpose\": true, \"accepted\": true,", 1);
    assert!(ClassTable::read("t", &both).is_err());
}

#[test]
fn an_export_list_is_checked() {
    let good = std::fs::read_to_string("../manifests/hsa/exports/7.2.4.json").expect("readable");
    assert_eq!(builds::known_build("l", &good).expect("good").exports().count(), 260);
    for (from, to) in [
        ("\"release\": \"7.2.4\"", "\"release\": \"seven\""),
        ("\"hsa_agent_get_info\"", "\"zzz\""),
        ("\"schema_version\": 1", "\"schema_version\": 7"),
        ("\"node\": null", ""),
    ] {
        if good.contains(from) {
            assert!(builds::known_build("l", &good.replacen(from, to, 1)).is_err(), "{to}");
        }
    }
}

#[test]
fn our_own_acceptances_are_readable() {
    assert!(Acceptances::embedded().is_ok());
}

/// The schema of one kind of file.
fn schema_of(kind: &str) -> jsonschema::Validator {
    let text = std::fs::read_to_string("../docs/manifests.schema.json").expect("the schema");
    let mut whole: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let schema = whole.as_object_mut().expect("an object");
    schema.remove("anyOf");
    schema.insert("$ref".into(), format!("#/$defs/{kind}").into());
    jsonschema::validator_for(&whole).expect("a schema")
}

#[test]
fn the_files_keep_the_published_schema() {
    let mut files = vec![
        ("class-table", "classes.json".to_string()),
        ("accepted", "accepted.json".into()),
        ("beyond", "beyond.json".into()),
        ("interposed", "interposed-reference.json".into()),
    ];
    for family in families() {
        let name = family.name();
        files.push(("family", format!("{name}/family.json")));
        files.push(("classes", format!("{name}/classes.json")));
        files.extend(family.builds.iter().map(|build| ("exports", format!("{name}/exports/{}.json", build.release))));
        files.push(("hints", format!("{name}/evidence.json")));
        files.extend(family.readings().expect("readings").iter().map(|reading| ("reading", format!("{name}/readings/{}.json", reading.release))));
    }
    assert!(files.len() > 10);
    for (kind, file) in files {
        let text = std::fs::read_to_string(format!("../manifests/{file}")).unwrap_or_else(|error| panic!("{file}: {error}"));
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let errors: Vec<String> = schema_of(kind).iter_errors(&value).map(|error| format!("{}: {error}", error.instance_path())).take(3).collect();
        assert!(errors.is_empty(), "{file}: {errors:?}");
        // And the schema of another kind refuses it.
        let other = if kind == "family" { "accepted" } else { "family" };
        assert!(!schema_of(other).is_valid(&value), "{file} passes as {other}");
    }
}

#[test]
fn a_family_from_a_folder_is_read_like_those_inside() {
    let loaded = Family::load(std::path::Path::new("../manifests/hsa")).expect("the folder");
    assert_eq!((loaded.name(), loaded.rows().len(), loaded.builds.len()), ("hsa", 260, 4));
    let folder = tempfile::tempdir().expect("a temporary folder");
    assert!(Family::load(folder.path()).expect_err("an empty folder").file.contains("family.json"));
}

#[test]
fn one_pass_over_sorted_names_finds_the_rows_that_a_search_finds() {
    for family in families() {
        for build in family.builds {
            // Strangers before, between and after, and a name twice.
            let mut names: Vec<String> = build.exports().map(|export| export.name.to_string()).collect();
            names.extend(names.iter().step_by(7).map(|name| format!("{name}_")).collect::<Vec<_>>());
            names.extend([String::new(), "A".into(), "~".into(), names[names.len() / 2].clone()]);
            names.sort();
            let rows: Vec<_> = family.rows_of(names.iter().map(String::as_str)).collect();
            let searched: Vec<_> = names.iter().map(|name| family.row(name)).collect();
            assert_eq!(rows, searched, "{} {}", family.name(), build.release);
            assert!(rows.iter().flatten().count() > build.exports().count() && rows.iter().any(Option::is_none));
        }
    }
}
