//! What library a file is. Names of targets stand in many (comgr, LLVM, rocBLAS); only ROCr's and HIP's own tables decide what is enumerated.

use std::path::Path;

use serde::Serialize;

use crate::elf::{Elf, SymbolTable};

/// What a file is, as far as targets are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Identity {
    /// `libhsa-runtime64`: decides which devices exist.
    Rocr,
    /// `libamdhip64`: decides which of them a HIP program sees.
    Hip,
    /// Anything else: has no say.
    Other,
}

/// Exports without which a library is not what its name says.
const ROCR_EXPORTS: [&str; 3] = ["hsa_init", "hsa_iterate_agents", "hsa_isa_from_name"];
const HIP_EXPORTS: [&str; 2] = ["hipInit", "hipGetDeviceCount"];

/// Names the library, and says in words why where it is neither runtime.
pub(super) fn read(image: &Elf, soname: Option<&str>, symbols: &SymbolTable<'_>) -> (Identity, Option<String>) {
    // Without a soname the loader knows a library by its file's name.
    let file_name = Path::new(image.file()).file_name().map(|name| name.to_string_lossy().into_owned());
    let Some(name) = soname.or(file_name.as_deref()) else { return (Identity::Other, Some("a file without a name".into())) };
    let (identity, exports): (_, &[&str]) = if is_named(name, "libhsa-runtime64") {
        (Identity::Rocr, &ROCR_EXPORTS)
    } else if is_named(name, "libamdhip64") {
        (Identity::Hip, &HIP_EXPORTS)
    } else {
        let what = if soname.is_some() { format!("the soname is {name}") } else { format!("{name}, without a soname") };
        return (Identity::Other, Some(what));
    };
    let exported = |wanted: &str| symbols.exports().any(|symbol| symbol.is_function() && symbol.name == wanted);
    match exports.iter().find(|wanted| !exported(wanted)) {
        None => (identity, None),
        Some(missing) => (Identity::Other, Some(format!("named {name}, but exports no {missing}"))),
    }
}

/// True for a file name that one of the two runtimes has, as it is installed or renamed by a wheel.
pub fn is_runtime(name: &str) -> bool {
    ["libhsa-runtime64", "libamdhip64"].iter().any(|library| is_named(name, library))
}

/// `libx.so`, `libx.so.1.18.0`, and the forms that wheels rename to: `libx-0123abcd.so.1`.
fn is_named(name: &str, library: &str) -> bool {
    let Some(rest) = name.strip_prefix(library) else { return false };
    let rest = match rest.strip_prefix('-') {
        Some(hashed) => hashed.trim_start_matches(|digit: char| digit.is_ascii_hexdigit()),
        None => rest,
    };
    rest == ".so" || rest.starts_with(".so.")
}

#[cfg(test)]
mod tests {
    use super::is_named;

    #[test]
    fn names_that_the_loader_and_wheels_give() {
        for name in ["libhsa-runtime64.so.1", "libhsa-runtime64.so", "libhsa-runtime64-1a2b3c4d.so.1.14.0"] {
            assert!(is_named(name, "libhsa-runtime64"), "{name}");
        }
        for name in ["libhsa-runtime64", "libhsa-runtime64x.so.1", "libhsa-runtime64.sox", "libhsa-runtime64-tools.so.1", "xlibhsa-runtime64.so"] {
            assert!(!is_named(name, "libhsa-runtime64"), "{name}");
        }
    }
}
