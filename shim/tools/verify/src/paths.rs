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
    /// Commands that take so many MiB. `code` answers what stands for `{module}`: a file of code with so many bytes.
    pub fn make(&self, mebibytes: u64, code: impl Fn(u64) -> Result<String, String>) -> Result<Vec<String>, String> {
        let mut filled = self.make.replace("{size}", &format!("{mebibytes}M"));
        if filled.contains("{module}") {
            filled = filled.replace("{module}", &code(mebibytes << 20)?);
        }
        Ok(filled.split(' ').map(str::to_owned).collect())
    }

    /// Commands that give it back.
    pub fn undo(&self) -> Vec<String> {
        self.undo.split(' ').map(str::to_owned).collect()
    }

    /// The entry points that it calls.
    pub fn calls(&self) -> impl Iterator<Item = &'static str> {
        self.make.split(' ').chain(self.undo.split(' ')).map(|command| command.split(',').next().unwrap_or_default())
    }
}

/// Ways to take device memory through HIP.
pub fn device() -> Vec<Path> {
    parse(include_str!("../data/paths.tsv"))
}

/// Ways to take device memory through HSA.
pub fn beneath() -> Vec<Path> {
    parse(include_str!("../data/hsa.tsv"))
}

/// Ways to take memory of the host, which no quota holds. Some releases take the card's for one of them.
pub fn host() -> Vec<Path> {
    parse(include_str!("../data/host.tsv"))
}

/// All of them.
pub fn all() -> Vec<Path> {
    device().into_iter().chain(beneath()).chain(host()).collect()
}

/// Entry points that take memory, are interposed and are tried by no path, each with the reason.
pub fn untried() -> Vec<(&'static str, &'static str)> {
    lines(include_str!("../data/untried.tsv")).filter_map(|line| line.split_once('\t')).collect()
}

fn lines(table: &'static str) -> impl Iterator<Item = &'static str> {
    table.lines().filter(|line| !line.starts_with('#'))
}

fn parse(table: &'static str) -> Vec<Path> {
    lines(table)
        .map(|line| {
            let mut cells = line.split('\t');
            let mut cell = || cells.next().unwrap_or_default();
            Path { name: cell(), make: cell(), undo: cell() }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use vrocm_audit::manifest::{Class, ClassTable, Family, InterposedList};

    use super::*;

    #[test]
    fn every_line_is_whole_and_named_once() {
        let all = all();
        assert!(all.len() > 40);
        for path in &all {
            assert!(path.make.contains('{') && !path.undo.is_empty(), "{path:?}");
            assert_eq!(all.iter().filter(|other| other.name == path.name).count(), 1, "{}", path.name);
        }
        let code = |bytes: u64| Ok(format!("<{bytes}>"));
        assert_eq!(device()[0].make(8, code), Ok(vec!["hipMalloc,8M".to_owned()]));
        let module = device().into_iter().find(|path| path.name == "hipModuleLoad").unwrap();
        assert_eq!(module.make(1, code), Ok(vec!["hipModuleLoad,<1048576>".to_owned()]));
        assert!(module.make(1, |_| Err(String::new())).is_err());
    }

    /// What the library charges and what the manifests say has to be held, against what is tried here.
    #[test]
    fn every_allocator_that_is_interposed_is_tried_or_says_why_not() {
        let (table, families, list) = (ClassTable::embedded().unwrap(), Family::embedded().unwrap(), InterposedList::own().unwrap());
        let tried: BTreeSet<&str> = all().iter().flat_map(Path::calls).collect();
        let untried = untried();
        let mut must: BTreeSet<&str> = BTreeSet::new();
        for family in &families {
            for build in family.builds {
                for export in build.exports() {
                    let Some(judged) = family.judge(export.name, Some(build.release), &table) else { panic!("{} is in no manifest", export.name) };
                    let takes = matches!(judged.class, Class::DeviceAlloc | Class::ManagedAlloc | Class::IndirectAlloc);
                    let held = list.row(export.name).is_some();
                    if takes && held && table.rule(judged.class, judged.size).must_interpose {
                        must.insert(export.name);
                    }
                }
            }
        }
        assert!(must.len() > 35, "{must:?}");
        let reason = |name: &str| untried.iter().find(|(known, _)| *known == name).map(|(_, why)| *why);
        let missing: Vec<&&str> = must.iter().filter(|name| !tried.contains(**name) && reason(name).is_none_or(str::is_empty)).collect();
        assert!(missing.is_empty(), "tried by no path, and data/untried.tsv does not say why: {missing:?}");
        for (name, _) in untried {
            assert!(must.contains(name) && !tried.contains(name), "{name} is tried, or need not be: strike it from data/untried.tsv");
        }
    }
}
