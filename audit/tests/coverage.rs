//! `coverage` as a user runs it: labels that add up, what holds from beneath, acceptances, and inputs that cannot be audited.

mod support;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use support::{Outcome, audit, library, stub};

/// A runtime whose device memory comes from two imports of the family beneath; both are bound by name.
const TWO_LAYERS: &str = "
int hsa_amd_memory_pool_allocate(void), hsa_amd_memory_pool_free(void);
int hipMalloc(void){return hsa_amd_memory_pool_allocate();} int hipFree(void){return hsa_amd_memory_pool_free();}
int hipGetDeviceCount(void){return 0;} int hipMallocManaged(void){return 0;} int hipMemGetInfo(void){return 0;}";
const NODES: &str = "hip_4.2 { global: hip*; local: *; };";

fn text(path: &Path) -> &str {
    path.to_str().expect("a readable path")
}

#[test]
fn the_lists_inside_the_program_add_up() {
    let outcome = audit(&["coverage", "--interposed", "../manifests/interposed-reference.json"]);
    assert_eq!(outcome.exit, 1);
    let subjects = outcome.report["subjects"].as_array().expect("subjects");
    let of = |family: &str, key: &str| -> Vec<u64> {
        let of_family = subjects.iter().filter(|subject| subject["family"] == family);
        of_family
            .map(|subject| {
                subject.pointer(key).map_or(0, |value| value.as_u64().unwrap_or_else(|| value.as_array().map_or(0, |list| list.len() as u64)))
            })
            .collect()
    };
    assert_eq!(of("hip", "/denominators/exports"), [409, 459, 502, 525]);
    assert_eq!(of("hsa", "/denominators/exports"), [224, 244, 256, 260]);
    assert_eq!(of("hip", "/reentry"), [13, 11, 7, 6]);
    assert_eq!(of("hip", "/labels/unclassified"), [0; 4]);
    assert_eq!(of("hsa", "/labels/unclassified"), [0; 4]);
    for subject in subjects {
        let sum = |values: &Value| values.as_object().expect("labels").values().filter_map(Value::as_u64).sum::<u64>();
        let exports = subject["exports"].as_array().expect("exports");
        assert_eq!(sum(&subject["labels"]), exports.len() as u64, "{}", subject["file"]);
        let by_class: u64 = subject["by_class"].as_object().expect("classes").values().map(sum).sum();
        assert_eq!(by_class, subject["denominators"]["must_interpose"].as_u64().expect("a count"), "{}", subject["file"]);
    }
}

#[test]
fn the_reference_list_leaves_the_known_doors_open_and_more() {
    let outcome = audit(&["coverage", "--interposed", "../manifests/interposed-reference.json"]);
    // Recorded as open by those who wrote it, and doors of the same kinds that were not.
    for door in [
        "hipGraphAddMemAllocNode",
        "hipGraphAddNode",
        "hipGraphLaunch",
        "hipGetProcAddress",
        "hipGetDriverEntryPoint",
        "hipMipmappedArrayCreate",
        "hipModuleLoad",
        "hipDeviceGetAttribute",
    ] {
        assert!(outcome.found("open-door", door), "{door} is open");
    }
    for held in ["hipMalloc", "hipMalloc3D", "hipMemCreate", "hipMemAllocPitch", "hipArrayCreate", "hipArray3DCreate"] {
        assert!(!outcome.found("open-door", held), "{held} is held");
    }
    assert!(
        outcome.found("idle-row", "hipHostMalloc") && outcome.found("idle-row", "hipMemPoolImportPointer"),
        "two allocators are only passed through"
    );
    assert!(outcome.found("action-mismatch", "hipHostFree") && !outcome.found("action-mismatch", "hipFree"));
}

