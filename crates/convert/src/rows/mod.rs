//! Where the rows of an output tensor come from: one trait, one file for each kind of source.
//!
//! A new kind of source is a file with a type that implements [`RowSource`]; whoever makes a
//! [`TensorTask`](crate::TensorTask) puts it into a box. Nothing that runs tasks knows which kinds there are.

mod checkpoint;
mod columns;
mod elements;
mod gguf;
mod legacy;
mod product;
mod row_source;
mod values;

pub use self::{
    checkpoint::CheckpointRows,
    columns::ColumnRows,
    gguf::GgufRows,
    legacy::LegacyRows,
    product::ProductRows,
    row_source::{Granularity, RowSource, RowsFor},
    values::{IntegerRows, ValueRows},
};
