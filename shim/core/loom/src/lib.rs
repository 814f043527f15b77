//! The product's own admission code, for `tests/weak_memory.rs`. Run: `cargo test --release --manifest-path shim/core/loom/Cargo.toml`.

#[path = "../../src/ledger/protocol.rs"]
pub mod protocol;
