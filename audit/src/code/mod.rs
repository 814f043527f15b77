//! Machine code of one file: where functions begin, which addresses and constants they make. Facts, no judgement.
//!
//! Reading order: [`sweep`] (the file's loaded bytes through one buffer), [`functions`] (bounds), [`references`] (addresses that
//! instructions make, without decoding everything), [`calls`] (constant arguments of calls through the PLT), [`constants`] and [`assembly`] (what decoded code puts together from immediates).

pub mod assembly;
pub mod calls;
pub mod constants;
pub mod functions;
pub mod references;
pub mod sweep;
