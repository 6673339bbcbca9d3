//! Products at every CPU level, compared with plain loops.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod integers;
mod products;
