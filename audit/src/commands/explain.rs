//! `vrocm-audit explain`: what a check means, or what an export does and how that is known.

use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;

use super::{Result, checks};
use crate::cli::Explain;
use crate::finding::Check;
use crate::manifest::schema::Evidence;
use crate::manifest::{ClassTable, Family};

pub(super) fn run(arguments: &Explain) -> Result<ExitCode> {
    let topic = arguments.topic.as_str();
    let text = match checks().find(|check| check.id == topic) {
        Some(check) => explain_check(check),
        None => explain_export(topic)?,
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn explain_check(check: &Check) -> String {
    let paragraph = |head: &str, text: &str| format!("{head:<8} {text}\n");
    [
        format!("{} ({})\n", check.id, check.severity.word()),
        paragraph("what", check.what),
        paragraph("why", check.why),
        paragraph("fix", check.fix),
        paragraph("source", check.source),
    ]
    .concat()
}

fn explain_export(name: &str) -> Result<String> {
    let table = ClassTable::embedded()?;
    let families = Family::embedded()?;
    let mut text = String::new();
    for family in &families {
        let Some(judgement) = family.judgement(name)? else { continue };
        let rule = table.rule(judgement.class, judgement.size);
        text += &format!("{name} ({})\n", family.identity.title);
        text +=
            &format!("  class      {}{}\n", judgement.class, judgement.decides.as_deref().map_or(String::new(), |decides| format!(": {decides}")));
        text += &format!("  interpose  {}: {}\n", if rule.must_interpose { "must" } else { "need not" }, rule.why);
        for build in family.builds {
            let export = build.exports().find(|export| export.name == name);
            let found = export.map_or("not exported".into(), |export| export.node.map_or(name.to_string(), |node| format!("{name}@{node}")));
            let other = judgement.by_version.iter().find(|other| other.versions.contains(&build.release));
            let class = other.filter(|_| export.is_some()).map_or(String::new(), |other| format!(", there {}", other.class));
            text += &format!("  {:<9}  {found}{class}\n", build.release.to_string());
        }
        text += &evidence(&judgement.evidence);
        for other in &judgement.by_version {
            text += &evidence(&other.evidence);
        }
        if let Some(note) = &judgement.note {
            text += &format!("  note       {note}\n");
        }
    }
    if text.is_empty() {
        bail!("{name}: neither a check nor an export in any manifest; checks are {}", checks().map(|check| check.id).collect::<Vec<_>>().join(", "));
    }
    Ok(text)
}

fn evidence(items: &[Evidence]) -> String {
    items.iter().map(|item| format!("  {:<9}  {} ({})\n", format!("{:?}", item.kind).to_lowercase(), item.says, item.at)).collect()
}
