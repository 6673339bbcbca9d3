//! Rows of a GGUF tensor with the pairs of adapter files, computed on reading.

use std::{borrow::Cow, ops::Range};

use gguf_container::{AdapterPair, Advice};
use gguf_layout::RowView;
use gguf_quant::Level;
use gguf_types::DType;

use super::{GgufRows, RowSource};
use crate::{
    error::Error,
    merge::{Tile, transposed},
};

/// `W' = W + s (B @ A)` for each pair in turn, with the arithmetic of merged checkpoints. Never returns
/// stored blocks.
#[derive(Debug, Clone)]
pub struct AdaptedRows<'a> {
    base: GgufRows<'a>,
    matrix_rows: u64,
    pairs: Vec<Pair<'a>>,
}

/// A pair, as rows of L (n_rows, r) and R (r, row_elems): B and A, or for an embedding A and B transposed.
#[derive(Debug, Clone, Copy)]
struct Pair<'a> {
    left: GgufRows<'a>,
    right: GgufRows<'a>,
    rank: u64,
    scale: f32,
    /// True if R is stored transposed.
    is_embedding: bool,
}

impl<'a> AdaptedRows<'a> {
    /// Rows of `base`, a stack of matrices with `matrix_rows` rows each, and the pairs that change it, with
    /// their scales.
    pub fn new(
        base: GgufRows<'a>,
        matrix_rows: u64,
        pairs: impl Iterator<Item = (AdapterPair<'a>, f64)>,
    ) -> AdaptedRows<'a> {
        let pairs = pairs.map(|(pair, scale)| {
            let [a, b] = [pair.a, pair.b].map(|(file, tensor)| GgufRows::new(file, tensor));
            let (left, right) = if pair.is_embedding { (a, b) } else { (b, a) };
            let AdapterPair { rank, is_embedding, .. } = pair;
            Pair { left, right, rank, scale: (scale * pair.scale) as f32, is_embedding }
        });
        AdaptedRows { base, matrix_rows: matrix_rows.max(1), pairs: pairs.collect() }
    }
}

impl Pair<'_> {
    /// R for one matrix of the stack.
    fn right(&self, matrix: u64, row_elems: usize, level: Level) -> Result<Vec<f32>, Error> {
        let rank = self.rank as usize;
        let mut values = vec![0.0; rank * row_elems];
        if !self.is_embedding {
            self.right.read(matrix * self.rank..(matrix + 1) * self.rank, level, &mut values)?;
            return Ok(values);
        }
        self.right.read(0..row_elems as u64, level, &mut values)?;
        Ok(transposed(&values, rank))
    }

    fn add(&self, matrix: u64, rows: Range<u64>, level: Level, out: &mut [f32]) -> Result<(), Error> {
        let (rank, row_elems) = (self.rank as usize, out.len() / (rows.end - rows.start).max(1) as usize);
        let mut left = vec![0.0; (rows.end - rows.start) as usize * rank];
        self.left.read(rows, level, &mut left)?;
        let right = self.right(matrix, row_elems, level)?;
        let tile = Tile { right: &right, rank, width: row_elems, scale: self.scale };
        level.vectorize(
            #[inline(always)]
            || {
                let rows = left.chunks_exact(rank).zip(out.chunks_exact_mut(row_elems.max(1)));
                rows.for_each(|(left, out)| tile.add(left, out));
            },
        );
        Ok(())
    }
}

impl RowSource for AdaptedRows<'_> {
    fn view(&self) -> RowView {
        self.base.view()
    }

    fn read(&self, rows: Range<u64>, level: Level, out: &mut [f32]) -> Result<(), Error> {
        self.base.read(rows.clone(), level, out)?;
        let row_elems = self.view().row_elems as usize;
        for pair in &self.pairs {
            let (mut row, mut out) = (rows.start, &mut *out);
            // One matrix of the stack at a time.
            while row < rows.end {
                let matrix = row / self.matrix_rows;
                let end = rows.end.min((matrix + 1) * self.matrix_rows);
                let (now, later) = out.split_at_mut((end - row) as usize * row_elems);
                pair.add(matrix, row..end, level, now)?;
                (row, out) = (end, later);
            }
        }
        Ok(())
    }

    fn stored(&self, _: DType, _: Range<u64>) -> Result<Option<Cow<'_, [u8]>>, Error> {
        Ok(None)
    }

    fn advise(&self, rows: Range<u64>, advice: Advice) {
        self.base.advise(rows, advice);
    }

    fn input_bytes(&self, n_rows: u64) -> u64 {
        self.base.input_bytes(n_rows)
    }
}
