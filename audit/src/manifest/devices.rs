//! `manifests/hsa/device-ids.json`: the thunk's own table from PCI device ids to versions.

use serde::Deserialize;

use super::schema::{BadManifest, Rules};

/// The table's name in messages.
pub const FILE: &str = "manifests/hsa/device-ids.json";

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// Where the table is known from.
    source: String,
    devices: Vec<Row>,
}

/// One device.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// PCI device id.
    pub device_id: u16,
    /// The same in hexadecimal, for readers.
    pub hex: String,
    /// Major, minor, step.
    pub version: [u32; 3],
    /// The chip.
    pub name: String,
}

/// Reads and checks a table.
pub fn read(file: &str, text: &str) -> Result<Vec<Row>, BadManifest> {
    let rules = Rules { file };
    let table: Table = rules.parse(text)?;
    if table.source.trim().is_empty() {
        return Err(rules.broken("source", "says where the table is known from"));
    }
    let mut previous = None;
    for row in &table.devices {
        let broken = |rule: &str| rules.broken(row.hex.clone(), rule);
        if row.hex != format!("0x{:04x}", row.device_id) {
            return Err(broken("hex is the device id in hexadecimal"));
        }
        if row.version[0] > 63 || row.version[1] > 15 || row.version[2] > 15 {
            return Err(broken("version is that of a target"));
        }
        if previous.is_some_and(|previous| previous >= row.device_id) {
            return Err(broken("rows stand in ascending order, each id once"));
        }
        previous = Some(row.device_id);
    }
    Ok(table.devices)
}

/// The table inside the program.
pub fn embedded() -> Result<Vec<Row>, BadManifest> {
    read(FILE, include_str!("../../../manifests/hsa/device-ids.json"))
}

#[cfg(test)]
mod tests {
    use super::{embedded, read};

    #[test]
    fn the_table_is_in_order_and_a_bad_one_is_refused() {
        assert_eq!(embedded().expect("checked").len(), 180);
        let row = |id: u16, hex: &str| format!(r#"{{"device_id":{id},"hex":"{hex}","version":[9,0,0],"name":"x"}}"#);
        let table = |rows: &[String]| format!(r#"{{"source":"s","devices":[{}]}}"#, rows.join(","));
        assert!(read("t", &table(&[row(1, "0x0001"), row(2, "0x0002")])).is_ok());
        assert!(read("t", &table(&[row(2, "0x0002"), row(1, "0x0001")])).is_err());
        assert!(read("t", &table(&[row(1, "0x0002")])).is_err());
    }
}
