//! What a newer file adds and takes away: runtimes, shims, manifests; each finding made to fire, and each kind silent on what is the same.

mod support;

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use support::{Outcome, audit, library, stub};

fn schema_errors(report: &Value) -> Vec<String> {
    let schema: Value = serde_json::from_str(include_str!("../../docs/report.schema.json")).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    validator.iter_errors(report).map(|error| format!("{}: {error}", error.instance_path())).take(3).collect()
}

fn diff(arguments: &[&str]) -> Outcome {
    let done = audit(&[&["diff"], arguments].concat());
    if done.exit != 2 {
        assert_eq!(schema_errors(&done.report), Vec::<String>::new());
        assert_eq!(done.report["audit"], "diff");
    }
    done
}

fn names(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(|entry| entry.as_str().or_else(|| entry["name"].as_str())).collect()
}

/// Names of the findings of a check that have this severity.
fn found<'a>(done: &'a Outcome, check: &str, severity: &str) -> Vec<&'a str> {
    let all = done.report["findings"].as_array().expect("findings").iter();
    all.filter(|finding| finding["check"] == check && finding["severity"] == severity).filter_map(|finding| finding["symbol"].as_str()).collect()
}

const ANCHORS: [&str; 3] = ["hipFree", "hipGetDeviceCount", "hipMalloc"];

/// A runtime of HIP's family that exports the anchors and more, all under one node.
fn runtime(folder: &Path, out: &str, more: &[&str], node: &str, soname: &str) -> String {
    let map = format!("{node} {{ global: hip*; toy*; local: *; }};");
    let named: Vec<&str> = ANCHORS.iter().chain(more).copied().collect();
    stub(folder, out, &named, Some(&map), &["-nostdlib", &format!("-Wl,-soname,{soname}")]).display().to_string()
}

#[test]
fn the_lists_say_what_a_new_rocm_adds_doors_first() {
    let done = diff(&["hip 6.4.3", "hip 7.2.4"]);
    let subject = &done.report["subjects"][0];
    assert_eq!((done.exit, subject["added"].as_array().map(Vec::len), subject["removed"].as_array().map(Vec::len)), (1, Some(41), Some(18)));
    let doors = [
        "hipLibraryEnumerateKernels",
        "hipLibraryGetKernel",
        "hipLibraryGetKernelCount",
        "hipModuleLoadFatBinary",
        "hipLibraryUnload",
        "hipGetDriverEntryPoint",
        "hipGetDriverEntryPoint_spt",
    ];
    assert_eq!(names(&subject["doors"]), doors);
    assert_eq!(found(&done, "new-door", "deny").len(), doors.len());
    assert_eq!(found(&done, "export-gone", "note").len(), 18, "another soname: announced");
    assert_eq!(subject["nodes"]["gained"], json!(["hip_6.5", "hip_7.1", "hip_7.2"]));
    assert!(subject["slots"]["because"].as_str().is_some_and(|why| why.contains("is a list")));
    // The other way round nothing is new.
    let back = diff(&["hip 7.2.4", "hip 6.4.3"]);
    assert_eq!((back.exit, names(&back.report["subjects"][0]["doors_gone"]).len()), (0, 7));
    let same = diff(&["hip 7.2.4", "hip"]);
    assert_eq!((same.exit, same.report["findings"].as_array().map(Vec::len)), (0, Some(0)), "the newest list is that of 7.2.4");
}

#[test]
fn a_class_that_changed_is_a_door_as_a_new_name_is() {
    let done = diff(&["hip 5.7.1", "hip 6.4.3"]);
    let changed = done.report["subjects"][0]["doors"].as_array().expect("doors").iter().find(|door| !door["was"].is_null());
    assert!(changed.is_some_and(|door| door["was"] != door["class"]), "6.4.3 trims pools where 5.7.1 did not");
}