/// Whatever is held, what no preload closes is named, for the families that were audited; it is no finding.
#[test]
fn what_no_preload_closes_is_named() {
    let ways = |arguments: &[&str]| -> (i32, BTreeSet<String>) {
        let outcome = audit(arguments);
        let ways = outcome.report["beyond_preload"].as_array().expect("ways").iter();
        (outcome.exit, ways.map(|way| way["id"].as_str().expect("an id").to_string()).collect())
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path();
    let hsa = stub(dir, "libhsa-runtime64.so.1", &["hsa_amd_memory_pool_allocate", "hsa_init", "hsa_iterate_agents"], None, &["-nostdlib"]);
    let hip = stub(dir, "libamdhip64.so.7", &["hipFree", "hipGetDeviceCount", "hipMalloc", "hipMallocManaged"], Some(NODES), &["-nostdlib"]);
    let (list, none) = (dir.join("names.txt"), dir.join("none.txt"));
    std::fs::write(&list, "hipFree\nhipMalloc\nhipMallocManaged\n").expect("written");
    std::fs::write(&none, "hipNone\n").expect("written");
    let (clean, of_hip) = ways(&["coverage", text(&hip), "--interposed", text(&list)]);
    let (_, of_hsa) = ways(&["coverage", text(&hsa), "--interposed", text(&list)]);
    let (open, the_same) = ways(&["coverage", text(&hip), "--interposed", text(&none)]);
    assert_eq!((clean, open), (0, 1), "a way is no finding, and hides none");
    assert_eq!(of_hip, the_same, "whatever the shim holds");
    assert!(of_hip.contains("dlmopen") && of_hip.contains("kernel-malloc") && of_hip.is_superset(&of_hsa));
    assert!(!of_hsa.contains("kernel-malloc"), "{of_hsa:?}");
    for (format, sign) in
        [("text", "no preload closes: deepbind-constructors dlmopen "), ("markdown", "No preload closes: "), ("html", ">dlmopen</abbr>")]
    {
        let arguments = ["coverage", text(&hip), "--interposed", text(&list), "--format", format];
        let done = Command::new(env!("CARGO_BIN_EXE_vrocm-audit")).args(arguments).output().expect("the program runs");
        assert!(String::from_utf8_lossy(&done.stdout).contains(sign), "{format}");
    }
}

#[test]
fn an_export_that_nobody_has_classified_fails() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path();
    let runtime = stub(
        dir,
        "libamdhip64.so.9",
        &["hipMalloc", "hipFree", "hipGetDeviceCount", "hipMallocTomorrow"],
        Some(NODES),
        &["-Wl,-soname,libamdhip64.so.9"],
    );
    let shim = stub(dir, "shim.so", &["hipMalloc", "hipFree"], None, &[]);
    let outcome = audit(&["coverage", text(&runtime), "--shim", text(&shim)]);
    assert_eq!(outcome.exit, 1);
    assert!(outcome.found("unclassified", "hipMallocTomorrow") && !outcome.found("unclassified", "hipMalloc"));
    assert_eq!(outcome.export("hipMallocTomorrow")["class"], Value::Null);
    // A wrapper for it changes nothing: what it has to hold is unknown.
    let shim = stub(dir, "shim.so", &["hipMalloc", "hipFree", "hipMallocTomorrow"], None, &[]);
    assert_eq!(audit(&["coverage", text(&runtime), "--shim", text(&shim)]).export("hipMallocTomorrow")["label"], "unclassified");
}

/// Audits the two-layer runtime (or what `source` makes of it) against a shim with these names.
fn two_layers(source: &str, shim_names: &[&str], shim_map: Option<&str>) -> Outcome {
    two_layers_accepting(source, shim_names, shim_map, "")
}

/// The same, with acceptances.
fn two_layers_accepting(source: &str, shim_names: &[&str], shim_map: Option<&str>, acceptances: &str) -> Outcome {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path();
    stub(
        dir,
        "libhsa-runtime64.so.1",
        &["hsa_amd_memory_pool_allocate", "hsa_amd_memory_pool_free", "hsa_amd_memory_unlock", "hsa_brand_new"],
        Some("ROCR_1 { global: hsa*; local: *; };"),
        &["-Wl,-soname,libhsa-runtime64.so.1"],
    );
    let runtime = library(dir, source, "libamdhip64.so.7", Some(NODES), &["-Wl,-soname,libamdhip64.so.7", "./libhsa-runtime64.so.1"]);
    let shim = stub(dir, "shim.so", shim_names, shim_map, &[]);
    let file = dir.join("accept.json");
    std::fs::write(&file, format!("{{\"schema_version\": 1, \"accepted\": [{acceptances}]}}")).expect("written");
    audit(&["coverage", text(&runtime), "--shim", text(&shim), "--accept", text(&file)])
}

