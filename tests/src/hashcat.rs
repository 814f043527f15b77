//! Debian's hashcat over HIP 7.2.4: a real program that opens the runtime by `dlopen` and finds everything by `dlsym`.

use std::os::unix::fs::symlink;
use std::path::Path;

use crate::corpus::{self, Package};
use crate::mock::{self, Mock};
use crate::runtime::Runtime;

const PACKAGES: [Package; 3] = ["hashcat_", "libminizip1_", "libxxhash0_"];

/// Files that hashcat looks for before it lists devices; it does not read them for that.
const SOURCES: [&str; 15] = [
    "m00400-pure.cl",
    "inc_cipher_aes.cl",
    "inc_cipher_serpent.cl",
    "inc_cipher_twofish.cl",
    "inc_common.cl",
    "inc_comp_multi_bs.cl",
    "inc_comp_multi.cl",
    "inc_comp_single_bs.cl",
    "inc_comp_single.cl",
    "inc_rp_optimized.cl",
    "inc_rp_optimized.h",
    "inc_simd.cl",
    "inc_scalar.cl",
    "inc_types.h",
    "inc_vendor.h",
];

/// What `hashcat -I` prints, or what is missing. `preload` comes before everything else.
pub fn information(mock: &Mock, preload: Option<&Path>, environment: &[(&str, &str)]) -> Result<String, String> {
    let runtime = Runtime::find("7.2.4")?;
    let absent: Vec<Package> = PACKAGES.into_iter().filter(|&name| corpus::package(name).is_none()).collect();
    let [Some(hashcat), Some(minizip), Some(xxhash)] = PACKAGES.map(corpus::package) else { return Err(corpus::missing("hashcat", &absent)) };
    let home = mock.folder().join("hashcat");
    let loader = install(runtime, &hashcat, &home).map_err(|error| format!("{}: {error}", home.display()))?;
    let libraries = "usr/lib/x86_64-linux-gnu";
    let path = format!("{}:{}:{}", runtime.library_path(), minizip.join(libraries).display(), xxhash.join(libraries).display());
    let mut command = std::process::Command::new(loader);
    command.args(["--library-path", &path]);
    if let Some(preload) = preload {
        command.arg("--preload").arg(preload);
    }
    command.arg(hashcat.join("usr/bin/hashcat")).arg("-I").current_dir(&home).env("HOME", &home);
    command.envs(mock.environment()).envs(environment.iter().copied());
    let output = command.output().map_err(|error| format!("hashcat: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// hashcat takes the folder of its own program for its home, and that is the loader's when the loader starts it: a copy of the loader in a folder of ours.
fn install(runtime: &Runtime, hashcat: &Path, home: &Path) -> std::io::Result<std::path::PathBuf> {
    let loader = home.join("loader");
    if loader.exists() {
        return Ok(loader);
    }
    std::fs::create_dir_all(home.join("OpenCL"))?;
    for name in SOURCES {
        std::fs::write(home.join("OpenCL").join(name), "")?;
    }
    symlink(hashcat.join("usr/lib/hashcat/modules"), home.join("modules"))?;
    std::fs::copy(runtime.loader.as_deref().unwrap_or(mock::library_folder()), &loader)?;
    Ok(loader)
}
