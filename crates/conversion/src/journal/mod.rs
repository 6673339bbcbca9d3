//! The journal of a run: the rows that are on disk, so that a later run can resume.
//!
//! It is a text file next to the temporary files, `.NAME.journal` after the first output. Each line is a
//! checksum of 16 hex digits, a space and JSON. Reading stops at the first truncated or invalid line, since a
//! crash may leave one. The lines are
//!
//! ```text
//! {"journal":1,"pid":4711,"host":"a","began":1763830800}        writer; repeated when a later run resumes
//! {"fingerprint":{"program":..,"options":..,"inputs":..,"outputs":..,"plan":..}}
//! {"done":[[3,0,512,128,[[1277402318014,294912]]]]}             task, rows, rows of a job; for each target checksum or null, bytes
//! {"whole":true}                                                everything is on disk, files may get their names
//! ```
//!
//! A task is an index into the tasks of the run, in the order of the input's tensors; the bytes of rows in an
//! output are contiguous ([`Done::places`]). Header and padding are in no range; a resumed run writes them
//! again.
//!
//! **Order.** Rows are recorded only when they are on disk: outputs are synced, then the line is written,
//! then the journal is synced. Still, every range is read back and compared before it is used
//! ([`verify`](crate::verify())), and mismatches are recomputed.
//!
//! **Checksums** cover data that is slow to compute: types with searched scales, and downloads. Everything
//! else (copied rows, floats, Q8_0) is computed at memory speed, so it is recomputed and compared instead.
//! Parts of a run have checksums of all their rows, so that assembling them needs no sources
//! ([`Journal::for_others`]).
//!
//! Checksums are 64-bit XXH3, computed while the bytes of a job are in the cache. The checksum of neighboring
//! jobs is the XXH3 of theirs (little endian, in order), so a journal grows by a few ranges every few
//! seconds, however large the model is. They detect crashes and disk errors, not deliberate changes.

mod done;
mod file;
mod fingerprint;
mod lines;

pub use done::{Done, Remaining, Span};
pub(crate) use done::{checksum_of, n_bytes};
pub use file::{Found, Journal, unfinished};
pub use fingerprint::{Fingerprint, InputFile, Origin, file_checksum};