#[test]
fn a_free_beneath_may_be_left_open_and_an_allocator_may_not() {
    let free = r#"{"family": "hsa", "export": "hsa_amd_memory_pool_free", "reason": "frees nothing that was charged", "since": "2026-01-01"}"#;
    let outcome = two_layers_accepting(TWO_LAYERS, &["hsa_amd_memory_pool_allocate"], None, free);
    assert_eq!(outcome.export("hipMalloc")["label"], "covered-below");
    assert_eq!(outcome.report["subjects"][0]["beneath"]["accepted"], serde_json::json!(["hsa_amd_memory_pool_free"]));
    assert!(!outcome.found("stale-acceptance", "hsa_amd_memory_pool_free"), "it is used");
    let allocator = free.replace("hsa_amd_memory_pool_free", "hsa_amd_memory_pool_allocate");
    let outcome = two_layers_accepting(TWO_LAYERS, &["hsa_amd_memory_pool_free"], None, &allocator);
    assert_eq!(outcome.export("hipMalloc")["label"], "open");
    let ended = free.replace('}', ", \"until\": \"2026-01-02\"}");
    let outcome = two_layers_accepting(TWO_LAYERS, &["hsa_amd_memory_pool_allocate"], None, &ended);
    assert_eq!(outcome.export("hipMalloc")["label"], "open", "an acceptance that has ended excuses nothing");
}

#[test]
fn what_every_sink_holds_is_covered_below() {
    let outcome = two_layers(TWO_LAYERS, &["hsa_amd_memory_pool_allocate", "hsa_amd_memory_pool_free"], None);
    assert_eq!(outcome.export("hipMalloc")["label"], "covered-below");
    assert_eq!(outcome.export("hipFree")["label"], "covered-below");
    // Managed memory and the reported size do not pass there.
    assert_eq!(outcome.export("hipMallocManaged")["label"], "open");
    assert_eq!(outcome.export("hipMemGetInfo")["label"], "open");
}

#[test]
fn a_sink_that_gives_back_host_memory_need_not_be_held() {
    let unlock = format!("int hsa_amd_memory_unlock(void); int hipInit(void){{return hsa_amd_memory_unlock();}}{TWO_LAYERS}");
    let outcome = two_layers(&unlock, &["hsa_amd_memory_pool_allocate", "hsa_amd_memory_pool_free"], None);
    assert_eq!(outcome.export("hipMalloc")["label"], "covered-below");
}

#[test]
fn what_is_taken_elsewhere_is_not_covered_below() {
    let limit = format!("int hipDeviceSetLimit(void){{return 0;}}{TWO_LAYERS}");
    let outcome = two_layers(&limit, &["hsa_amd_memory_pool_allocate", "hsa_amd_memory_pool_free"], None);
    assert_eq!(
        (outcome.export("hipMalloc")["label"].as_str(), outcome.export("hipDeviceSetLimit")["label"].as_str()),
        (Some("covered-below"), Some("open"))
    );
}

#[test]
fn one_sink_short_and_nothing_is_covered_below() {
    let open = |outcome: &Outcome| outcome.export("hipMalloc")["label"] == "open";
    assert!(open(&two_layers(TWO_LAYERS, &["hsa_amd_memory_pool_allocate"], None)), "the free is not held");
    assert!(open(&two_layers(TWO_LAYERS, &["hsa_amd_memory_pool_free"], None)), "the allocator is not held");
    let own_node = Some("V1 { global: *; };");
    assert!(
        open(&two_layers(TWO_LAYERS, &["hsa_amd_memory_pool_allocate", "hsa_amd_memory_pool_free"], own_node)),
        "the shim's own node does not bind"
    );
    let stranger = format!("int hsa_brand_new(void); int hipInit(void){{return hsa_brand_new();}}{TWO_LAYERS}");
    assert!(open(&two_layers(&stranger, &["hsa_amd_memory_pool_allocate", "hsa_amd_memory_pool_free"], None)), "an import that no manifest knows");
}