#[test]
fn a_shim_turns_the_doors_that_it_holds_into_notes() {
    let folder = tempfile::tempdir().expect("a folder");
    let shim = stub(folder.path(), "libshim.so", &["hipLibraryUnload", "hipGetDriverEntryPoint"], None, &["-nostdlib"]).display().to_string();
    let done = diff(&["hip 6.4.3", "hip 7.2.4", "--shim", &shim]);
    assert_eq!(found(&done, "new-door", "note"), ["hipGetDriverEntryPoint", "hipLibraryUnload"]);
    assert_eq!((done.exit, found(&done, "new-door", "deny").len()), (1, 5));
    let accept = folder.path().join("accepted.json");
    let open =
        ["hipGetDriverEntryPoint_spt", "hipLibraryEnumerateKernels", "hipLibraryGetKernel", "hipLibraryGetKernelCount", "hipModuleLoadFatBinary"];
    let entries: Vec<Value> = open.iter().map(|name| json!({"family": "hip", "export": name, "reason": "a test", "since": "2026-01-01"})).collect();
    std::fs::write(&accept, json!({"schema_version": 1, "accepted": entries}).to_string()).expect("written");
    let done = diff(&["hip 6.4.3", "hip 7.2.4", "--shim", &shim, "--accept", accept.to_str().expect("text")]);
    assert_eq!((done.exit, found(&done, "new-door", "note").len()), (0, 7));
}

#[test]
fn built_runtimes_show_names_nodes_and_what_is_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let old = runtime(folder.path(), "old.so", &["hipHostMalloc", "hipMemGetInfo"], "hip_4.2", "libamdhip64.so.7");
    let new = runtime(folder.path(), "new.so", &["hipHostMalloc", "hipMallocManaged", "hipMadeUp"], "hip_7.0", "libamdhip64.so.7");
    let done = diff(&[&old, &new]);
    let subject = &done.report["subjects"][0];
    assert_eq!((names(&subject["added"]), names(&subject["removed"])), (vec!["hipMadeUp", "hipMallocManaged"], vec!["hipMemGetInfo"]));
    assert_eq!(found(&done, "new-door", "deny"), ["hipMallocManaged"]);
    assert_eq!(found(&done, "unclassified", "deny"), ["hipMadeUp"]);
    // Under the same soname, a name and the nodes of all others are gone.
    assert_eq!(found(&done, "export-gone", "warn"), ["hipFree", "hipGetDeviceCount", "hipHostMalloc", "hipMalloc", "hipMemGetInfo"]);
    assert_eq!((&subject["nodes"]["gained"], &subject["nodes"]["lost"]), (&json!(["hip_7.0"]), &json!(["hip_4.2"])));
    let same = diff(&[&old, &old]);
    assert_eq!((same.exit, same.report["findings"].as_array().map(Vec::len)), (0, Some(0)));
}

/// A runtime whose exports jump through a table, in the order given.
fn dispatching(folder: &Path, out: &str, order: &[&str]) -> String {
    let members: String = order.iter().map(|name| format!("int (*{name})(void);")).collect();
    let bodies: String =
        order.iter().map(|name| format!("static __attribute__((noinline)) int do_{name}(void) {{ return {}; }}", name.len())).collect();
    let fill: String = order.iter().map(|name| format!("table.{name} = do_{name};")).collect();
    let stubs: String = order.iter().map(|name| format!("int {name}(void) {{ return get()->{name}(); }}")).collect();
    let source = format!(
        "struct table {{ unsigned long size; {members} }}; static struct table table; {bodies}\n\
         static __attribute__((noinline)) struct table *get(void) {{ table.size = sizeof table; {fill} return &table; }}\n{stubs}"
    );
    let map = "hip_4.2 { global: hip*; local: *; };";
    let flags = ["-O2", "-nostdlib", "-fno-stack-protector", "-fcf-protection=none", "-Wl,-soname,libamdhip64.so.9"];
    library(folder, &source, out, Some(map), &flags).display().to_string()
}

#[test]
fn a_slot_that_moved_is_seen() {
    let folder = tempfile::tempdir().expect("a folder");
    let old = dispatching(folder.path(), "old.so", &["hipFree", "hipGetDeviceCount", "hipMalloc", "hipInit"]);
    let new = dispatching(folder.path(), "new.so", &["hipFree", "hipGetDevice", "hipGetDeviceCount", "hipMalloc", "hipInit"]);
    let done = diff(&[&old, &new]);
    let slots = &done.report["subjects"][0]["slots"];
    assert_eq!((&slots["old"], &slots["new"]), (&json!(4), &json!(5)), "{slots}");
    assert_eq!(names(&slots["moved"]), ["hipGetDeviceCount", "hipInit", "hipMalloc"]);
    assert_eq!(slots["moved"][0], json!({"name": "hipGetDeviceCount", "old": "0x10", "new": "0x18"}));
    assert_eq!(found(&done, "slot-moved", "warn").len(), 3);
    let appended = dispatching(folder.path(), "appended.so", &["hipFree", "hipGetDeviceCount", "hipMalloc", "hipInit", "hipGetDevice"]);
    assert_eq!(found(&diff(&[&old, &appended]), "slot-moved", "warn"), Vec::<&str>::new());
}

