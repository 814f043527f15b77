//! The ways to take memory and to give it back, as `data/paths.tsv` lists them, and how a process fares on one.

use std::path::PathBuf;
use std::time::Duration;

use crate::driver::{Answer, Session, Status};
use crate::mock::Mock;

/// A row of a table of paths.
#[derive(Debug)]
pub struct Path {
    /// The entry point it is about, with a suffix where there are several ways.
    pub name: &'static str,
    /// What makes memory.
    pub make: Vec<String>,
    /// What gives it back.
    pub undo: Vec<String>,
}

impl Path {
    /// The entry points that the path calls.
    pub fn calls(&self) -> impl Iterator<Item = &str> {
        self.make.iter().chain(&self.undo).map(|command| command.split(',').next().unwrap_or_default())
    }
}

/// The rows of a table: lines of fields between tabs, `#` begins a comment.
pub fn rows(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect())
}

/// The paths of a table, with `size` where it has `{size}`, and the code objects of `fixtures/` where it names them.
pub fn paths_of(table: &'static str, size: &str) -> Vec<Path> {
    let commands = |cell: &str| {
        let filled = cell.replace("{size}", size);
        let filled = ["module", "managed"]
            .iter()
            .fold(filled, |text, name| text.replace(&format!("{{{name}}}"), &fixture(&format!("{name}.hsaco")).to_string_lossy()));
        filled.split(' ').map(str::to_owned).collect()
    };
    rows(table).map(|row| Path { name: row[0], make: commands(row[1]), undo: commands(row[2]) }).collect()
}

/// `data/paths.tsv`
pub fn paths(size: &str) -> Vec<Path> {
    paths_of(include_str!("../data/paths.tsv"), size)
}

/// A file of `fixtures/`.
pub fn fixture(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures")).join(name)
}

/// Gives the commands and says which fails first, and how: `hipMalloc=2`; `0` if none does.
pub fn first_failure(session: &mut Session, commands: &[String]) -> String {
    for command in commands {
        let answer = session.ask(command);
        if answer.as_ref().is_some_and(Answer::is_ok) {
            continue;
        }
        let name = command.split(',').next().unwrap_or_default();
        let status = match answer.map(|answer| answer.status) {
            Some(Status::Code(number)) => number.to_string(),
            Some(other) => format!("{other:?}").to_lowercase(),
            None => "gone".to_owned(),
        };
        return format!("{name}={status}");
    }
    "0".to_owned()
}

/// What a card holds when it has not changed for a while: 6.4.3 gives graph memory back on a thread of its own.
pub fn settled(mock: &Mock) -> u64 {
    let mut last = mock.card(0).asked;
    let mut same = 0;
    while same < 5 {
        std::thread::sleep(Duration::from_millis(10));
        let now = mock.card(0).asked;
        same = if now == last { same + 1 } else { 0 };
        last = now;
    }
    last
}
