//! The GPUs of a machine as KFD lists them in sysfs: `nodes/<n>/gpu_id` and `nodes/<n>/properties`.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::device::Device;

/// Where KFD lists its nodes, the first that exists.
pub const USUAL: [&str; 2] = ["/sys/devices/virtual/kfd/kfd/topology/nodes", "/sys/class/kfd/kfd/topology/nodes"];
/// A properties file takes about 2 kB.
const LARGEST: u64 = 1 << 16;
/// Nodes of the largest machine, with room.
const MOST_NODES: usize = 1024;

/// Why a topology gives no device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTopology {
    /// No folder of nodes.
    #[error("no KFD topology is here (looked for {0})")]
    Absent(String),
    /// Nodes, and none is a GPU.
    #[error("{}: KFD lists no GPU", .0.display())]
    NoGpu(PathBuf),
    /// A file that does not say what it should.
    #[error("{}: {problem}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

fn unreadable(file: &Path, problem: impl Into<String>) -> BadTopology {
    BadTopology::Unreadable { file: file.to_owned(), problem: problem.into() }
}

/// The GPUs below the first of these folders that exists, by node number. Never empty.
pub fn devices(folders: &[&Path]) -> Result<Vec<Device>, BadTopology> {
    let Some(folder) = folders.iter().find(|folder| folder.is_dir()) else {
        return Err(BadTopology::Absent(folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ")));
    };
    let unreadable = |error: std::io::Error| unreadable(folder, error.to_string());
    let mut nodes = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        nodes.extend(entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
        if nodes.len() > MOST_NODES {
            return Err(self::unreadable(folder, format!("more than {MOST_NODES} nodes")));
        }
    }
    nodes.sort_unstable();
    let mut devices = Vec::new();
    for node in nodes {
        devices.extend(device(&folder.join(node.to_string()), node)?);
    }
    if devices.is_empty() { Err(BadTopology::NoGpu(folder.to_path_buf())) } else { Ok(devices) }
}

/// One node; `None` for a CPU.
fn device(folder: &Path, node: u32) -> Result<Option<Device>, BadTopology> {
    let id = folder.join("gpu_id");
    let text = small(&id)?;
    let gpu_id: u64 = text.trim().parse().map_err(|_| unreadable(&id, "is no number"))?;
    if gpu_id == 0 {
        return Ok(None);
    }
    let file = folder.join("properties");
    let properties = small(&file)?;
    let value = |name: &str| {
        let mut words = properties.lines().map(str::split_whitespace);
        words.find_map(|mut words| (words.next() == Some(name)).then(|| words.next()?.parse::<u64>().ok())?)
    };
    // A kernel before 5.14 has no version; then the thunk's table of device ids is all there is.
    let version = value("gfx_target_version").unwrap_or(0);
    let gfx_target_version = u32::try_from(version).map_err(|_| unreadable(&file, "gfx_target_version is beyond 32 bits"))?;
    let device_id = value("device_id").and_then(|id| u16::try_from(id).ok());
    Ok(Some(Device { from: format!("KFD node {node}"), node: Some(node), gfx_target_version, device_id }))
}

fn small(file: &Path) -> Result<String, BadTopology> {
    let problem = |error: std::io::Error| unreadable(file, error.to_string());
    if !std::fs::metadata(file).map_err(problem)?.is_file() {
        return Err(unreadable(file, "is no regular file"));
    }
    let mut text = String::new();
    File::open(file).map_err(problem)?.take(LARGEST).read_to_string(&mut text).map_err(problem)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{BadTopology, devices};

    fn node(folder: &Path, number: &str, gpu_id: &str, properties: &str) {
        let node = folder.join(number);
        std::fs::create_dir(&node).expect("made");
        std::fs::write(node.join("gpu_id"), gpu_id).expect("written");
        std::fs::write(node.join("properties"), properties).expect("written");
    }

    #[test]
    fn gpus_by_node_number_without_cpus() {
        let dir = tempfile::tempdir().expect("a folder");
        node(dir.path(), "10", "9\n", "simd_count 1\ngfx_target_version 120500\ndevice_id 30000\n");
        node(dir.path(), "2", "8\n", "gfx_target_version 90402\ndevice_id 29857\n");
        node(dir.path(), "0", "0\n", "cpu_cores_count 8\n");
        let found = devices(&[Path::new("/absent"), dir.path()]).expect("two");
        assert_eq!(
            found.iter().map(|device| (device.node, device.gfx_target_version, device.device_id)).collect::<Vec<_>>(),
            [(Some(2), 90402, Some(29857)), (Some(10), 120_500, Some(30000))]
        );
    }

    #[test]
    fn the_order_is_that_of_the_numbers_whatever_the_folder_says() {
        let dir = tempfile::tempdir().expect("a folder");
        for number in ["5", "1", "9", "3", "12", "7"] {
            node(dir.path(), number, "8\n", "gfx_target_version 90402\n");
        }
        let found = devices(&[dir.path()]).expect("six");
        assert_eq!(found.iter().filter_map(|device| device.node).collect::<Vec<_>>(), [1, 3, 5, 7, 9, 12]);
    }

    #[test]
    fn nodes_and_files_are_bounded() {
        let dir = tempfile::tempdir().expect("a folder");
        for number in 0..super::MOST_NODES {
            node(dir.path(), &number.to_string(), "0\n", "");
        }
        assert!(matches!(devices(&[dir.path()]), Err(BadTopology::NoGpu(_))), "as many as may be");
        for extra in [super::MOST_NODES, super::MOST_NODES + 1] {
            node(dir.path(), &extra.to_string(), "0\n", "");
            assert!(devices(&[dir.path()]).expect_err("too many").to_string().contains("more than 1024 nodes"));
        }
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(dir.path().join("1/gpu_id")).expect("made");
        assert!(devices(&[dir.path()]).expect_err("a folder is no file").to_string().contains("is no regular file"));
    }

    #[test]
    fn what_is_missing_is_an_error_and_no_empty_list() {
        let dir = tempfile::tempdir().expect("a folder");
        assert!(matches!(devices(&[Path::new("/absent")]), Err(BadTopology::Absent(_))));
        assert!(matches!(devices(&[dir.path()]), Err(BadTopology::NoGpu(_))));
        node(dir.path(), "1", "x", "");
        assert!(matches!(devices(&[dir.path()]), Err(BadTopology::Unreadable { .. })));
    }
}
