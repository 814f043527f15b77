//! rocjitsu's simulator configuration: which devices the emulated machine shows.
//!
//! Read: `vm.gpu.device` (one or a list, at each of the three steps), and `dbt_guest` of an enabled guest with the host devices beneath it.
//! Fields that are not known are passed over, as rocjitsu does. A `config_path` hand-over file is followed: first line, one CR at its end
//! removed, nothing else trimmed; a relative path in it is one from the working directory.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::device::Device;
use super::dialect::{self, LARGEST};
use super::topology;
use crate::gfx::regular;

/// File name of the hand-over file.
const HAND_OVER: &str = "config_path";
/// Fields that are read; rocjitsu refuses a file that has one of them twice.
const FIELDS: [&str; 10] =
    ["vm", "gpu", "device", "gfx_target_version", "device_id", "dbt_guest", "enabled", "guest_device", "execution_backend", "simulator_config"];

/// Why a configuration names no target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", file.display())]
pub struct BadConfig {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it, with the field or the place.
    pub problem: String,
}

fn bad(file: &Path, problem: impl Into<String>) -> BadConfig {
    BadConfig { file: file.to_owned(), problem: problem.into() }
}

/// The devices of a configuration, or of the one that a hand-over file (a file called `config_path`) names. `sysfs` is where a guest on real
/// hardware finds its hosts. Never empty.
pub fn devices(file: &Path, sysfs: &[&Path]) -> Result<Vec<Device>, BadConfig> {
    let file = if file.file_name().is_some_and(|name| name == HAND_OVER) { handed_over(file)? } else { file.to_owned() };
    let value = read(&file)?;
    let mut devices = own(&value, &file)?;
    if let Some(guest) = value.get("dbt_guest")
        && enabled(guest, &file)?
    {
        devices = guest_and_hosts(guest, &file, devices, sysfs)?;
    }
    if devices.is_empty() {
        return Err(bad(&file, "vm.gpu.device is missing: it describes no device"));
    }
    Ok(devices)
}

/// What a hand-over file names.
fn handed_over(file: &Path) -> Result<PathBuf, BadConfig> {
    let bytes = bytes(file)?;
    let line = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() {
        return Err(bad(file, "its first line is empty: it hands over no configuration"));
    }
    Ok(PathBuf::from(OsStr::from_bytes(line)))
}

fn beside(file: &Path, path: &Path) -> PathBuf {
    file.parent().map_or_else(|| path.to_owned(), |folder| folder.join(path))
}

fn bytes(file: &Path) -> Result<Vec<u8>, BadConfig> {
    let mut bytes = Vec::new();
    let read = regular::open(file).and_then(|file| file.take(LARGEST as u64 + 1).read_to_end(&mut bytes));
    read.map_err(|error| bad(file, error.to_string()))?;
    Ok(bytes)
}

fn read(file: &Path) -> Result<Value, BadConfig> {
    let bytes = bytes(file)?;
    // A comment may be in another character set; no field that is read here is.
    let text = String::from_utf8_lossy(&bytes);
    dialect::parse(text.strip_prefix('\u{feff}').unwrap_or(&text), &FIELDS).map_err(|error| bad(file, error.to_string()))
}

/// An object, or each of a list.
fn each(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        one => std::slice::from_ref(one),
    }
}

/// The devices under `vm.gpu.device`.
fn own(value: &Value, file: &Path) -> Result<Vec<Device>, BadConfig> {
    let step = |values: Vec<&'_ Value>, field: &str| -> Vec<Value> {
        values.into_iter().filter_map(|value| value.get(field)).flat_map(each).cloned().collect()
    };
    let (vms, mut level) = (step(vec![value], "vm"), Vec::new());
    for field in ["gpu", "device"] {
        level = step(if field == "gpu" { vms.iter().collect() } else { level.iter().collect() }, field);
    }
    let several = level.len() > 1;
    let name = |index: usize| if several { format!("vm.gpu.device[{index}]") } else { "vm.gpu.device".into() };
    level.iter().enumerate().map(|(index, value)| device(value, file, &name(index))).collect()
}

fn device(value: &Value, file: &Path, field: &str) -> Result<Device, BadConfig> {
    let number = |key: &str| match value.get(key) {
        None => Ok(None),
        Some(number) => dialect::unsigned(number).map(Some).ok_or_else(|| bad(file, format!("{field}.{key} is no unsigned number"))),
    };
    let version = number("gfx_target_version")?.unwrap_or(0);
    let gfx_target_version = u32::try_from(version).map_err(|_| bad(file, format!("{field}.gfx_target_version is {version}, beyond 32 bits")))?;
    if gfx_target_version == 0 {
        return Err(bad(file, format!("{field}.gfx_target_version is missing or 0: the device has no target")));
    }
    let device_id = number("device_id")?.and_then(|id| u16::try_from(id).ok());
    Ok(Device { from: format!("{} {field}", file.display()), node: None, gfx_target_version, device_id })
}

