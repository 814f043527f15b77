//! Which GPU targets a runtime knows.
pub mod identity;
pub mod names;
pub mod registry;
pub mod table;
pub mod target;
