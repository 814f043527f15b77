//! From a command to the program that runs: `PATH`, shebangs, `env`.

use std::os::unix::fs::PermissionsExt;

use serde::Serialize;

use super::tree::Tree;
use super::{Error, Request};

/// Interpreters of scripts that are themselves scripts; the kernel's own bound is five.
const MOST_SCRIPTS: usize = 5;
/// Bytes of a first line that the kernel looks at.
const FIRST_LINE: usize = 256;

/// A script on the way to the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Script {
    /// Its path.
    pub path: String,
    /// The interpreter that its first line names.
    pub interpreter: String,
}

/// A command, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// Path of the ELF file, inside the root.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The environment it gets.
    pub environment: Vec<(String, String)>,
    /// Scripts on the way.
    pub scripts: Vec<Script>,
}

impl Started {
    /// A file that is given to a loader: no search, no first line.
    pub(super) fn given(request: &Request) -> Self {
        Self { program: request.command.clone(), arguments: request.arguments.clone(), environment: request.environment.clone(), scripts: Vec::new() }
    }
}

/// Finds what a command starts.
pub fn start(tree: &Tree, request: &Request) -> Result<Started, Error> {
    let mut environment = request.environment.clone();
    let mut word = request.command.clone();
    let mut arguments = request.arguments.clone();
    let mut scripts: Vec<Script> = Vec::new();
    for _ in 0..=MOST_SCRIPTS {
        let path = find(tree, &word, &environment)?;
        if let Some((next, rest)) = through_env(tree, &path, &arguments, &mut environment) {
            (word, arguments) = (next, rest);
            continue;
        }
        let Some((interpreter, argument)) = first_line(tree, &path)? else {
            return Ok(Started { program: path, arguments, environment, scripts });
        };
        arguments.insert(0, path.clone());
        arguments.splice(0..0, argument);
        scripts.push(Script { path, interpreter: interpreter.clone() });
        // The kernel opens it from the working directory; no PATH is asked.
        word = if interpreter.contains('/') { interpreter } else { format!("./{interpreter}") };
    }
    Err(Error { subject: request.command.clone(), problem: format!("more than {MOST_SCRIPTS} scripts that start one another") })
}

/// `execvp`: with a slash that path and no other, else the directories of `PATH`; what may not be executed is passed over.
fn find(tree: &Tree, word: &str, environment: &[(String, String)]) -> Result<String, Error> {
    let fail = |problem: String| Error { subject: word.to_string(), problem };
    if word.is_empty() {
        return Err(fail("an empty command".into()));
    }
    if word.contains('/') {
        let metadata = tree.metadata(word).map_err(|error| fail(error.to_string()))?;
        if !metadata.is_file() {
            return Err(fail("is no regular file".into()));
        }
        if metadata.permissions().mode() & 0o111 == 0 {
            return Err(fail("is not executable".into()));
        }
        return Ok(word.to_string());
    }
    let path = environment.iter().rev().find(|(name, _)| name == "PATH").map_or("/bin:/usr/bin", |(_, value)| value);
    let mut passed = None;
    for folder in path.split(':') {
        let candidate = if folder.is_empty() { word.to_string() } else { format!("{}/{word}", folder.trim_end_matches('/')) };
        let Ok(metadata) = tree.metadata(&candidate) else { continue };
        if metadata.is_file() && metadata.permissions().mode() & 0o111 != 0 {
            return Ok(candidate);
        }
        passed = Some(candidate);
    }
    Err(fail(passed.map_or_else(|| format!("not found in PATH ({path})"), |candidate| format!("not found in PATH; {candidate} is not executable"))))
}

/// Interpreter and argument of a script; `None` for an ELF file. What the kernel takes for no program (`ENOEXEC`) is the shell's, as `execvp` has it: a
/// text, an empty file, a first line that names no interpreter or none that fits into what the kernel reads. Bytes that are no text are an error.
fn first_line(tree: &Tree, path: &str) -> Result<Option<(String, Option<String>)>, Error> {
    let fail = |problem: String| Error { subject: path.to_string(), problem };
    let shell = Some(("/bin/sh".to_string(), None));
    let mut head = Vec::new();
    let opened = tree.file(path).and_then(std::fs::File::open);
    opened
        .and_then(|file| std::io::Read::read_to_end(&mut std::io::Read::take(file, FIRST_LINE as u64), &mut head))
        .map_err(|error| fail(error.to_string()))?;
    if head.starts_with(b"\x7fELF") {
        return Ok(None);
    }
    let Some(rest) = head.strip_prefix(b"#!") else {
        let text = head.split(|&byte| byte == b'\n').next().is_none_or(|line| !line.contains(&0));
        return if text { Ok(shell) } else { Err(fail("is neither an ELF file nor a script".into())) };
    };
    let ends = rest.iter().any(|byte| [b'\n', 0].contains(byte)) || head.len() < FIRST_LINE;
    let line = rest.split(|byte| [b'\n', 0].contains(byte)).next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let line = line.trim_start_matches([' ', '\t']);
    let (interpreter, argument) = match line.split_once([' ', '\t']) {
        Some(halves) => halves,
        None if ends => (line, ""),
        None => return Ok(shell),
    };
    if interpreter.is_empty() {
        return Ok(shell);
    }
    let argument = argument.trim_matches([' ', '\t']);
    Ok(Some((interpreter.to_string(), (!argument.is_empty()).then(|| argument.to_string()))))
}

/// What `env` would start, with the variables it sets; `None` if this is not `env`, or a use of it that is not understood.
fn through_env(tree: &Tree, path: &str, arguments: &[String], environment: &mut Vec<(String, String)>) -> Option<(String, Vec<String>)> {
    let real = tree.canonical(path).ok()?;
    if ![path, real.as_str()].iter().any(|path| path.rsplit('/').next() == Some("env")) {
        return None;
    }
    let mut left: Vec<String> = arguments.to_vec();
    let mut changed = environment.clone();
    // A dash, two of them or a variable end the options.
    let mut options = true;
    loop {
        let first = (!left.is_empty()).then(|| left.remove(0))?;
        let mut unset = |name: &str| changed.retain(|(key, _)| key != name);
        match first.as_str() {
            word if !options || !word.starts_with('-') => {
                let Some((name, value)) = word.split_once('=') else {
                    *environment = changed;
                    return Some((first, left));
                };
                unset(name);
                changed.push((name.to_string(), value.to_string()));
                options = false;
            }
            "--" => {
                options = false;
                if left.first().is_some_and(|word| word == "-") {
                    left.remove(0);
                    changed.clear();
                }
            }
            "-" => {
                changed.clear();
                options = false;
            }
            "-i" | "--ignore-environment" => changed.clear(),
            "-u" | "--unset" => unset(&left.first().cloned().inspect(|_| drop(left.remove(0)))?),
            "-S" | "--split-string" => {
                let text = (!left.is_empty()).then(|| left.remove(0))?;
                left.splice(0..0, split(&text)?);
            }
            word if word.starts_with("-S") => {
                let words = split(&word[2..])?;
                left.splice(0..0, words);
            }
            word if word.starts_with("-u") => unset(&word[2..]),
            word if word.starts_with("--unset=") => unset(&word["--unset=".len()..]),
            _ => return None,
        }
    }
}

/// Words of `env -S`; quotes, escapes and variables are left to the real one.
fn split(text: &str) -> Option<Vec<String>> {
    if text.contains(['"', '\'', '\\', '$', '#']) {
        return None;
    }
    Some(text.split_ascii_whitespace().map(Into::into).collect())
}
