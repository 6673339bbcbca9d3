//! The command line of the toolchain; every library is a crate under `crates/`.
