//! Tests of `linkage`: every rule on its fixture, the known false passes, hostile bytes, real libraries.
#![cfg(target_arch = "x86_64")]

mod broken;
mod corpus;
mod details;
mod false_passes;
mod fixture;
mod hostile;
mod made;
mod outcomes;
mod patch;
mod remedies;
mod rules;
