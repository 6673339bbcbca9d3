//! Products of two vectors of a checkpoint.

use std::ops::Range;

use gguf_layout::RowView;
use gguf_quant::Level;

use super::{CheckpointRows, RowSource, RowsFor};
use crate::error::Error;

/// Two vectors of the same length, multiplied element by element in f32.
#[derive(Debug, Clone)]
pub struct ProductRows<'a> {
    factors: Vec<CheckpointRows<'a>>,
    view: RowView,
}

impl<'a> ProductRows<'a> {
    /// The product of the tensors `names`.
    ///
    /// # Errors
    /// As [`CheckpointRows::new`].
    pub fn new(request: RowsFor<'a>, names: &[String]) -> Result<ProductRows<'a>, Error> {
        let factor = |name: &String| CheckpointRows::new(request, std::slice::from_ref(name));
        Ok(ProductRows { factors: names.iter().map(factor).collect::<Result<_, _>>()?, view: request.view })
    }
}

impl RowSource for ProductRows<'_> {
    fn view(&self) -> RowView {
        self.view
    }

    fn read(&self, rows: Range<u64>, level: Level, out: &mut [f32]) -> Result<(), Error> {
        // y[i] = a[i] b[i]: one times the first factor is that factor, bit for bit.
        out.fill(1.0);
        let mut factor = vec![0.0; out.len()];
        for of in &self.factors {
            of.read(rows.clone(), level, &mut factor)?;
            out.iter_mut().zip(&factor).for_each(|(out, factor)| *out *= factor);
        }
        Ok(())
    }

    fn input_bytes(&self, n_rows: u64) -> u64 {
        self.factors.iter().map(|factor| factor.input_bytes(n_rows)).sum()
    }
}
