//! The one label each export gets, and the finding that goes with it.

use std::sync::Arc;

use serde::Serialize;

use super::beneath::Verdict;
use super::runtime::RuntimeExport;
use super::shim::Match;
use super::{Context, Export, Runtime, Shim, checks};
use crate::finding::Finding;
use crate::manifest::{Action, Class, Judged};

/// Exactly one per export and audit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Label {
    /// The shim's definition preempts it.
    Interposed,
    /// Not interposed itself, but all the device memory it could take passes the shim beneath.
    CoveredBelow,
    /// Code gets the runtime's own function where it had to get the shim's.
    Open,
    /// Left open on purpose.
    Accepted,
    /// The class need not be interposed.
    OutOfScope,
    /// In no manifest: somebody has to look.
    Unclassified,
    /// The shim has the name, but a loader would not bind it.
    NotBound,
}

impl Label {
    /// All labels, in the order of the contract.
    pub const ALL: [Self; 7] =
        [Self::Interposed, Self::CoveredBelow, Self::Open, Self::Accepted, Self::OutOfScope, Self::Unclassified, Self::NotBound];

    /// The word that JSON and text use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Interposed => "interposed",
            Self::CoveredBelow => "covered-below",
            Self::Open => "open",
            Self::Accepted => "accepted",
            Self::OutOfScope => "out-of-scope",
            Self::Unclassified => "unclassified",
            Self::NotBound => "not-bound",
        }
    }
}

/// Labels one export.
#[expect(clippy::too_many_arguments, reason = "the label depends on the export, its judgement, both files and what lies beneath")]
pub(super) fn label(
    export: &RuntimeExport,
    judged: Option<Judged>,
    runtime: &Runtime<'_>,
    shim: &Shim<'_>,
    beneath: &Verdict,
    context: &Context<'_>,
    used: &mut [bool],
    findings: &mut Vec<Finding>,
) -> Export {
    let versioned = || export.node.as_ref().map_or_else(|| export.name.to_string(), |node| [&*export.name, "@", node].concat());
    let done = |label, must_interpose, reason: Arc<str>| Export {
        name: export.name.clone(),
        node: export.node.clone(),
        class: judged.map(|judged| judged.class),
        size: judged.and_then(|judged| judged.size),
        must_interpose,
        label,
        reason,
    };
    let finding = |check: &checks::Check, message: String| {
        let node = export.node.as_deref().map_or(serde_json::Value::Null, Into::into);
        let class = judged.map_or(serde_json::Value::Null, |judged| judged.class.word().into());
        check.finding(&runtime.file, message).symbol(&*export.name).evidence("node", node).evidence("class", class)
    };
    let Some(judged) = judged else {
        let reason = format!("in no manifest of family {}: what it does to GPU memory is unknown", runtime.family.name());
        findings.push(finding(&checks::UNCLASSIFIED, format!("{} is {reason}", versioned())));
        return done(Label::Unclassified, false, reason.into());
    };
    let rule = context.table.rule(judged.class, judged.size);
    let must = rule.must_interpose;
    match shim.look_up(&export.name, export.node.as_deref()) {
        Match::Binds(action) => {
            if let Some(action) = action.filter(|action| !rule.actions.contains(action)) {
                report_action(action, judged.class, must, &versioned(), &finding, findings);
            }
            return done(Label::Interposed, must, interposed_reason(action));
        }
        Match::Refused(why) => {
            let reason = format!("the shim defines it, but {why}");
            findings.push(finding(&checks::NOT_BOUND, format!("{}: {reason}: the runtime's own function runs", versioned())));
            return done(Label::NotBound, must, reason.into());
        }
        Match::Absent => {}
    }
    if !must {
        let label = if rule.accepted { Label::Accepted } else { Label::OutOfScope };
        return done(label, false, rule.why.clone());
    }
    let elsewhere = runtime.family.row(&export.name).is_some_and(|row| row.elsewhere);
    if rule.coverable_below && beneath.holds() && !elsewhere {
        return done(Label::CoveredBelow, true, "every allocating import of the runtime is interposed by the shim".into());
    }
    let accepted = context
        .acceptances
        .entries
        .iter()
        .enumerate()
        .find(|(_, entry)| !entry.expired(context.today) && entry.covers(runtime.family.name(), &export.name, judged.class, runtime.release));
    if let Some((position, entry)) = accepted {
        used[position] = true;
        return done(Label::Accepted, true, format!("accepted since {}: {}", entry.since, entry.reason).into());
    }
    let strictest = if judged.strictest { " (the stricter of the checked releases around it)" } else { "" };
    let reason = [judged.class.word(), strictest, ": ", &rule.why].concat();
    findings.push(finding(&checks::OPEN_DOOR, [&versioned(), " is open: ", &reason].concat()));
    done(Label::Open, true, reason.into())
}

fn interposed_reason(action: Option<Action>) -> Arc<str> {
    match action {
        None => "the shim's definition binds".into(),
        Some(action) => format!("the shim's row: {}", action.word()).into(),
    }
}

/// A row that does not hold what its class asks for. For a class that must be interposed this is an open door with a wrapper before it.
fn report_action(
    action: Action,
    class: Class,
    must: bool,
    versioned: &str,
    finding: &dyn Fn(&checks::Check, String) -> Finding,
    findings: &mut Vec<Finding>,
) {
    let check = if must { &checks::ACTION_MISMATCH } else { &checks::IDLE_ROW };
    let message = format!("{versioned} is wrapped, but its row only does `{}`, which holds nothing of class {class}", action.word());
    findings.push(finding(check, message).evidence("action", action.word()));
}
