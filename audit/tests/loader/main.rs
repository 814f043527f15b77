//! The loader against the real ones: same objects, same paths, or Unknown with its reason.

#[path = "../support/mod.rs"]
mod support;

mod checklist;
mod layouts;
mod machine;
mod roots;
mod searches;
mod secure;
mod speed;
mod versions;
