//! The entry points that are interposed, and whose function each calls.
//!
//! A row of the table ([`rows`]) is all there is to an entry point: name, signature, action, body. The export, the slot for the
//! runtime's own function, the name that look-ups are asked for and the line in `manifests/interposed.json` come from it.
//!
//! Reading order:
//! 1. [`rows`]: the table.
//! 2. [`call`]: what a body knows of its call; what a name answers that the runtime lacks.
//! 3. [`runtimes`]: which runtime a caller means, and its own functions.
//! 4. [`cards`]: which card a call is about.
//! 5. [`credit`]: how a byte that two layers see is charged once.
//! 6. [`hip`], [`hsa`]: the bodies.
//! 7. [`lookup`]: what hands out entry points. [`binding`]: what was bound past this library. [`bypass`]: what goes past it for good.

pub mod binding;
pub mod bypass;
pub mod call;
pub mod cards;
pub mod credit;
pub mod hip;
pub mod hsa;
pub mod keys;
pub mod lookup;
pub mod rows;
pub mod runtimes;

pub use call::Call;
pub use rows::{Action, Family, Row, TABLE, entry, registers};
