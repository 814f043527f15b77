//! Objects before a runtime that define the functions by which a program asks for its devices: the program then gets theirs.

use crate::elf::Elf;
use crate::gfx::identity::Identity;
use crate::gfx::preflight::reasons;
use crate::loader::{Object, Unknown};
use crate::manifest::{Action, InterposedList};

/// What a program calls to have the devices counted.
const ASKS: [(Identity, [&str; 2]); 2] = [(Identity::Rocr, ["hsa_init", "hsa_iterate_agents"]), (Identity::Hip, ["hipInit", "hipGetDeviceCount"])];

/// Objects in load order, each with the runtime that it is named as.
pub(super) fn find(objects: &[(&Object, Option<Identity>)]) -> Vec<Unknown> {
    let mut found = Vec::new();
    for (layer, asks) in ASKS {
        let Some(runtime) = objects.iter().position(|&(_, named)| named == Some(layer)) else { continue };
        let earlier = objects[..runtime].iter().filter(|(_, named)| named.is_none());
        found.extend(earlier.filter_map(|(object, _)| replaces(object, &asks)));
    }
    found
}

fn replaces(object: &Object, asks: &[&str]) -> Option<Unknown> {
    let read = || {
        let image = Elf::open(&object.file)?;
        let table = image.symbols()?;
        let name = asks.iter().find(|&&name| table.exports().any(|symbol| symbol.is_function() && symbol.name == name));
        Ok::<_, crate::elf::ElfError>(name.map(|&name| name.to_owned()))
    };
    match read() {
        Ok(None) => None,
        Ok(Some(name)) if passes(object, &name) => None,
        Ok(Some(name)) => Some(Unknown::new(&reasons::REPLACED, object.path.as_str(), format!("stands before the runtime and defines {name}"))),
        Err(error) => Some(Unknown::new(&reasons::RUNTIME, object.path.as_str(), format!("stands before the runtime: {error}"))),
    }
}

/// Our own shim hands these on; its list says so.
fn passes(object: &Object, name: &str) -> bool {
    let own = object.path.rsplit('/').next() == Some("libvrocm.so");
    own && InterposedList::own().is_ok_and(|list| list.row(name).is_some_and(|row| row.action == Some(Action::Pass)))
}
