//! `gfx` on real libraries and on stand-ins that the C compiler builds. Reading order: [`stand_in`], then one file per subject.

mod any_bytes;
mod arrays;
mod built;
mod checklist;
mod hand_made;
mod hip;
mod identity;
mod overrides;
mod packages;
mod real;
mod release;
mod stand_in;
#[path = "../support/mod.rs"]
mod support;
