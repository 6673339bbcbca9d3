//! The journal of a run: which rows are on the disk, so that a later run goes on where one was killed.
//!
//! It is a text file beside the temporary files, `.NAME.journal` after the first output. Each line is a checksum of 16 hex
//! digits, a space and JSON; what follows the first line that is cut or wrong is not read, since a crash may leave
//! such an end. The lines are
//!
//! ```text
//! {"journal":1,"pid":4711,"host":"a","began":1763830800}        who writes it; again where a later run goes on
//! {"fingerprint":{"program":..,"options":..,"inputs":..,"outputs":..,"plan":..}}
//! {"done":[[3,0,512,128,[[1277402318014,294912]]]]}             task, rows, rows of a job; for each target checksum or null, bytes
//! {"whole":true}                                                all is on the disk, files may get their names
//! ```
//!
//! A task is an index into the tasks of the run, in the order of the input's tensors; the bytes of rows in an output are
//! contiguous ([`Done::places`]). Header and padding are in no range, whoever goes on writes them again.
//!
//! **Order.** Rows are noted only when they are on the disk: outputs are synced, then the line is written, then the
//! journal is synced. All the same every range is read back and compared before it is relied on ([`verify`](crate::verify())), and
//! what differs is done again.
//!
//! **Checksums** are of what takes long to make: of types whose scales are searched for, and of what is fetched. All else (rows that
//! are copied as they are stored, floats, Q8_0) is made at the speed of the memory, so that a checksum would cost much beside it; it
//! has none and is compared with what the sources give once more. Parts of a run have checksums of all their rows, since who puts
//! them together should not have to read the sources ([`Journal::for_others`]).
//!
//! They are XXH3 of 64 bits, made while the bytes of a job are in the cache. Where jobs are neighbours, that of all
//! is the XXH3 of theirs (little endian, in order), so that a journal grows by some ranges every few seconds, however large the
//! model is. They find what crashes and disks do, not what somebody does on purpose.

mod done;
mod file;
mod fingerprint;
mod lines;

pub use done::{Done, Remaining, Span};
pub(crate) use done::{checksum_of, n_bytes};
pub use file::{Found, Journal, unfinished};
pub use fingerprint::{Fingerprint, InputFile, Origin, file_checksum};
