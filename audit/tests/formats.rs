//! Reports for other programs, each read by something that is not ours: SARIF by its schema, `JUnit` by its own crate, the page by a browser.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const REFERENCE: [&str; 3] = ["coverage", "--interposed", "../manifests/interposed-reference.json"];

fn run(arguments: &[&str], format: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vrocm-audit"));
    let done = command.env_remove("VROCM_SHIM").env_remove("GITHUB_STEP_SUMMARY").args(arguments).args(["--format", format]).output().expect("runs");
    String::from_utf8(done.stdout).expect("text")
}

fn json(arguments: &[&str], format: &str) -> Value {
    serde_json::from_str(&run(arguments, format)).expect("JSON")
}

/// Packages of other platforms need not be there.
fn host() -> String {
    let done = Command::new("rustc").args(["-vV"]).output().expect("rustc");
    let text = String::from_utf8(done.stdout).expect("text");
    text.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc says its host").to_string()
}

/// The schema of the standard, as the crate `serde-sarif` carries it.
fn sarif_schema() -> jsonschema::Validator {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let done = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--offline", "--locked", "--filter-platform", host().as_str()])
        .output()
        .expect("cargo metadata");
    let metadata: Value = serde_json::from_slice(&done.stdout).expect("cargo metadata prints JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let package = packages.iter().find(|package| package["name"] == "serde-sarif").expect("a dependency of the tests");
    let manifest = PathBuf::from(package["manifest_path"].as_str().expect("a path"));
    let text = std::fs::read_to_string(manifest.with_file_name("src").join("schema.json")).expect("serde-sarif carries the schema");
    let mut schema: Value = serde_json::from_str(&text).expect("JSON");
    // The pattern of a language ends in `]?`, which is no regular expression to a strict reader; nothing here names a language.
    for holder in ["run", "toolComponent"] {
        let language = schema["definitions"][holder]["properties"]["language"].as_object_mut();
        language.expect("the schema of the standard").remove("pattern");
    }
    jsonschema::validator_for(&schema).expect("a schema")
}

#[test]
fn sarif_keeps_the_standards_schema() {
    let schema = sarif_schema();
    for arguments in [&REFERENCE[..], &["linkage", "../fixtures/cases/e01-no-sections/libpre.so"], &["linkage", "/no/such file.so"]] {
        let log = json(arguments, "sarif");
        let errors: Vec<String> = schema.iter_errors(&log).map(|error| format!("{}: {error}", error.instance_path())).take(5).collect();
        assert_eq!(errors, Vec::<String>::new(), "{arguments:?}");
        let typed: serde_sarif::sarif::Sarif = serde_json::from_value(log.clone()).expect("another reader takes it");
        assert_eq!(serde_json::to_value(&typed).expect("JSON")["runs"][0]["results"], log["runs"][0]["results"], "nothing is lost on the way");
    }
    let mut bad = json(&REFERENCE, "sarif");
    bad["runs"][0]["results"][0]["level"] = "deny".into();
    assert!(!schema.is_valid(&bad), "the schema refuses what is not SARIF");
}

#[test]
fn sarif_has_what_code_scanning_shows() {
    let log = json(&REFERENCE, "sarif");
    let run = &log["runs"][0];
    let (rules, results) = (run["tool"]["driver"]["rules"].as_array().expect("rules"), run["results"].as_array().expect("results"));
    assert_eq!(results.len(), json(&REFERENCE, "json")["findings"].as_array().expect("findings").len());
    let mut prints = std::collections::BTreeSet::new();
    for result in results {
        let rule = &rules[usize::try_from(result["ruleIndex"].as_u64().expect("an index")).expect("small")];
        assert_eq!(rule["id"], result["ruleId"]);
        assert!(rule["help"]["markdown"].as_str().is_some_and(|text| text.contains("What to do")));
        assert_eq!(result["locations"][0]["physicalLocation"]["region"]["startLine"], 1);
        assert!(prints.insert(result["partialFingerprints"]["vrocm/v1"].as_str().expect("a fingerprint").to_string()), "{result}");
    }
    for rule in rules {
        assert_eq!(rule["properties"]["tags"], serde_json::json!(["coverage"]));
        let id = rule["id"].as_str().expect("an id");
        assert_eq!(rule["name"].as_str().map(str::to_lowercase), id.contains('-').then(|| id.replace('-', "")), "a name is one of several words");
    }
    assert!(rules.iter().any(|rule| rule["name"].is_null()) && rules.iter().any(|rule| rule["name"].is_string()));
    assert_eq!(run["invocations"][0]["executionSuccessful"], true);
    let unread = json(&["linkage", "/no/such file.so"], "sarif");
    assert_eq!(unread["runs"][0]["invocations"][0]["executionSuccessful"], false);
    assert!(unread["runs"][0]["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"].as_str().is_some());
}

#[test]
fn fingerprints_do_not_depend_on_the_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("libpre.so");
    std::fs::copy("../fixtures/cases/e01-no-sections/libpre.so", &copy).expect("copied");
    let prints = |file: &str| -> Vec<Value> {
        let log = json(&["linkage", file], "sarif");
        log["runs"][0]["results"].as_array().expect("results").iter().map(|result| result["partialFingerprints"]["vrocm/v1"].clone()).collect()
    };
    let here = prints("../fixtures/cases/e01-no-sections/libpre.so");
    assert!(!here.is_empty());
    assert_eq!(here, prints(copy.to_str().expect("text")));
}