/// Whether a guest is switched on; a value that is no flag is no "off".
fn enabled(guest: &Value, file: &Path) -> Result<bool, BadConfig> {
    match guest.get("enabled") {
        None | Some(Value::Null) => Ok(false),
        Some(flag) => dialect::flag(flag).ok_or_else(|| bad(file, "dbt_guest.enabled is no flag")),
    }
}

/// Whether the backend is the simulator; without a word the hardware is.
fn simulated(guest: &Value, file: &Path) -> Result<bool, BadConfig> {
    let backend = match guest.get("execution_backend") {
        None => return Ok(false),
        Some(Value::String(name)) if name == "simulator" => Some(1),
        Some(Value::String(name)) if name == "hardware" => Some(0),
        Some(number) => dialect::unsigned(number),
    };
    match backend {
        Some(0) => Ok(false),
        Some(1) => Ok(true),
        _ => Err(bad(file, "dbt_guest.execution_backend is neither hardware nor simulator")),
    }
}

/// An enabled guest shows its own device beside those of the hosts: the simulator's, or this machine's.
fn guest_and_hosts(guest: &Value, file: &Path, own: Vec<Device>, sysfs: &[&Path]) -> Result<Vec<Device>, BadConfig> {
    let mut devices = Vec::new();
    let shown = guest.get("guest_device").ok_or_else(|| bad(file, "dbt_guest is enabled and dbt_guest.guest_device is missing"))?;
    devices.push(device(shown, file, "dbt_guest.guest_device")?);
    let simulated = simulated(guest, file)?;
    let named = match guest.get("simulator_config") {
        None | Some(Value::Null) => None,
        Some(Value::String(path)) => Some(path).filter(|path| !path.is_empty()),
        Some(_) => return Err(bad(file, "dbt_guest.simulator_config is no string")),
    };
    match (simulated, named) {
        (false, Some(_)) => return Err(bad(file, "dbt_guest.simulator_config is set and the backend is no simulator, which rocjitsu refuses")),
        (false, None) => {
            devices.extend(topology::devices(sysfs).map_err(|error| bad(file, format!("the guest runs on real hardware, and {error}")))?);
        }
        (true, None) => devices.extend(own),
        (true, Some(path)) => {
            let host = beside(file, Path::new(path));
            devices.extend(self::own(&read(&host)?, &host)?);
        }
    }
    Ok(devices)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::devices;

    fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("written");
        path
    }

    fn versions(file: &Path) -> Result<Vec<u32>, String> {
        devices(file, &[]).map(|devices| devices.iter().map(|device| device.gfx_target_version).collect()).map_err(|error| error.to_string())
    }

    const PLAIN: &str =
        "// an MI300X\n{ vm: { gpu: { device: { gfx_target_version: 90402, revision_id: 1, num_sdma_queues_per_engine: 8, }, }, }, topology: {}, }";

    #[test]
    fn c8_c9_a_config_with_comments_and_fields_of_newer_kinds() {
        let dir = tempfile::tempdir().expect("a folder");
        assert_eq!(versions(&write(dir.path(), "a.json", PLAIN)), Ok(vec![90402]));
        for (text, problem) in [
            ("{", "line 1, column 2"),
            ("{}", "vm.gpu.device"),
            ("{vm:{gpu:{device:{}}}}", "gfx_target_version is missing or 0"),
            ("{vm:{gpu:{device:{gfx_target_version:'x'}}}}", "no unsigned number"),
            ("{vm:{gpu:{device:{gfx_target_version:true}}}}", "no unsigned number"),
            ("{vm:{},vm:{gpu:{device:{gfx_target_version:90402}}}}", "twice"),
        ] {
            let said = versions(&write(dir.path(), "b.json", text)).expect_err(text);
            assert!(said.contains(problem) && said.contains("b.json"), "{said}");
        }
        let twice = "{_comment:1,_comment:2,vm:{gpu:{device:{name:'a',name:'b',gfx_target_version:90402}}}}";
        assert_eq!(versions(&write(dir.path(), "c.json", twice)), Ok(vec![90402]), "fields that nobody reads");
        let latin = [b"// f\xfcr\n".as_slice(), PLAIN.as_bytes()].concat();
        std::fs::write(dir.path().join("latin.json"), latin).expect("written");
        assert_eq!(versions(&dir.path().join("latin.json")), Ok(vec![90402]), "a comment in another character set");
        assert!(versions(&dir.path().join("absent.json")).is_err());
        assert!(versions(dir.path()).expect_err("a folder").contains("regular file"));
    }

    #[test]
    fn several_devices_make_a_set() {
        let dir = tempfile::tempdir().expect("a folder");
        let text = "{vm:{gpu:[{device:{gfx_target_version:90402}},{device:{gfx_target_version:0x1d6b4}}]}}";
        assert_eq!(versions(&write(dir.path(), "a.json", text)), Ok(vec![90402, 120_500]));
        let from = |text: &str| -> Vec<String> {
            let file = write(dir.path(), "b.json", text);
            let said = |device: &super::Device| device.from.strip_prefix(&format!("{} ", file.display())).expect("names its file").to_owned();
            devices(&file, &[]).expect("read").iter().map(said).collect()
        };
        assert_eq!(from(text), ["vm.gpu.device[0]", "vm.gpu.device[1]"]);
        assert_eq!(from(PLAIN), ["vm.gpu.device"]);
    }

    #[test]
    fn a_config_of_the_largest_size_is_read_whole_and_a_larger_one_is_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let sized = |size: usize| versions(&write(dir.path(), "a.json", &format!("{}{PLAIN}", " ".repeat(size - PLAIN.len()))));
        assert_eq!(sized(super::LARGEST), Ok(vec![90402]));
        assert!(sized(super::LARGEST + 1).expect_err("too large").contains("at most"));
    }

    #[test]
    fn c18_an_enabled_guest_shows_itself_and_its_hosts() {
        let dir = tempfile::tempdir().expect("a folder");
        let guest = |rest: &str| {
            format!("{{dbt_guest:{{guest_device:{{gfx_target_version:120500}},{rest}}}, vm:{{gpu:{{device:{{gfx_target_version:90402}}}}}}}}")
        };
        let ask = |rest: &str| versions(&write(dir.path(), "a.json", &guest(rest)));
        assert_eq!(ask("enabled:true,execution_backend:'simulator'"), Ok(vec![120_500, 90402]));
        assert_eq!(ask("enabled:'true',execution_backend:'1'"), Ok(vec![120_500, 90402]));
        for off in ["enabled:'false',execution_backend:'no such'", "enabled:false,execution_backend:'simulator'", "enabled:null", "enabled:0", ""] {
            assert_eq!(ask(off), Ok(vec![90402]), "{off}");
        }
        assert!(ask("enabled:'perhaps'").expect_err("no flag").contains("dbt_guest.enabled"));
        write(dir.path(), "host.json", "{vm:{gpu:{device:{gfx_target_version:110000}}}}");
        assert_eq!(
            ask("enabled:1,execution_backend:1,simulator_config:'host.json'"),
            Ok(vec![120_500, 110_000]),
            "a relative path is beside the file"
        );
        assert!(ask("enabled:1,execution_backend:'hardware',simulator_config:'host.json'").is_err());
        for odd in ["'Simulator'", "2", "true", "'simulator '"] {
            let said = ask(&format!("enabled:1,execution_backend:{odd}")).expect_err(odd);
            assert!(said.contains("neither hardware nor simulator"), "{odd}: {said}");
        }
        assert!(ask("enabled:1,execution_backend:1,simulator_config:1").expect_err("a number").contains("no string"));
        assert!(ask("enabled:1,execution_backend:'hardware'").expect_err("no KFD here").contains("real hardware"));
    }

    #[test]
    fn c19_the_hand_over_file_keeps_spaces_and_drops_one_cr() {
        let dir = tempfile::tempdir().expect("a folder");
        write(dir.path(), " a b ", PLAIN);
        let hand = |text: &str| versions(&write(dir.path(), "config_path", text));
        let in_folder = |text: &str| hand(&format!("{}/{text}", dir.path().display()));
        assert_eq!(in_folder(" a b \r\n38144\n"), Ok(vec![90402]));
        assert_eq!(in_folder(" a b "), Ok(vec![90402]));
        assert!(in_folder("a b\n").is_err(), "nothing else is trimmed");
        assert!(in_folder(" a b \r\r\n").is_err(), "one CR, not two");
        assert!(hand(" a b ").is_err(), "a relative path is not beside the file: rocjitsu opens it from its working directory");
        assert!(hand("").expect_err("empty").contains("first line is empty"));
        assert!(hand("\n a b ").is_err());
        assert!(versions(&dir.path().join("x/config_path")).is_err());
    }
}
