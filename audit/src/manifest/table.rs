//! `manifests/classes.json`: which classes must be interposed and why, and which actions of a shim fit a class.

use std::sync::Arc;

use serde::Deserialize;

use super::schema::{Action, BadManifest, Class, Rules, Size};

/// What follows from a class.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassRule {
    /// The class.
    pub class: Class,
    /// For `indirect-alloc`, which has a row for each.
    #[serde(default)]
    pub size: Option<Size>,
    /// True if a shim has to interpose every export of the class.
    pub must_interpose: bool,
    /// True if the class as a whole is a door left open on purpose.
    #[serde(default)]
    pub accepted: bool,
    /// True if holding the runtime's own allocating imports makes up for not interposing the export itself.
    pub coverable_below: bool,
    /// Actions that hold what the class asks for.
    pub actions: Vec<Action>,
    /// Why, in one clause.
    pub why: Arc<str>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema_version: u32,
    classes: Vec<ClassRule>,
}

/// One rule per class and size.
#[derive(Debug, Clone)]
pub struct ClassTable {
    rules: Vec<ClassRule>,
}

impl ClassTable {
    /// The table inside the program.
    pub fn embedded() -> Result<Self, BadManifest> {
        Self::read("manifests/classes.json", include_str!("../../../manifests/classes.json"))
    }

    /// Reads a table and checks that it answers for every class.
    pub fn read(file: &str, text: &str) -> Result<Self, BadManifest> {
        let rules = Rules { file };
        let parsed: File = rules.parse(text)?;
        rules.version(parsed.schema_version)?;
        for class in Class::ALL {
            let sizes: &[Option<Size>] = if class == Class::IndirectAlloc { &[Some(Size::Caller), Some(Size::Bounded)] } else { &[None] };
            for &size in sizes {
                if parsed.classes.iter().filter(|rule| (rule.class, rule.size) == (class, size)).count() != 1 {
                    return Err(
                        rules.broken(class.word(), format!("has exactly one row{}", size.map_or(String::new(), |size| format!(" of size {size:?}"))))
                    );
                }
            }
        }
        for rule in &parsed.classes {
            if rule.must_interpose && rule.accepted {
                return Err(rules.broken(rule.class.word(), "either has to be interposed or is accepted"));
            }
            if rule.actions.is_empty() || (rule.must_interpose && rule.actions.contains(&Action::Pass)) {
                return Err(rules.broken(rule.class.word(), "names the actions that fit; passing a call on holds nothing"));
            }
        }
        Ok(Self { rules: parsed.classes })
    }

    /// The rule of a class.
    pub fn rule(&self, class: Class, size: Option<Size>) -> &ClassRule {
        let found = self.rules.iter().find(|rule| rule.class == class && (rule.size.is_none() || rule.size == size));
        // `read` has seen a row for every class; an indirect allocation without a size is as strict as the strictest.
        found.unwrap_or_else(|| self.rules.iter().find(|rule| rule.class == class).unwrap_or(&self.rules[0]))
    }
}
