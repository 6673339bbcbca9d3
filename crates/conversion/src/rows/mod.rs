//! Sources of an output tensor's rows: one trait, and one file per kind of source.
//!
//! A new kind of source is a file with a type that implements [`RowSource`]; the code that creates a
//! [`TensorTask`](crate::TensorTask) boxes it. The code that runs tasks does not depend on the kinds.

mod adapted;
mod checkpoint;
mod columns;
mod combined;
mod elements;
mod extended;
mod gguf;
mod legacy;
mod merged;
mod row_source;
mod scattered;
mod side_by_side;
mod values;

pub use self::{
    adapted::AdaptedRows,
    checkpoint::CheckpointRows,
    columns::ColumnRows,
    combined::CombinedRows,
    extended::ExtendedRows,
    gguf::GgufRows,
    legacy::LegacyRows,
    merged::{MergedRows, as_checkpoint_tensor},
    row_source::{Granularity, RowSource, RowsFor},
    scattered::ScatteredRows,
    side_by_side::SideBySideRows,
    values::{IntegerRows, ValueRows},
};
