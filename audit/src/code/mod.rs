//! Machine code of one file: where functions begin, which addresses and constants they make. Facts, no judgement.
//!
//! Reading order: [`sweep`] (the file's loaded bytes through one buffer), [`functions`] (bounds), [`references`] (addresses that
//! instructions make, without decoding everything), [`calls`] (constant arguments of calls through the PLT), [`constants`] and [`assembly`] (what
//! decoded code puts together from immediates); then for the whole of a program: [`extents`], [`memory`] (what relocations fill), [`program`] (who
//! calls whom), [`classes`] (C++ tables).

pub mod assembly;
pub mod calls;
pub mod classes;
pub mod constants;
pub mod extents;
pub mod functions;
pub mod memory;
pub mod program;
pub mod references;
pub mod sweep;
