//! What the host offers, read from `/dev` and `/sys`: device nodes, driver, cards.

use std::fs;
use std::path::Path;

/// A card, as the kernel's KFD topology describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// Number of the topology node.
    pub node: u32,
    /// Target, `gfx942`; of `gfx_target_version`.
    pub target: String,
    /// Compute units: `simd_count` over `simd_per_cu`.
    pub units: u64,
    /// Accelerator dies, `num_xcc`; 1 where the kernel does not say.
    pub dies: u64,
}

impl Card {
    /// CDNA, where bits of a mask go round the dies and engines; RDNA has pairs of units.
    pub fn is_cdna(&self) -> bool {
        self.target.starts_with("gfx9")
    }
}

/// The host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Host {
    /// `/dev/kfd` is there.
    pub kfd: bool,
    /// `/dev/kfd` can be opened for reading and writing.
    pub usable: bool,
    /// `/dev/dri/renderD*`
    pub render_nodes: Vec<String>,
    /// The driver: `/sys/module/amdgpu`, with its version where it says one.
    pub driver: Option<String>,
    /// The cards of the topology, as far as this container sees them.
    pub cards: Vec<Card>,
}

impl Host {
    /// Reads below `root`, which is `/` but in tests.
    pub fn read(root: &Path) -> Self {
        let kfd = root.join("dev/kfd");
        let module = root.join("sys/module/amdgpu");
        let mut render_nodes = names(&root.join("dev/dri"));
        render_nodes.retain(|name| name.starts_with("renderD"));
        Self {
            kfd: kfd.exists(),
            usable: fs::File::options().read(true).write(true).open(&kfd).is_ok(),
            render_nodes,
            driver: module.is_dir().then(|| fs::read_to_string(module.join("version")).map_or("of the kernel".into(), |text| text.trim().to_owned())),
            cards: cards(&root.join("sys/class/kfd/kfd/topology/nodes")),
        }
    }
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn cards(nodes: &Path) -> Vec<Card> {
    let mut numbers: Vec<u32> = names(nodes).iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    numbers.iter().filter_map(|&node| card(node, &fs::read_to_string(nodes.join(node.to_string()).join("properties")).ok()?)).collect()
}

/// A card of its properties; `None` for a processor, and for what cannot be read.
fn card(node: u32, properties: &str) -> Option<Card> {
    let value = |name: &str| properties.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<u64>().ok());
    let version = value("gfx_target_version").filter(|&version| version != 0)?;
    let simds = value("simd_count").filter(|&count| count != 0)?;
    Some(Card {
        node,
        target: format!("gfx{}{:x}{:x}", version / 10000, version / 100 % 100, version % 100),
        units: simds / value("simd_per_cu").unwrap_or(1).max(1),
        dies: value("num_xcc").unwrap_or(1).max(1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_read_from_its_properties() {
        let text = "cpu_cores_count 0\nsimd_count 1216\nsimd_per_cu 4\ngfx_target_version 90402\nnum_xcc 8\n";
        assert_eq!(card(1, text), Some(Card { node: 1, target: "gfx942".into(), units: 304, dies: 8 }));
        let old = card(2, "simd_count 440\nsimd_per_cu 4\ngfx_target_version 90010\n").unwrap();
        assert_eq!((old.target.as_str(), old.dies, old.is_cdna()), ("gfx90a", 1, true));
        assert!(!card(3, "simd_count 120\ngfx_target_version 110001\n").unwrap().is_cdna());
    }

    #[test]
    fn a_processor_and_nonsense_are_no_card() {
        assert_eq!(card(0, "simd_count 0\ngfx_target_version 0\n"), None);
        assert_eq!(card(0, "simd_count x\ngfx_target_version 90402\n"), None);
        assert_eq!(card(0, ""), None);
    }

    #[test]
    fn a_host_is_read_below_a_root() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Host::read(root.path()), Host::default());
        for folder in ["dev/dri", "sys/module/amdgpu", "sys/class/kfd/kfd/topology/nodes/10", "sys/class/kfd/kfd/topology/nodes/2"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        for file in ["dev/kfd", "dev/dri/renderD128", "dev/dri/card0"] {
            fs::write(root.path().join(file), "").unwrap();
        }
        fs::write(root.path().join("sys/module/amdgpu/version"), "6.12.12\n").unwrap();
        for node in ["2", "10"] {
            let properties = "simd_count 120\nsimd_per_cu 2\ngfx_target_version 110001\n";
            fs::write(root.path().join("sys/class/kfd/kfd/topology/nodes").join(node).join("properties"), properties).unwrap();
        }
        let host = Host::read(root.path());
        assert!(host.kfd && host.usable);
        assert_eq!((host.render_nodes.len(), host.driver.as_deref()), (1, Some("6.12.12")));
        assert_eq!(host.cards.iter().map(|card| card.node).collect::<Vec<_>>(), [2, 10]);
        assert_eq!(host.cards[0].target, "gfx1101");
    }
}
