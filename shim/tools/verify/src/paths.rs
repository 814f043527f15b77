//! The ways to take memory and to give it back, as `data/*.tsv` list them.

/// One way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// The entry point it is about, and what is special about it.
    pub name: &'static str,
    make: &'static str,
    undo: &'static str,
}

impl Path {
    /// Commands that take so many MiB.
    pub fn make(&self, mebibytes: u64) -> Vec<String> {
        self.make.split(' ').map(|command| command.replace("{size}", &format!("{mebibytes}M"))).collect()
    }

    /// Commands that give it back.
    pub fn undo(&self) -> Vec<String> {
        self.undo.split(' ').map(str::to_owned).collect()
    }
}

/// Ways to take device memory.
pub fn device() -> Vec<Path> {
    parse(include_str!("../data/paths.tsv"))
}

/// Ways to take host memory, which no quota holds.
pub fn host() -> Vec<Path> {
    parse(include_str!("../data/host.tsv"))
}

fn parse(table: &'static str) -> Vec<Path> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut cells = line.split('\t');
            let mut cell = || cells.next().unwrap_or_default();
            Path { name: cell(), make: cell(), undo: cell() }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_whole_and_named_once() {
        let all: Vec<Path> = device().into_iter().chain(host()).collect();
        assert!(all.len() > 20);
        for path in &all {
            assert!(path.make.contains("{size}") && !path.undo.is_empty(), "{path:?}");
            assert_eq!(all.iter().filter(|other| other.name == path.name).count(), 1, "{}", path.name);
        }
        assert_eq!(device()[0].make(8), ["hipMalloc,8M"]);
    }
}