#[test]
fn junit_fails_where_the_audit_denies_and_only_there() {
    let denied = |arguments: &[&str]| {
        let report = json(arguments, "json");
        report["findings"].as_array().map_or(0, |findings| findings.iter().filter(|finding| finding["severity"] == "deny").count())
    };
    assert!(denied(&REFERENCE) > 0 && denied(&["linkage", "../fixtures/elf/aarch64.so"]) > 0);
    for arguments in [&REFERENCE[..], &["linkage", "../fixtures/elf/aarch64.so"], &["linkage", "../fixtures/cases/e01-no-sections/libpre.so"]] {
        let report = quick_junit::Report::deserialize_from_str(&run(arguments, "junit")).expect("JUnit");
        assert_eq!((report.failures, report.errors), (denied(arguments), 0), "{arguments:?}");
        assert!(report.tests > 0);
    }
    let unread = quick_junit::Report::deserialize_from_str(&run(&["linkage", "/no/such.so"], "junit")).expect("JUnit");
    assert_eq!((unread.failures, unread.errors), (0, 1));
}

#[test]
fn github_gets_annotations_and_a_summary() {
    let folder = tempfile::tempdir().expect("a folder");
    let summary = folder.path().join("summary.md");
    let mut command = Command::new(env!("CARGO_BIN_EXE_vrocm-audit"));
    let done =
        command.env_remove("VROCM_SHIM").env("GITHUB_STEP_SUMMARY", &summary).args(REFERENCE).args(["--format", "github"]).output().expect("runs");
    let text = String::from_utf8(done.stdout).expect("text");
    assert!(text.lines().all(|line| line.starts_with("::error ") || line.starts_with("::warning ") || line.starts_with("::notice ")), "{text}");
    // A step shows ten of a kind: eight runtimes have one each of open doors and of rows that hold nothing.
    assert!(text.lines().filter(|line| line.contains("title=open-door")).count() == 8, "{text}");
    let summary = std::fs::read_to_string(summary).expect("a summary");
    assert!(summary.starts_with("## vrocm-audit coverage: ❌ fail") && summary.contains("| hip 7.2.4 | 525 | 77 |"), "{summary}");
}

#[test]
fn gitlab_gets_issues() {
    let issues = json(&REFERENCE, "gitlab");
    let issues = issues.as_array().expect("a list");
    assert_eq!(issues.len(), json(&REFERENCE, "json")["findings"].as_array().expect("findings").len());
    let known = ["info", "minor", "major", "critical", "blocker"];
    for issue in issues {
        assert!(known.iter().any(|word| issue["severity"] == *word) && issue["location"]["lines"]["begin"] == 1, "{issue}");
        assert!(issue["fingerprint"].as_str().is_some_and(|print| print.len() == 32));
    }
    assert_eq!(json(&["linkage", "/no/such.so"], "gitlab")[0]["check_name"], "not-audited");
}

