//! Machine code of one file: where functions begin, which addresses and constants they make. Facts, no judgement.
//!
//! Reading order: [`sweep`] (the file's loaded bytes through one buffer), [`functions`] (bounds), [`references`] (addresses that
//! instructions make, without decoding everything), [`calls`] (constant arguments of calls through the PLT), [`constants`] and [`assembly`] (what
//! decoded code puts together from immediates); then for the whole of a program: [`extents`], [`memory`] (what relocations fill), [`program`] (who
//! calls whom; `decode` reads one function), [`debug`] (names and prototypes, where somebody has them), [`classes`] (C++ tables), [`flow`] (what a caller passes, followed).

pub mod assembly;
pub mod calls;
pub mod classes;
pub mod constants;
pub mod debug;
mod decode;
pub mod extents;
pub mod flow;
pub mod functions;
pub mod memory;
pub mod program;
pub mod references;
pub mod sweep;