#[test]
fn without_sinks_nothing_is_covered_below() {
    let source = "int hipMalloc(void){return 0;} int hipFree(void){return 0;} int hipGetDeviceCount(void){return 0;}";
    let outcome = two_layers(source, &["hsa_amd_memory_pool_allocate", "hsa_amd_memory_pool_free"], None);
    assert_eq!(outcome.export("hipMalloc")["label"], "open");
    assert!(outcome.report["subjects"][0]["beneath"]["because"].as_str().expect("a reason").contains("no known allocator"));
}

/// A runtime that only gives back beneath takes its memory from somewhere else.
#[test]
fn a_free_alone_is_no_sink() {
    let source = "int hsa_amd_memory_pool_free(void); int hipMalloc(void){return 0;} int hipFree(void){return hsa_amd_memory_pool_free();} int hipInit(void){return 0;}
        int hipGetDeviceCount(void){return 0;}";
    let outcome = two_layers(source, &["hsa_amd_memory_pool_allocate", "hsa_amd_memory_pool_free"], None);
    assert_eq!(outcome.export("hipMalloc")["label"], "open");
    assert!(outcome.report["subjects"][0]["beneath"]["because"].as_str().expect("a reason").contains("no known allocator"));
}

/// Called, asked for its address by code, or named by a table: a preload gets all three.
#[test]
fn each_way_to_bind_a_sink_is_one() {
    let free =
        "int hsa_amd_memory_pool_allocate(void), hsa_amd_memory_pool_free(void); int hipInit(void){return 0;} int hipGetDeviceCount(void){return 0;}
        int hipFree(void){return hsa_amd_memory_pool_free();}";
    for way in [
        "int hipMalloc(void){return hsa_amd_memory_pool_allocate();}",
        "void *hipMalloc(void){return hsa_amd_memory_pool_allocate;}",
        "static void *table[] = {hsa_amd_memory_pool_allocate}; void *hipMalloc(void){return table;}",
    ] {
        let outcome = two_layers(&format!("{free} {way}"), &["hsa_amd_memory_pool_allocate", "hsa_amd_memory_pool_free"], None);
        assert_eq!(outcome.export("hipMalloc")["label"], "covered-below", "{way}");
        let held = &outcome.report["subjects"][0]["beneath"]["held"];
        assert_eq!(*held, serde_json::json!(["hsa_amd_memory_pool_allocate", "hsa_amd_memory_pool_free"]), "{way}");
    }
}

/// Own functions that are called through the PLT; not data, not what others define.
#[test]
fn re_entry_is_of_own_functions() {
    let source = "int hsa_amd_memory_pool_allocate(void), hsa_amd_memory_pool_free(void); int hip_data = 1; int hipInit(void){return 0;} int hipGetDeviceCount(void){return 0;}
        int hipFree(void){return hsa_amd_memory_pool_free();} int hipMalloc(void){return hipFree() + hsa_amd_memory_pool_allocate() + hip_data;}";
    let outcome = two_layers(source, &["hipFree"], None);
    assert_eq!(outcome.report["subjects"][0]["reentry"], serde_json::json!(["hipFree"]));
    assert!(outcome.found("reentry", "hipFree"));
}

/// A size is no address: what only such a relocation names is not called through anything that a preload could take.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_sink_that_no_relocation_binds_is_not_held() {
    let source = "__asm__(\".data\\n.quad hsa_amd_memory_pool_allocate@SIZE\\n.text\");
        int hsa_amd_memory_pool_free(void); int hipMalloc(void){return 0;} int hipFree(void){return hsa_amd_memory_pool_free();} int hipInit(void){return 0;}
        int hipGetDeviceCount(void){return 0;}";
    let outcome = two_layers(source, &["hsa_amd_memory_pool_allocate", "hsa_amd_memory_pool_free"], None);
    assert_eq!(outcome.export("hipMalloc")["label"], "open");
    let open = &outcome.report["subjects"][0]["beneath"]["open"];
    assert_eq!(open[0]["name"], "hsa_amd_memory_pool_allocate");
    assert!(open[0]["reason"].as_str().expect("a reason").contains("a preload does not win it"), "{open}");
}

