//! A reading with the names and prototypes of a file of debug information.

use std::collections::BTreeSet;

use super::checks;
use super::subject::{Address, Subject};
use crate::code::debug::{self, Prototype};
use crate::elf::Result;
use crate::elf::debug::DebugFile;
use crate::finding::Finding;
use crate::manifest::Class;

/// Writes names to bodies, ways and core, and prototypes to exports. A file of another build is refused.
pub fn name(subject: &mut Subject, file: &DebugFile, findings: &mut Vec<Finding>) -> Result<()> {
    if subject.build_id.is_none() || subject.build_id != file.build_id {
        let of = |id: &Option<String>| id.clone().unwrap_or_else(|| "none".into());
        let problem = format!("{}, where {} has {}: debug information of another build", of(&file.build_id), subject.file, of(&subject.build_id));
        return Err(file.error("build-id", problem));
    }
    let names = debug::names(file)?;
    let at = |address: Address| names.get(&address.0).cloned();
    if let Some(core) = &mut subject.core {
        core.functions.iter_mut().for_each(|function| function.name = at(function.address));
    }
    let bodies: BTreeSet<u64> = subject.exports.iter().flat_map(|export| [Some(export.address), export.body]).flatten().map(|at| at.0).collect();
    let prototypes = debug::prototypes(file, &bodies)?;
    for export in &mut subject.exports {
        export.path.iter_mut().for_each(|step| step.name = step.to.and_then(at));
        export.internal = export.body.and_then(at).filter(|name| *name != export.name);
        let prototype = [Some(export.address), export.body].into_iter().flatten().find_map(|at| prototypes.get(&at.0));
        export.prototype = prototype.map(|prototype| prototype.text.clone());
        let suspect = prototype.filter(|prototype| export.class == Some(Class::Other) && prototype.out_pointer && prototype.size);
        findings.extend(suspect.map(|Prototype { text, .. }| {
            let message = format!("{}: the manifest says {}, but it takes a size and hands back a pointer: {text}", export.name, Class::Other);
            checks::SUSPICIOUS_PROTOTYPE.finding(&subject.file, message).symbol(export.name.as_str()).evidence("prototype", text.as_str())
        }));
    }
    subject.debug_file = Some(file.file().to_owned());
    Ok(())
}
