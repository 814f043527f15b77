//! The account of the edge cases: each has a test named after it, or a reason why it cannot apply here. `fixtures/checklist.json` is the account.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use syn::visit::Visit;

/// Groups and how many lines each has.
const GROUPS: [(char, usize); 5] = [('S', 16), ('E', 12), ('L', 22), ('C', 23), ('X', 5)];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Account {
    schema_version: u32,
    lines: Vec<Line>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    id: String,
    what: String,
    #[serde(default)]
    tests: Vec<String>,
    #[serde(default)]
    not_applicable: Option<String>,
}

fn ids() -> BTreeSet<String> {
    GROUPS.iter().flat_map(|&(group, count)| (1..=count).map(move |number| format!("{group}{number}"))).collect()
}

/// Functions with `#[test]`, wherever they stand in a source.
#[derive(Default)]
struct Tests(BTreeSet<String>);

impl<'ast> Visit<'ast> for Tests {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        if function.attrs.iter().any(|attribute| attribute.path().is_ident("test")) {
            self.0.insert(function.sig.ident.to_string());
        }
    }
}

fn tests_of(source: &str) -> BTreeSet<String> {
    let mut tests = Tests::default();
    tests.visit_file(&syn::parse_file(source).expect("Rust"));
    tests.0
}

/// The lines that a test is named after: `l18_l21_other_class` is L18 and L21.
fn named_after(test: &str) -> BTreeSet<String> {
    let known = ids();
    test.split('_').map(str::to_uppercase).take_while(|word| known.contains(word)).collect()
}

/// What is wrong with an account, given the tests that there are.
fn complaints(account: &Account, tests: &BTreeSet<String>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut listed: BTreeMap<&str, usize> = BTreeMap::new();
    for line in &account.lines {
        *listed.entry(&line.id).or_default() += 1;
        let id = &line.id;
        if line.what.is_empty() {
            wrong.push(format!("{id}: says nothing"));
        }
        match &line.not_applicable {
            None if line.tests.is_empty() => wrong.push(format!("{id}: neither a test nor a reason")),
            Some(_) if !line.tests.is_empty() => wrong.push(format!("{id}: tests, and said not to apply")),
            Some(reason) if reason.len() < 20 => wrong.push(format!("{id}: {reason:?} is no reason")),
            _ => {}
        }
        for test in &line.tests {
            if !tests.contains(test) {
                wrong.push(format!("{id}: there is no test {test}"));
            }
            if !named_after(test).contains(id) {
                wrong.push(format!("{id}: {test} is not named after it"));
            }
        }
    }
    let known = ids();
    wrong.extend(known.iter().filter(|id| !listed.contains_key(id.as_str())).map(|id| format!("{id}: is missing")));
    wrong.extend(listed.iter().filter(|&(id, &times)| times > 1 || !known.contains(*id)).map(|(id, times)| format!("{id}: {times} times")));
    let accounted = |id: &String, test: &String| account.lines.iter().any(|line| line.id == *id && line.tests.contains(test));
    for test in tests {
        wrong.extend(named_after(test).iter().filter(|id| !accounted(id, test)).map(|id| format!("{id}: {test} is not in the account")));
    }
    wrong
}

fn sources(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("readable") {
        let path = entry.expect("entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.extend(tests_of(&std::fs::read_to_string(path).expect("readable")));
        }
    }
}

fn account(text: &str) -> Account {
    serde_json::from_str(text).expect("an account")
}

#[test]
fn every_line_has_a_test_named_after_it_or_a_reason() {
    let account = account(&std::fs::read_to_string("../fixtures/checklist.json").expect("the account"));
    assert_eq!(account.schema_version, 1);
    let mut tests = BTreeSet::new();
    for folder in ["src", "tests"] {
        sources(Path::new(folder), &mut tests);
    }
    let wrong = complaints(&account, &tests);
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    let tested = account.lines.iter().filter(|line| !line.tests.is_empty()).count();
    let different: BTreeSet<&String> = account.lines.iter().flat_map(|line| &line.tests).collect();
    println!("{} lines: {tested} with {} tests, {} not applicable", account.lines.len(), different.len(), account.lines.len() - tested);
}

#[test]
fn the_account_is_held_against_code_and_not_against_words() {
    let line = |rest: &str| format!("{{\"id\":\"S1\",\"what\":\"x\",{rest}}}");
    let complain = |line: &str, source: &str| {
        let text = format!("{{\"schema_version\":1,\"lines\":[{line}]}}");
        let mut wrong = complaints(&account(&text), &tests_of(source));
        wrong.retain(|wrong| !wrong.ends_with("is missing"));
        wrong
    };
    let named = line("\"tests\":[\"s1_works\"]");
    let nobody: Vec<String> = Vec::new();
    assert_eq!(complain(&named, "mod tests { #[test] fn s1_works() {} }"), nobody);
    for source in ["// #[test] fn s1_works() {}", "fn s1_works() {}", "const S: &str = \"#[test] fn s1_works() {}\";"] {
        assert_eq!(complain(&named, source), ["S1: there is no test s1_works"], "{source}");
    }
    assert_eq!(complain(&named, "#[test] fn s1_works() {} #[test] fn s1_more() {}"), ["S1: s1_more is not in the account"]);
    assert_eq!(complain(&line("\"tests\":[\"works\"]"), "#[test] fn works() {}"), ["S1: works is not named after it"]);
    assert_eq!(complain(&line("\"tests\":[]"), ""), ["S1: neither a test nor a reason"]);
    assert_eq!(complain(&line("\"not_applicable\":\"no\""), ""), ["S1: \"no\" is no reason"]);
    let twice =
        format!("{},{}", line("\"not_applicable\":\"there is nothing like it here\""), line("\"not_applicable\":\"there is nothing like it\""));
    assert_eq!(complain(&twice, ""), ["S1: 2 times"]);
    let empty = complaints(&account("{\"schema_version\":1,\"lines\":[]}"), &BTreeSet::new());
    assert_eq!(empty.len(), 78, "each is missing");
    assert_eq!(named_after("l18_l21_other_class"), BTreeSet::from(["L18".to_string(), "L21".to_string()]));
    assert!(named_after("s99_no_line").is_empty());
}
