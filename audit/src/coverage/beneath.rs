//! Whether the shim holds a runtime from beneath: at the imports through which the runtime itself takes device memory.
//!
//! An export that is not interposed is still held if *every* import of the whole runtime that moves memory of the card is interposed and
//! is bound by a relocation that a preload wins. One import short, or none known, and nothing is said to be covered. A release that may
//! stay open (an acceptance says why) is not missing: what it gives back nobody was charged for. An allocator cannot be excused like that.

use serde::Serialize;

use super::shim::Match;
use super::{Context, Runtime, Shim};
use crate::manifest::{Acceptance, Class};

/// What was found beneath.
#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    /// The family beneath, where there is one.
    pub family: Option<String>,
    /// Allocating and freeing imports of the runtime that the shim holds.
    pub held: Vec<String>,
    /// Frees that it does not hold, and that an acceptance leaves open.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accepted: Vec<String>,
    /// Those it does not hold, each with the reason.
    pub open: Vec<Gap>,
    /// Why nothing is covered, in one sentence; absent if everything is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

/// An import that is not held.
#[derive(Debug, Clone, Serialize)]
pub struct Gap {
    /// The import.
    pub name: String,
    /// Why it is not held.
    pub reason: String,
}

impl Verdict {
    /// True if whatever the runtime takes from beneath passes the shim.
    pub fn holds(&self) -> bool {
        self.because.is_none()
    }

    fn nothing(family: Option<String>, because: &str) -> Self {
        Self { family, held: Vec::new(), accepted: Vec::new(), open: Vec::new(), because: Some(because.into()) }
    }
}

/// Looks at every import of the runtime that the family beneath classes as one that must be interposed and that moves memory.
pub(super) fn judge(runtime: &Runtime<'_>, shim: &Shim<'_>, context: &Context<'_>, used: &mut [bool]) -> Verdict {
    let Some(name) = runtime.family.identity.beneath.clone() else {
        return Verdict::nothing(None, "this family takes memory from the kernel itself: there is nothing beneath to interpose");
    };
    let Some(beneath) = context.families.iter().find(|family| family.name() == name) else {
        return Verdict::nothing(Some(name), "no manifest for the family beneath");
    };
    let mut verdict = Verdict { family: Some(name), held: Vec::new(), accepted: Vec::new(), open: Vec::new(), because: None };
    let mut allocating = 0;
    for import in &runtime.imports {
        // Which release of the family beneath will be there is not known from this file: the stricter judgement counts.
        let Some(judged) = beneath.judge(&import.name, None, context.table) else {
            verdict.open.push(Gap { name: import.name.clone(), reason: "in no manifest of the family beneath".into() });
            continue;
        };
        if !beneath.moves_memory(&import.name, judged.class) || !context.table.rule(judged.class, judged.size).must_interpose {
            continue;
        }
        allocating += usize::from(judged.class != Class::Free);
        match shim.look_up(&import.name, import.node.as_deref()) {
            Match::Binds(_) if import.preload_wins => verdict.held.push(import.name.clone()),
            Match::Binds(_) => {
                verdict.open.push(Gap { name: import.name.clone(), reason: "no relocation binds it by name, so a preload does not win it".into() });
            }
            Match::Refused(why) => verdict.open.push(Gap { name: import.name.clone(), reason: format!("the shim defines it, but {why}") }),
            Match::Absent => match accepted(beneath.name(), &import.name, judged.class, context) {
                Some(position) => {
                    used[position] = true;
                    verdict.accepted.push(import.name.clone());
                }
                None => verdict.open.push(Gap { name: import.name.clone(), reason: format!("{}, not interposed", judged.class) }),
            },
        }
    }
    verdict.because = if allocating == 0 {
        Some("the runtime imports no known allocator of the family beneath".into())
    } else if verdict.open.is_empty() {
        None
    } else {
        Some(format!("{} of {} memory-moving imports are not held", verdict.open.len(), verdict.open.len() + verdict.held.len()))
    };
    verdict
}

/// The acceptance of a free of the family beneath, whatever its release.
fn accepted(family: &str, name: &str, class: Class, context: &Context<'_>) -> Option<usize> {
    let fits = |entry: &Acceptance| class == Class::Free && !entry.expired(context.today) && entry.covers(family, name, class, None);
    context.acceptances.entries.iter().position(fits)
}
