//! `evidence`: what the machine code of a stripped runtime says about each export, against what the manifest says.
//!
//! Reading order: [`dispatch`], [`getter`] and [`pointed`] (from an export to the function that does the work), [`graph`] (who reaches whom), [`core`] (which
//! functions allocate), [`size`] (whether the caller's size goes there), [`alarm`] (which exports look alike from afar), [`beneath`] (what is reached of the family beneath), [`read`] (all of it for one file), [`named`] (with debug information), [`subject`] (what a report shows), [`audit`] (held against the manifest), [`checks`].
//!
//! Nothing here says that an export does not allocate: nearly all may, on first use. What is not seen is "nothing seen".

pub mod alarm;
pub mod audit;
pub mod beneath;
pub mod checks;
pub mod core;
pub mod dispatch;
pub mod getter;
pub mod graph;
pub mod named;
pub mod pointed;
pub mod read;
pub mod size;
pub mod subject;

pub use audit::audit;
pub use subject::{Export, Registry, Subject, Verdict};
