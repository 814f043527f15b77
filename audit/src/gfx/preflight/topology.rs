//! The GPUs of a machine as KFD lists them in sysfs: `nodes/<n>/gpu_id` and `nodes/<n>/properties`.
//!
//! A container sees the nodes of the whole machine. The thunk (`topology.c`, `topology_sysfs_check_node_supported`) leaves out those that it may not use, a
//! node whose files answer EPERM or whose render node is not there, and numbers the rest anew: those are the numbers of the override variables.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::device::Device;
use crate::gfx::regular;

/// Where KFD lists its nodes, the first that exists.
pub const USUAL: [&str; 2] = ["/sys/devices/virtual/kfd/kfd/topology/nodes", "/sys/class/kfd/kfd/topology/nodes"];
/// Where render nodes are.
const RENDER_NODES: &str = "/dev/dri";
/// What a device control group answers with.
const EPERM: i32 = 1;
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
    /// GPUs, and none for this process.
    #[error("{}: KFD lists {gpus} GPUs, and this process may use none: their files may not be read, or {RENDER_NODES}/renderD* are not there", folder.display())]
    Hidden {
        /// The folder of nodes.
        folder: PathBuf,
        /// How many.
        gpus: usize,
    },
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

/// A node of the machine.
enum Node {
    Cpu,
    Gpu(Device),
    /// A GPU that the thunk leaves out.
    Hidden,
}

/// The GPUs below the first of these folders that exists, by node number, as far as this process may use them. Never empty.
pub fn devices(folders: &[&Path]) -> Result<Vec<Device>, BadTopology> {
    usable(folders, Path::new(RENDER_NODES))
}

fn usable(folders: &[&Path], render: &Path) -> Result<Vec<Device>, BadTopology> {
    let Some(folder) = folders.iter().find(|folder| folder.is_dir()) else {
        return Err(BadTopology::Absent(folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ")));
    };
    let unreadable = |error: io::Error| unreadable(folder, error.to_string());
    let mut nodes = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        nodes.extend(entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
        if nodes.len() > MOST_NODES {
            return Err(self::unreadable(folder, format!("more than {MOST_NODES} nodes")));
        }
    }
    nodes.sort_unstable();
    let (mut devices, mut number, mut hidden) = (Vec::new(), 0, 0);
    for node in nodes {
        match self::node(&folder.join(node.to_string()), node, render)? {
            Node::Hidden => {
                hidden += 1;
                continue;
            }
            Node::Gpu(device) => devices.push(Device { node: Some(number), ..device }),
            Node::Cpu => {}
        }
        number += 1;
    }
    match (devices.is_empty(), hidden) {
        (false, _) => Ok(devices),
        (true, 0) => Err(BadTopology::NoGpu(folder.to_path_buf())),
        (true, gpus) => Err(BadTopology::Hidden { folder: folder.to_path_buf(), gpus }),
    }
}

fn node(folder: &Path, node: u32, render: &Path) -> Result<Node, BadTopology> {
    let id = folder.join("gpu_id");
    let Some(text) = permitted(small(&id)).map_err(|error| unreadable(&id, error.to_string()))? else { return Ok(Node::Hidden) };
    let gpu_id: u64 = text.trim().parse().map_err(|_| unreadable(&id, "is no number"))?;
    if gpu_id == 0 {
        return Ok(Node::Cpu);
    }
    let file = folder.join("properties");
    let Some(properties) = permitted(small(&file)).map_err(|error| unreadable(&file, error.to_string()))? else { return Ok(Node::Hidden) };
    let value = |name: &str| {
        let mut words = properties.lines().map(str::split_whitespace);
        words.find_map(|mut words| (words.next() == Some(name)).then(|| words.next()?.parse::<u64>().ok())?)
    };
    // A kernel before 5.14 has no version; then the thunk's table of device ids is all there is.
    let version = value("gfx_target_version").unwrap_or(0);
    let gfx_target_version = u32::try_from(version).map_err(|_| unreadable(&file, "gfx_target_version is beyond 32 bits"))?;
    let device_id = value("device_id").and_then(|id| u16::try_from(id).ok());
    // A driver that names no render node is older than the rule.
    let minor = value("drm_render_minor").filter(|&minor| minor != 0);
    let gone = |minor| std::fs::metadata(render.join(format!("renderD{minor}"))).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    if minor.is_some_and(gone) {
        return Ok(Node::Hidden);
    }
    Ok(Node::Gpu(Device { from: format!("KFD node {node}"), node: None, gfx_target_version, device_id }))
}

/// What a file says; `None` where a control group keeps this process from the device.
fn permitted(read: io::Result<String>) -> io::Result<Option<String>> {
    match read {
        Err(error) if error.raw_os_error() == Some(EPERM) => Ok(None),
        other => other.map(Some),
    }
}

fn small(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    regular::open(file)?.take(LARGEST).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use super::{BadTopology, EPERM, devices, permitted, usable};

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
            [(Some(1), 90402, Some(29857)), (Some(2), 120_500, Some(30000))]
        );
    }

    #[test]
    fn what_the_thunk_leaves_out_is_no_device_and_has_no_number() {
        let (dir, dri) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        node(dir.path(), "0", "0\n", "");
        node(dir.path(), "1", "7\n", "gfx_target_version 90402\ndrm_render_minor 128\n");
        node(dir.path(), "2", "8\n", "gfx_target_version 120500\ndrm_render_minor 129\n");
        let ask = || usable(&[dir.path()], dri.path());
        let said = ask().expect_err("no render node").to_string();
        assert!(said.contains("lists 2 GPUs") && said.contains("renderD"), "{said}");
        std::fs::write(dri.path().join("renderD129"), "").expect("written");
        let found = ask().expect("the second");
        let place = |device: &super::Device| (device.from.clone(), device.node, device.gfx_target_version);
        assert_eq!(found.iter().map(place).collect::<Vec<_>>(), [("KFD node 2".into(), Some(1), 120_500)], "numbered anew");
        std::fs::write(dri.path().join("renderD128"), "").expect("written");
        assert_eq!(ask().expect("both").len(), 2);
        assert!(matches!(permitted(Err(io::Error::from_raw_os_error(EPERM))), Ok(None)));
        assert!(permitted(Err(io::Error::from_raw_os_error(5))).is_err(), "another error hides nothing");
    }

    #[test]
    fn the_order_is_that_of_the_numbers_whatever_the_folder_says() {
        let dir = tempfile::tempdir().expect("a folder");
        for number in ["5", "1", "9", "3", "12", "7"] {
            node(dir.path(), number, "8\n", "gfx_target_version 90402\n");
        }
        let found = devices(&[dir.path()]).expect("six");
        let from: Vec<_> = found.iter().filter_map(|device| device.from.strip_prefix("KFD node ")).collect();
        assert_eq!(from, ["1", "3", "5", "7", "9", "12"]);
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