/// The family's own runtime is audited with it and has no such door: the acceptance is used all the same.
#[test]
fn an_acceptance_that_only_the_layer_above_uses_is_not_stale() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path();
    let soname = "-Wl,-soname,libhsa-runtime64.so.1";
    let below = stub(
        dir,
        "libhsa-runtime64.so.1",
        &["hsa_init", "hsa_iterate_agents", "hsa_amd_memory_pool_allocate", "hsa_agent_get_info"],
        Some("ROCR_1 { global: hsa*; };"),
        &[soname],
    );
    let runtime = library(dir, TWO_LAYERS, "libamdhip64.so.7", Some(NODES), &["-Wl,-soname,libamdhip64.so.7"]);
    let shim = stub(dir, "shim.so", &["hsa_amd_memory_pool_allocate"], None, &[]);
    let entry = |export: &str| format!(r#"{{"family": "hsa", "export": "{export}", "reason": "a test", "since": "2026-01-01"}}"#);
    let accepted = format!("{{\"schema_version\": 1, \"accepted\": [{}, {}]}}", entry("hsa_amd_memory_pool_free"), entry("hsa_memory_free"));
    std::fs::write(dir.join("accept.json"), accepted).expect("written");
    let outcome = audit(&["coverage", text(&below), text(&runtime), "--shim", text(&shim), "--accept", text(&dir.join("accept.json"))]);
    assert!(!outcome.found("stale-acceptance", "hsa_amd_memory_pool_free") && outcome.found("stale-acceptance", "hsa_memory_free"));
}

#[test]
fn a_definition_that_the_loader_would_not_bind_is_no_interposer() {
    let source = "int hipMalloc(void){return 0;} int hipFree(void){return 0;} int hipInit(void){return 0;} int hipGetDeviceCount(void){return 0;}";
    let outcome = two_layers(source, &["hipMalloc", "hipInit"], Some("mine_1 { global: *; };"));
    assert_eq!(outcome.exit, 1);
    for (name, must) in [("hipMalloc", true), ("hipInit", false)] {
        let export = outcome.export(name);
        assert_eq!((export["label"].as_str(), export["must_interpose"].as_bool()), (Some("not-bound"), Some(must)), "{export}");
        assert!(outcome.found("not-bound", name) && !outcome.found("open-door", name), "{name}");
    }
}

/// Counted a second time, from the lists of the report itself.
#[test]
fn what_is_new_since_the_release_before_is_listed() {
    let outcome = audit(&["coverage", "--interposed", "../manifests/interposed-reference.json"]);
    let subjects = outcome.report["subjects"].as_array().expect("subjects");
    let mut before: Option<(&str, &Value, BTreeSet<&str>)> = None;
    let mut compared = 0;
    for subject in subjects {
        let exports = subject["exports"].as_array().expect("exports").iter();
        let names: BTreeSet<&str> = exports.map(|export| export["name"].as_str().expect("a name")).collect();
        let family = subject["family"].as_str().expect("a family");
        match &before {
            Some((other, release, known)) if *other == family => {
                let listed = subject["new_since"]["exports"].as_array().expect("a list").iter().map(|name| name.as_str().expect("a name"));
                let listed: Vec<&str> = listed.collect();
                assert_eq!(listed, names.difference(known).copied().collect::<Vec<_>>(), "{}", subject["file"]);
                assert_eq!(subject["new_since"]["release"], **release, "{}", subject["file"]);
                compared += listed.len();
            }
            _ => assert!(subject["new_since"].is_null(), "{} is the first", subject["file"]),
        }
        before = Some((family, &subject["release"], names));
    }
    assert!(compared > 100, "{compared}");
}

