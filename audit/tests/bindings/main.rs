//! Which definition each reference gets, against the real loaders: `LD_DEBUG=bindings` is the oracle. And the command on top of it.

#[path = "../support/mod.rs"]
mod support;

mod command;
mod libraries;
mod machine;
mod oracle;
mod random;
