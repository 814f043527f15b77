//! What is gated: one JSON file, in which comments and trailing commas are allowed. `docs/gate.schema.json` describes it, `docs/GATE.md` explains it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::finding::Severity;
use crate::manifest::schema::{BadManifest, Rules};
use crate::manifest::{Acceptance, Release};

/// The name of the file where none is given.
pub const FILE: &str = "vrocm-gate.jsonc";

/// What `gate --init` writes.
pub const START: &str = include_str!("start.jsonc");

/// One shim.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shim {
    /// The library.
    pub file: PathBuf,
    /// What its rows do, or just their names; the list inside the program for a file called libvrocm.so.
    #[serde(default)]
    pub interposed: Option<PathBuf>,
    /// The linkage policy; that of libvrocm.so where absent.
    #[serde(default)]
    pub policy: Option<PathBuf>,
    /// Doors left open on purpose; those inside the program for a file called libvrocm.so where absent.
    #[serde(default)]
    pub accepted: Option<Vec<Acceptance>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "$schema", default)]
    _schema: Option<String>,
    schema_version: u32,
    shims: Vec<Shim>,
    #[serde(default)]
    runtimes: Vec<PathBuf>,
    #[serde(default)]
    lists: Vec<String>,
    #[serde(default)]
    manifests: Vec<PathBuf>,
    #[serde(default)]
    targets: Vec<String>,
    #[serde(default)]
    severities: BTreeMap<String, Severity>,
    #[serde(default)]
    reports: BTreeMap<String, PathBuf>,
}

/// A list inside the program, or in a folder of `manifests`: a family, and one release of it or all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The family's name.
    pub family: String,
    /// One release, or all.
    pub release: Option<Release>,
}

impl Listed {
    /// Reads `hip`, or `hip 7.2.4`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let (family, release, rest) = (words.next(), words.next().map(str::parse::<Release>), words.next());
        match (family, release.transpose(), rest) {
            (Some(family), Ok(release), None) => Ok(Self { family: family.into(), release }),
            _ => Err(format!("{text:?} is neither a family (hip) nor a family and a release (hip 7.2.4)")),
        }
    }
}

/// A configuration that was read and checked; paths are relative to its folder there and usable here.
#[derive(Debug)]
pub struct Config {
    /// The file, for messages.
    pub file: String,
    /// The shims.
    pub shims: Vec<Shim>,
    /// Runtime libraries, or folders that hold some.
    pub runtimes: Vec<PathBuf>,
    /// Lists of known builds.
    pub lists: Vec<Listed>,
    /// Folders of families beside those inside the program.
    pub manifests: Vec<PathBuf>,
    /// GPU targets that every runtime must know.
    pub targets: Vec<String>,
    /// Severities in place of the checks' own, by id.
    pub severities: BTreeMap<String, Severity>,
    /// Reports to write: format and file.
    pub reports: BTreeMap<String, PathBuf>,
}

impl Config {
    /// Reads the text of a configuration that lies in `folder`. `checks` are the ids of all checks.
    pub fn read(file: &str, folder: &Path, text: &str, checks: &[&str]) -> Result<Self, BadManifest> {
        let rules = Rules { file };
        let mut plain = text.to_string();
        // Comments become blanks, so that a line number in an error is that of the file.
        json_strip_comments::strip(&mut plain).map_err(|error| rules.broken("comment", error.to_string()))?;
        let parsed: File = rules.parse(&plain)?;
        rules.version(parsed.schema_version)?;
        if parsed.shims.is_empty() {
            return Err(rules.broken("shims", "names no shim: there is nothing to gate"));
        }
        if parsed.runtimes.is_empty() && parsed.lists.is_empty() {
            return Err(rules.broken("runtimes, lists", "name neither a runtime nor a list: every gate would be green"));
        }
        if let Some(unknown) = parsed.severities.keys().find(|id| !checks.contains(&id.as_str())) {
            return Err(rules.broken("severities", format!("{unknown:?} is no check; there are {}", checks.join(", "))));
        }
        let lists = parsed.lists.iter().map(|text| Listed::parse(text).map_err(|bad| rules.broken("lists", bad))).collect::<Result<_, _>>()?;
        let place = |path: PathBuf| folder.join(path);
        let shim = |shim: Shim| Shim {
            file: place(shim.file),
            interposed: shim.interposed.map(place),
            policy: shim.policy.map(place),
            accepted: shim.accepted,
        };
        Ok(Self {
            file: file.into(),
            shims: parsed.shims.into_iter().map(shim).collect(),
            runtimes: parsed.runtimes.into_iter().map(place).collect(),
            lists,
            manifests: parsed.manifests.into_iter().map(place).collect(),
            targets: parsed.targets,
            severities: parsed.severities,
            reports: parsed.reports.into_iter().map(|(format, path)| (format, place(path))).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, BadManifest> {
        Config::read("g", Path::new("/c"), text, &["open-door", "absent-name"])
    }

    #[test]
    fn the_start_is_a_configuration_and_keeps_the_schema() {
        let config = read(START).expect("good");
        assert_eq!(config.shims[0].file, Path::new("/c/target/release/libshim.so"));
        assert!(!config.lists.is_empty());
        let schema: serde_json::Value = serde_json::from_str(include_str!("../../../docs/gate.schema.json")).expect("JSON");
        let validator = jsonschema::validator_for(&schema).expect("a schema");
        let mut plain = START.to_string();
        json_strip_comments::strip(&mut plain).expect("comments");
        let start: serde_json::Value = serde_json::from_str(&plain).expect("JSON");
        assert!(validator.is_valid(&start));
        assert!(!validator.is_valid(&serde_json::json!({"schema_version": 1, "shims": []})));
    }

    #[test]
    fn a_configuration_that_gates_nothing_is_refused() {
        for (text, what) in [
            (r#"{"schema_version": 1, "shims": [], "lists": ["hip"]}"#, "g: shims: names no shim"),
            (r#"{"schema_version": 1, "shims": [{"file": "a"}]}"#, "g: runtimes, lists: name neither"),
            (r#"{"schema_version": 2, "shims": [{"file": "a"}], "lists": ["hip"]}"#, "g: schema_version: 2"),
            (r#"{"schema_version": 1, "shims": [{"file": "a"}], "lists": ["hip 7 2"]}"#, "g: lists: \"hip 7 2\" is neither"),
            (
                r#"{"schema_version": 1, "shims": [{"file": "a"}], "lists": ["hip"], "severities": {"opendoor": "warn"}}"#,
                "g: severities: \"opendoor\" is no check",
            ),
            ("{\"schema_version\": 1, // one\n\"shim\": []}", "g: line 2"),
        ] {
            let bad = read(text).expect_err(text).to_string();
            assert!(bad.starts_with(what), "{bad}");
        }
    }
}
