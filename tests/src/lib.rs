//! Shared helpers of the integration tests.
//!
//! [`files`] finds the ELF files of the machine and the unpacked real libraries, [`facts`] holds what two readers are compared by, and
//! [`readelf`] fills it from the output of binutils. [`walk`] calls every reader on any bytes.

pub mod facts;
pub mod files;
pub mod readelf;
pub mod walk;