#[test]
fn the_page_needs_nothing_else() {
    let page = run(&REFERENCE, "html");
    assert!(page.contains("default-src 'none'"));
    for outside in ["src=", "href=", "url(", "@import", "fetch(", "XMLHttpRequest"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
}

/// Clicks and filters as a person would and writes down what the page then shows.
const PERSON: &str = r"<script>
const seen = {};
const rows = () => [...document.querySelectorAll('.matrix tbody tr')].filter(row => !row.hidden);
const choose = (name, value) => { const field = form.elements[name]; if (field.type === 'checkbox') field.checked = value; else field.value = value; form.dispatchEvent(new Event('input')); };
seen.must = rows().length;
choose('must', false); seen.all = rows().length;
choose('kind', 'proc-address'); seen.kind = rows().map(row => row.dataset.class);
choose('kind', ''); choose('text', 'hipGraphLaunch'); seen.text = rows().map(row => row.dataset.name);
seen.hiddenBefore = panel.hidden;
rows()[0].querySelector('td.cell').click();
seen.panel = panel.innerText; seen.hiddenAfter = panel.hidden;
panel.querySelector('button').click(); seen.closed = panel.hidden;
seen.colour = getComputedStyle(document.querySelector('td.open')).backgroundColor;
seen.wide = document.documentElement.scrollWidth <= window.innerWidth;
const done = document.createElement('pre'); done.id = 'seen'; done.textContent = JSON.stringify(seen); document.body.append(done);
</script></body>";

fn browser() -> Option<PathBuf> {
    let names = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome"];
    let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
    names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name))).find(|path| path.is_file())
}

fn open(browser: &Path, page: &Path, more: &[&str]) -> String {
    let home = tempfile::tempdir().expect("a folder");
    let fixed = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--virtual-time-budget=4000"];
    let mut command = Command::new(browser);
    command.args(fixed).arg(format!("--user-data-dir={}", home.path().display())).args(more).arg(format!("file://{}", page.display()));
    String::from_utf8_lossy(&command.output().expect("the browser runs").stdout).into_owned()
}

/// With `PAGE_PICTURES=FOLDER` it leaves pictures there, to be looked at.
#[test]
fn the_page_works_in_a_browser() {
    let Some(browser) = browser() else {
        println!("not tested: the page in a browser (no Chromium in PATH; Debian: chromium-headless-shell)");
        assert!(std::env::var_os("CI").is_none(), "CI has a browser: .ci/run installs one");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let (page, tried) = (folder.path().join("page.html"), folder.path().join("tried.html"));
    let text = run(&REFERENCE, "html");
    std::fs::write(&page, &text).expect("written");
    std::fs::write(&tried, text.replace("</body>", PERSON)).expect("written");
    let look = |size: &str| -> Value {
        let dom = open(&browser, &tried, &["--dump-dom", size]);
        let seen = dom.split("<pre id=\"seen\">").nth(1).and_then(|rest| rest.split("</pre>").next());
        serde_json::from_str(
            &seen
                .unwrap_or_else(|| panic!("the script ended early: {}", &dom[..dom.len().min(500)]))
                .replace("&gt;", ">")
                .replace("&lt;", "<")
                .replace("&amp;", "&"),
        )
        .expect("JSON")
    };
    for size in ["--window-size=1280,900", "--window-size=500,900"] {
        let seen = look(size);
        let (must, all) = (seen["must"].as_u64().expect("a number"), seen["all"].as_u64().expect("a number"));
        assert!(must > 50 && must < all && all > 700, "{must} of {all}");
        assert_eq!(seen["kind"].as_array().map(|kinds| kinds.iter().all(|kind| kind == "proc-address") && kinds.len() >= 3), Some(true));
        assert_eq!(seen["text"][0], "hipGraphLaunch");
        assert_eq!((seen["hiddenBefore"].as_bool(), seen["hiddenAfter"].as_bool(), seen["closed"].as_bool()), (Some(true), Some(false), Some(true)));
        let panel = seen["panel"].as_str().expect("text");
        assert!(panel.contains("hipGraphLaunch@hip_") && panel.contains("Evidence") && panel.contains("source:"), "{panel}");
        assert_eq!(seen["wide"], true, "{size}: the page itself does not scroll sideways");
    }
    if let Some(pictures) = std::env::var_os("PAGE_PICTURES") {
        let dark = "--blink-settings=preferredColorScheme=0";
        for (name, size, more) in [("desktop", "1280,900", &[][..]), ("phone", "500,900", &[]), ("dark", "1280,900", &[dark])] {
            let picture = format!("--screenshot={}", Path::new(&pictures).join(format!("{name}.png")).display());
            open(&browser, &page, &[&[picture.as_str(), &format!("--window-size={size}")], more].concat());
        }
    }
}
