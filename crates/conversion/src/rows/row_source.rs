//! The trait of all row sources, and what those of a checkpoint are made for.

use std::{borrow::Cow, fmt, ops::Range};

use gguf_checkpoint::Checkpoint;
use gguf_container::Advice;
use gguf_layout::{ElementMap, RowMap, RowView, SourceRows};
use gguf_quant::Level;
use gguf_types::DType;

use crate::error::Error;

/// The rows of one output tensor: (n_rows, row_elems), row-major, from any source.
///
/// Any range of rows can be read, in any order, from any thread. Reading a range only touches its pages.
pub trait RowSource: fmt::Debug + Send + Sync {
    /// Division of the elements into rows.
    fn view(&self) -> RowView;

    /// Reads rows `rows` into `out`, which is (rows, row_elems) f32.
    ///
    /// # Errors
    /// [`Error::Read`] and [`Error::Encode`] if the stored type cannot be decoded.
    fn read(&self, rows: Range<u64>, level: Level, out: &mut [f32]) -> Result<(), Error>;

    /// Stored bytes of rows `rows`, in output order and little endian, if they are already blocks of `dtype`;
    /// `None` if the values must be read and encoded.
    ///
    /// # Errors
    /// [`Error::Gguf`]; never for a tensor that belongs to this file.
    fn stored(&self, dtype: DType, rows: Range<u64>) -> Result<Option<Cow<'_, [u8]>>, Error> {
        let _ = (dtype, rows);
        Ok(None)
    }

    /// Advises the system about the use of the pages of rows `rows`. For fetched sources, each
    /// [`Advice::WillNeed`] must be followed by one [`Advice::DoneWith`] of the same rows when their bytes
    /// are no longer used.
    fn advise(&self, rows: Range<u64>, advice: Advice) {
        let _ = (rows, advice);
    }

    /// Releases pages that many rows share, now that all rows have been read. Does not apply to sources
    /// announced by [`RowSource::advise`], which count their users.
    fn all_done(&self) {}

    /// True if the rows are fetched on reading, so that announcing reads helps.
    fn is_fetched(&self) -> bool {
        false
    }

    /// Input bytes of `n_rows` rows, for progress.
    fn input_bytes(&self, n_rows: u64) -> u64;

    /// Preferred division of rows into jobs.
    fn granularity(&self) -> Granularity {
        Granularity::ROW
    }
}

/// Rows that belong into one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granularity {
    /// Number of rows that are best read together: a job of complete groups reads its source without gaps. At
    /// least 1.
    pub group_rows: u64,
    /// Minimum number of rows per job: fewer would leave most of the fetched memory unused.
    pub least_rows: u64,
}

impl Granularity {
    /// No preference.
    pub const ROW: Granularity = Granularity { group_rows: 1, least_rows: 1 };
}

/// Request for the rows of a checkpoint's tensors.
#[derive(Debug, Clone, Copy)]
pub struct RowsFor<'a> {
    /// The checkpoint.
    pub checkpoint: &'a Checkpoint,
    /// Name of the output tensor, for messages.
    pub tensor: &'a str,
    /// Its rows.
    pub view: RowView,
    /// Map from source rows to these rows.
    pub map: RowMap,
    /// Function of their elements.
    pub element: ElementMap,
    /// Type of blocks that store the checkpoint's codes unchanged, if they are kept.
    pub stored_dtype: Option<DType>,
}

impl<'a> RowsFor<'a> {
    pub(super) fn source(&self, name: &str) -> Result<&'a gguf_checkpoint::Tensor, Error> {
        let missing = || Error::NoSuchTensor { name: name.to_owned(), wanted_by: self.tensor.to_owned() };
        self.checkpoint.tensor(name).ok_or_else(missing)
    }

    /// Error for sources that do not have the required rows.
    pub(super) fn differs(&self, sources: &str, found: u64, expected: u64, unit: &'static str) -> Error {
        let (tensor, source_names) = (self.tensor.to_owned(), sources.to_owned());
        Error::RowsDiffer { tensor, source_names, found, expected, unit }
    }

    /// Source rows of the view, counted in the pieces of the map.
    pub(super) fn source_rows(&self) -> SourceRows {
        self.map.source_rows(self.view.n_rows.saturating_mul(self.map.pieces()))
    }
}
