//! One conversion on many machines: each does a part, and one puts them together.
//!
//! A part is a share of the jobs of the run ([`Share`]), with a journal of its own beside the first output. What it makes goes to
//! its places in the temporary file of the output, which all machines see, or to a file of its own that has holes wherever
//! others write ([`Place`]). A part that is done again goes on where it was stopped. [`assemble`] trusts no part: plan, coverage and
//! every checksum are compared before the output gets its name.

mod assemble;
mod found;
mod names;
mod share;
mod write;

pub use assemble::assemble;
pub use names::{Place, part_path};
pub use share::{Rates, Share};
pub use write::{Part, Written, share_bytes, write_part};