/// Names of the shim that a runtime does not have: those of the other layer are its own business, those of nobody are said.
#[test]
fn absent_names_are_told_apart() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let runtime = stub(
        folder.path(),
        "libamdhip64.so.7",
        &["hipMalloc", "hipFree", "hipGetDeviceCount"],
        Some("hip_7.2 { global: hip*; };"),
        &["-Wl,-soname,libamdhip64.so.7"],
    );
    let list = folder.path().join("names");
    std::fs::write(&list, "hipFree\nhipMallco\nhipMallocAsync\nhsa_init\nwidget_open\n").expect("written");
    let outcome = audit(&["coverage", text(&runtime), "--interposed", text(&list)]);
    assert_eq!(outcome.report["subjects"][0]["absent"], serde_json::json!(["hipMallco", "hipMallocAsync", "widget_open"]));
    assert!(outcome.found("near-miss", "hipMallco"));
    assert!(outcome.found("absent-name", "hipMallocAsync"));
    assert!(outcome.found("stray-name", "widget_open"));
    assert!(!outcome.found("stray-name", "hsa_init") && !outcome.found("absent-name", "hsa_init"));
}

/// The nodes say what a build is at least; a file name may only say more.
#[test]
fn nodes_hold_the_number_of_a_file_name_to_account() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path();
    std::fs::write(dir.join("names"), "hipFree\n").expect("written");
    for (file, release, says) in [
        ("libamdhip64.so.7.3.70300", "7.3", "file name"),
        ("libamdhip64.so.6.4.60403", "6.4", "file name"),
        ("libamdhip64.so.5.0.50000", "6.4", "newest version node hip_6.4"),
        ("libamdhip64.so", "6.4", "newest version node hip_6.4"),
    ] {
        let nodes = "hip_4.2 { global: hipMalloc; local: *; }; hip_6.4 { global: hip*; } hip_4.2;";
        let names = ["hipMalloc", "hipFree", "hipGetDeviceCount"];
        let runtime = stub(dir, file, &names, Some(nodes), &["-Wl,-soname,libamdhip64.so.6"]);
        let outcome = audit(&["coverage", text(&runtime), "--interposed", text(&dir.join("names"))]);
        let subject = &outcome.report["subjects"][0];
        assert_eq!(subject["release"], release, "{file}");
        assert!(subject["release_evidence"].as_str().expect("text").contains(says), "{file}: {}", subject["release_evidence"]);
    }
}

/// Audits a runtime of three exports with one acceptance; the shim interposes nothing of them.
fn accepted(acceptance: &str) -> Outcome {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path();
    let runtime = stub(
        dir,
        "libamdhip64.so.7",
        &["hipMalloc", "hipFree", "hipGetDeviceCount"],
        Some("hip_7.2 { global: hip*; };"),
        &["-Wl,-soname,libamdhip64.so.7"],
    );
    let file = dir.join("accept.json");
    std::fs::write(&file, format!("{{\"schema_version\": 1, \"accepted\": [{acceptance}]}}")).expect("written");
    std::fs::write(dir.join("names"), "hipFree # only this\n").expect("written");
    audit(&["coverage", text(&runtime), "--interposed", text(&dir.join("names")), "--accept", text(&file)])
}

