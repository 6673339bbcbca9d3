//! `gguf-publish`: folders of tiny models, and updates of existing folders.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

#[path = "../common/mod.rs"]
mod common;

mod calibration;
mod folders;
mod metadata;
mod updates;