#[test]
fn shims_say_what_opens_and_what_closes() {
    let folder = tempfile::tempdir().expect("a folder");
    let shim =
        |out: &str, names: &[&str], flags: &[&str]| stub(folder.path(), out, names, None, &[&["-nostdlib"], flags].concat()).display().to_string();
    let other = shim("libother.so", &["helper"], &[]);
    let old = shim("old.so", &["hipFree", "hipMalloc"], &[]);
    let new = shim("new.so", &["hipMalloc", "hipMallocManaged"], &["-Wl,--no-as-needed", &other]);
    let done = diff(&[&old, &new]);
    let subject = &done.report["subjects"][0];
    assert_eq!((done.exit, &subject["names"]), (1, &json!({"gained": ["hipMallocManaged"], "lost": ["hipFree"]})));
    assert_eq!(subject["needed"]["gained"].as_array().map(Vec::len), Some(1));
    assert_eq!(found(&done, "door-opened", "deny"), ["hipFree"]);
    let doors = subject["doors"].as_array().expect("doors");
    assert_eq!(doors.len(), 8, "a list each");
    for door in doors {
        let hip = door["runtime"].as_str().is_some_and(|name| name.starts_with("hip"));
        let (opened, closed) = if hip { (json!(["hipFree"]), json!(["hipMallocManaged"])) } else { (json!([]), json!([])) };
        assert_eq!((&door["opened"], &door["closed"]), (&opened, &closed));
    }
    assert_eq!(diff(&[&old, &old]).exit, 0);
}

fn classes(folder: &Path, name: &str, change: impl Fn(String) -> String) -> String {
    let path = folder.join(name);
    std::fs::write(&path, change(std::fs::read_to_string("../manifests/hip/classes.json").expect("there"))).expect("written");
    path.display().to_string()
}

#[test]
fn manifests_are_a_text_for_review_and_a_weaker_judgement_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let old = classes(folder.path(), "old.json", |text| text);
    let weaker = classes(folder.path(), "new.json", |text| {
        text.replace("{\"name\": \"hipMalloc\", \"class\": \"device-alloc\"", "{\"name\": \"hipMalloc\", \"class\": \"other\"")
    });
    let done = diff(&[&old, &weaker]);
    assert_eq!((done.exit, found(&done, "judgement-weakened", "warn")), (0, vec!["hipMalloc"]));
    let file = &done.report["subjects"][0]["files"][0];
    assert_eq!(file["judgements"], json!([{"name": "hipMalloc", "old": "device-alloc", "new": "other"}]));
    assert_eq!((&file["lines_added"], &file["lines_removed"]), (&json!(1), &json!(1)));
    let text = file["text"].as_str().expect("a text");
    assert!(
        text.contains("\n-{\"name\": \"hipMalloc\", \"class\": \"device-alloc\"")
            && text.contains("\n+{\"name\": \"hipMalloc\", \"class\": \"other\"")
    );
    // Asked for more, nothing is weaker.
    assert_eq!(found(&diff(&[&weaker, &old]), "judgement-weakened", "warn"), Vec::<&str>::new());
    let gone = classes(folder.path(), "gone.json", |text| {
        text.lines().filter(|line| !line.contains("\"name\": \"hipMalloc\"")).map(|line| format!("{line}\n")).collect()
    });
    assert_eq!(found(&diff(&[&old, &gone]), "judgement-weakened", "warn"), ["hipMalloc"]);
    let bad = classes(folder.path(), "bad.json", |text| text.replace("\"class\": \"device-alloc\"", "\"class\": \"allocator\""));
    let done = diff(&[&old, &bad]);
    assert!(done.exit == 2 && done.stderr.contains("bad.json: line "), "{}", done.stderr);
}

