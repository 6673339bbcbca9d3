//! The journal of a run: which rows are on the disk, so that a later run goes on where one was killed.
//!
//! It is a text file beside the temporary files, `.NAME.journal` after the first output. Each line is a CRC-32 of eight hex
//! digits, a space and JSON; what follows the first line that is cut or wrong is not read, since a crash may leave
//! such an end. The lines are
//!
//! ```text
//! {"journal":1,"pid":4711,"host":"a","began":1763830800}        who writes it; again where a later run goes on
//! {"fingerprint":{"program":..,"options":..,"inputs":..,"outputs":..,"plan":..}}
//! {"done":[[3,0,512,[[2774023180,294912]]]]}                    task, rows, and for each target CRC-32 and bytes
//! {"whole":true}                                                all is on the disk, files may get their names
//! ```
//!
//! A task is an index into the tasks of the run, in the order of the input's tensors; the bytes of rows in an output are
//! contiguous ([`Done::places`]). Header and padding are in no range, whoever goes on writes them again.
//!
//! **Order.** Rows are noted only when they are on the disk: outputs are synced, then the line is written, then the
//! journal is synced. All the same every range is read back and compared before it is relied on ([`verify`]), and
//! what differs is done again.
//!
//! **Checksums** are CRC-32 for two reasons: rows are done in many small jobs side by side, and CRCs of neighbours
//! combine into that of both without reading them again, so that a journal is a few lines a minute, however large the
//! model; and they cost as good as nothing. They find what crashes and disks do, not what somebody does on purpose.

mod done;
mod file;
mod fingerprint;
mod lines;

pub use done::{Done, Remaining, Span, verify};
pub use file::{Found, Journal, unfinished};
pub use fingerprint::{Fingerprint, InputFile, Origin, file_checksum};