#[test]
fn an_acceptance_covers_its_door_and_only_that() {
    let outcome = accepted(r#"{"family": "hip", "export": "hipMalloc", "reason": "measured", "since": "2026-01-01", "releases": ["7.2"]}"#);
    assert_eq!((outcome.exit, outcome.export("hipMalloc")["label"].as_str()), (0, Some("accepted")));
    assert!(outcome.report["findings"].as_array().expect("findings").is_empty());
    let by_class = accepted(r#"{"family": "hip", "class": "device-alloc", "reason": "measured", "since": "2026-01-01"}"#);
    assert_eq!(by_class.export("hipMalloc")["label"], "accepted");
}

#[test]
fn an_acceptance_that_does_not_fit_is_a_finding_and_covers_nothing() {
    for (acceptance, check) in [
        (r#"{"family": "hip", "export": "hipMalloc", "reason": "r", "since": "2026-01-01", "releases": ["6.4"]}"#, "stale-acceptance"),
        (r#"{"family": "hip", "export": "hipMalloc", "reason": "r", "since": "2020-01-01", "until": "2020-12-31"}"#, "expired-acceptance"),
    ] {
        let outcome = accepted(acceptance);
        assert_eq!(outcome.export("hipMalloc")["label"], "open", "{acceptance}");
        assert!(outcome.found(check, "hipMalloc"), "{acceptance}");
        assert_eq!(outcome.exit, 1);
    }
    let other = accepted(r#"{"family": "hsa", "export": "hipMalloc", "reason": "r", "since": "2026-01-01"}"#);
    assert_eq!(other.export("hipMalloc")["label"], "open", "another family's acceptance");
    assert!(!other.found("stale-acceptance", "hipMalloc"), "its runtimes were not audited");
    let stale = accepted(r#"{"family": "hip", "export": "hipFree", "reason": "it is interposed", "since": "2026-01-01"}"#);
    assert!(stale.found("stale-acceptance", "hipFree"));
}

#[test]
fn a_bad_acceptance_is_refused_by_entry() {
    for (acceptance, rule) in [
        (r#"{"family": "hip", "reason": "r", "since": "2026-01-01"}"#, "either an export or a class"),
        (r#"{"family": "hip", "export": "hipMalloc", "reason": " ", "since": "2026-01-01"}"#, "has a reason"),
        (r#"{"family": "hip", "export": "hipMalloc", "reason": "r", "since": "2026-13-01"}"#, "line 1"),
        (r#"{"family": "hip", "export": "hipMalloc", "reason": "r", "since": "2026-01-02", "until": "2026-01-01"}"#, "ends before it begins"),
    ] {
        let outcome = accepted(acceptance);
        assert_eq!(outcome.exit, 2, "{acceptance}");
        assert!(outcome.stderr.contains("accept.json") && outcome.stderr.contains(rule), "{}", outcome.stderr);
    }
}

#[test]
fn what_cannot_be_read_is_said_and_is_no_pass() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path();
    let good = stub(dir, "libamdhip64.so.7", &["hipMalloc", "hipFree", "hipGetDeviceCount"], Some(NODES), &["-Wl,-soname,libamdhip64.so.7"]);
    let shim = stub(dir, "shim.so", &["hipMalloc", "hipFree"], None, &[]);
    let whole = std::fs::read(&good).expect("built");
    std::fs::create_dir(dir.join("more")).expect("made");
    std::fs::write(dir.join("more/libamdhip64.so.6"), &whole[..whole.len() / 2]).expect("written");
    let outcome = audit(&["coverage", text(&good), text(&dir.join("more")), "--shim", text(&shim)]);
    assert_eq!(outcome.exit, 2);
    assert!(outcome.stderr.contains("libamdhip64.so.6: PT_LOAD"), "{}", outcome.stderr);
    assert_eq!(outcome.report["subjects"].as_array().map(Vec::len), Some(1), "the readable one is audited all the same");
    assert_eq!(outcome.report["unread"].as_array().map(Vec::len), Some(1));

    let alone = audit(&["coverage", text(&good), "--shim", text(&shim)]);
    assert_eq!((alone.exit, alone.report["verdict"].as_str()), (0, Some("pass")));
}

#[test]
fn a_library_that_is_no_runtime_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path();
    let cut = stub(dir, "libamdhip64.so.7", &["hipInit"], None, &["-Wl,-soname,libamdhip64.so.7"]);
    let other = stub(dir, "libother.so", &["other"], None, &[]);
    for (path, words) in [(&cut, "does not export hipFree, hipGetDeviceCount, hipMalloc"), (&other, "no runtime of a known family")] {
        let outcome = audit(&["coverage", text(path)]);
        assert_eq!(outcome.exit, 2);
        assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
    }
    std::fs::create_dir(dir.join("empty")).expect("made");
    assert_eq!(audit(&["coverage", text(&dir.join("empty"))]).exit, 2, "a directory without a runtime");
    assert_eq!(audit(&["coverage", text(&dir.join("missing.so"))]).exit, 2);
}

#[test]
fn a_list_of_names_is_read_strictly() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (content, words) in [
        ("", "names no symbol"),
        ("# nothing\n\n", "names no symbol"),
        ("hipMalloc hipFree\n", "one name a line"),
        ("{\"schema_version\": 2}", "names"),
        ("{", "line 1"),
    ] {
        let file = folder.path().join("names");
        std::fs::write(&file, content).expect("written");
        let outcome = audit(&["coverage", "--interposed", text(&file)]);
        assert_eq!(outcome.exit, 2, "{content:?}");
        assert!(outcome.stderr.contains(words) || outcome.stderr.contains("missing field"), "{content:?}: {}", outcome.stderr);
    }
}

#[test]
fn another_family_is_a_folder_of_data() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path();
    let family = dir.join("toy");
    std::fs::create_dir(&family).expect("made");
    std::fs::write(
        family.join("family.json"),
        r#"{"schema_version": 1, "family": "toy", "title": "a toy", "soname_prefix": "libtoy.so", "anchors": ["toyAlloc"]}"#,
    )
    .expect("written");
    let evidence = r#""checked": ["1.0"], "evidence": [{"kind": "source", "at": "toy.c", "says": "takes memory"}]"#;
    let entries =
        format!("{{\"name\": \"toyAlloc\", \"class\": \"device-alloc\", {evidence}}},\n{{\"name\": \"toyName\", \"class\": \"other\", {evidence}}}");
    std::fs::write(
        family.join("classes.json"),
        format!("{{\"schema_version\": 1, \"family\": \"toy\", \"releases\": [\"1.0\"], \"exports\": [\n{entries}\n]}}"),
    )
    .expect("written");
    let runtime = stub(dir, "libtoy.so", &["toyAlloc", "toyName"], None, &["-Wl,-soname,libtoy.so"]);
    let shim = stub(dir, "shim.so", &["toyName"], None, &[]);
    assert_eq!(audit(&["coverage", text(&runtime), "--shim", text(&shim)]).exit, 2, "unknown without its manifests");
    for manifests in [&family, dir] as [&Path; 2] {
        let outcome = audit(&["coverage", text(&runtime), "--shim", text(&shim), "--manifests", text(manifests)]);
        assert_eq!((outcome.exit, outcome.report["subjects"][0]["family"].as_str()), (1, Some("toy")));
        assert!(outcome.found("open-door", "toyAlloc") && !outcome.found("open-door", "toyName"));
    }
    assert_eq!(audit(&["coverage", text(&runtime), "--manifests", text(&dir.join("nothing"))]).exit, 2);

    // Its lists and proposals are made without a line of code, too.
    let newer = stub(dir, "libtoy.so.2", &["toyAlloc", "toyName", "toyNew"], None, &["-Wl,-soname,libtoy.so.2", "-Wl,--build-id"]);
    let manifest = |arguments: &[&str]| {
        let done = Command::new(env!("CARGO_BIN_EXE_vrocm-audit")).arg("manifest").args(arguments).output().expect("runs");
        (done.status.code(), String::from_utf8(done.stdout).expect("text"))
    };
    let (status, proposed) = manifest(&["add", text(&newer), "--manifests", text(dir)]);
    assert!(status == Some(0) && proposed.contains("\"toyNew\"") && !proposed.contains("\"toyName\""), "{proposed}");
    let export = ["exports", text(&newer), "--release", "2.0", "--source", "a test"];
    assert_eq!(manifest(&export).0, Some(2), "unknown without its manifests");
    let (status, list) = manifest(&[&export[..], &["--manifests", text(dir)]].concat());
    assert!(status == Some(0) && list.contains("\"family\": \"toy\"") && list.contains("toyNew"), "{list}");
}

#[test]
fn a_build_that_nobody_knows_is_dated_by_its_name() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path();
    let shim = stub(dir, "shim.so", &["hsa_init"], None, &[]);
    let names = ["hsa_init", "hsa_iterate_agents", "hsa_amd_memory_pool_allocate", "hsa_agent_get_info"];
    for (file, release, class) in [
        ("libhsa-runtime64.so.1.5.0", Some("5.2"), "other"),
        ("libhsa-runtime64.so.1.18.0", Some("7.2"), "capacity-query"),
        ("renamed.so", None, "capacity-query"),
    ] {
        let runtime = stub(dir, file, &names, Some("ROCR_1 { global: hsa*; };"), &["-Wl,-soname,libhsa-runtime64.so.1"]);
        let outcome = audit(&["coverage", text(&runtime), "--shim", text(&shim)]);
        assert_eq!(outcome.report["subjects"][0]["release"].as_str(), release, "{file}");
        assert_eq!(outcome.export("hsa_agent_get_info")["class"], class, "{file}");
    }
}