#[test]
fn a_tree_of_manifests_is_compared_file_by_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = Command::new("cp").arg("-r").arg("../manifests").arg(folder.path()).status().expect("cp");
    assert!(copy.success());
    let new = folder.path().join("manifests");
    let accepted = std::fs::read_to_string(new.join("accepted.json")).expect("there");
    let more = r#"[{"family": "hip", "export": "hipFree", "reason": "a test", "since": "2026-01-01"},"#;
    std::fs::write(new.join("accepted.json"), accepted.replacen('[', more, 1)).expect("written");
    std::fs::remove_file(new.join("hip/exports/5.2.3.json")).expect("removed");
    let done = diff(&["../manifests", new.to_str().expect("text")]);
    assert_eq!(found(&done, "acceptance-added", "warn"), ["hipFree"]);
    let files = done.report["subjects"][0]["files"].as_array().expect("files");
    let seen: Vec<(&str, &str)> = files.iter().filter_map(|file| Some((file["name"].as_str()?, file["status"].as_str()?))).collect();
    assert_eq!(seen, [("accepted.json", "changed"), ("hip/exports/5.2.3.json", "removed")]);
    assert_eq!(diff(&["../manifests", "../manifests"]).exit, 0);
}

#[test]
fn what_is_not_of_one_kind_is_not_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let shim = stub(folder.path(), "libshim.so", &["hipMalloc"], None, &["-nostdlib"]).display().to_string();
    let damaged = stub(folder.path(), "libamdhip64.so.7", &["hipInit"], None, &["-nostdlib", "-Wl,-soname,libamdhip64.so.7"]).display().to_string();
    for (old, new, why) in [
        ("hip 7.2.4", shim.as_str(), "is a runtime, "),
        (shim.as_str(), "../manifests", "is a shim "),
        ("../manifests/hip/classes.json", "hip 7.2.4", "is a manifest, "),
        ("../manifests/hip/classes.json", "../manifests/accepted.json", "they are not compared"),
        ("hip 7.2.4", "hsa 7.2.4", "has runtimes of hip"),
        ("hip 7.2.4", "hip 1.0", "no list inside the program"),
        ("hip 7.2.4", "/no/such/file", "no such file"),
        ("hip 7.2.4", "../README.md", "neither an ELF file"),
        ("hip 7.2.4", damaged.as_str(), "a stub or a damaged copy"),
    ] {
        let done = diff(&[old, new]);
        assert!(done.exit == 2 && done.stderr.contains(why), "{old} {new}: {} {}", done.exit, done.stderr);
    }
    assert_eq!(diff(&[&shim, &shim, "--shim", &shim]).exit, 2);
}

#[test]
fn a_package_stands_for_what_it_holds() {
    let folder = tempfile::tempdir().expect("a folder");
    let inside = folder.path().join("tree/usr/lib");
    std::fs::create_dir_all(&inside).expect("made");
    let pack = |name: &str| {
        let done = Command::new("tar").current_dir(folder.path()).args(["-cf", name, "tree"]).status().expect("tar");
        assert!(done.success());
        folder.path().join(name).display().to_string()
    };
    let empty = pack("empty.tar");
    runtime(&inside, "libamdhip64.so.7", &["hipMallocManaged"], "hip_4.2", "libamdhip64.so.7");
    let full = pack("full.tar");
    let done = diff(&["hip 5.2.3", &full]);
    assert_eq!(done.exit, 0, "{}", done.stderr);
    assert!(done.report["subjects"][0]["new"]["file"].as_str().is_some_and(|name| name.ends_with("full.tar!/tree/usr/lib/libamdhip64.so.7")));
    let done = diff(&[&empty, &full]);
    assert!(done.exit == 2 && done.stderr.contains("holds 0 shared libraries"), "{}", done.stderr);
    std::fs::remove_file(inside.join("libamdhip64.so.7")).expect("removed");
    stub(&inside, "libshim.so", &["hipMalloc"], None, &["-nostdlib"]);
    let shim = pack("shim.tar");
    assert_eq!(diff(&[&shim, &shim]).exit, 0);
}

#[test]
fn real_runtimes_keep_their_slots() {
    let (Some(old), Some(new)) =
        (support::file("libamdhip64-6_6.4.3-5_amd64", "libamdhip64.so.6"), support::file("libamdhip64-7_7.2.4-1~exp2_amd64", "libamdhip64.so.7"))
    else {
        return;
    };
    let done = diff(&[old.to_str().expect("text"), new.to_str().expect("text")]);
    let subject = &done.report["subjects"][0];
    assert_eq!(names(&subject["doors"]).len(), 7);
    assert_eq!(subject["slots"], json!({"old": 474, "new": 515, "moved": []}));
}
