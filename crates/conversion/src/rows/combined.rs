//! Rows computed element by element from several tensors of a checkpoint.

use std::ops::Range;

use gguf_checkpoint::Dtype;
use gguf_layout::{Combination, RowMap, RowView};
use gguf_quant::Level;
use gguf_quant::round::{f16_to_f32, f32_to_f16};

use super::{CheckpointRows, RowSource, RowsFor};
use crate::error::Error;

/// Rows of several tensors, or of pieces of one, combined element by element.
#[derive(Debug, Clone)]
pub struct CombinedRows<'a> {
    operands: Vec<CheckpointRows<'a>>,
    by: Combination,
    /// True if all sources are F16, so that torch computes in f16.
    in_f16: bool,
    view: RowView,
}

impl<'a> CombinedRows<'a> {
    /// Operands with the row maps `rows`, of the tensors `names`: one tensor for each map, or one tensor for all maps. `request`
    /// returns the request for a map.
    pub fn new(
        request: impl Fn(RowMap) -> RowsFor<'a>,
        names: &[String],
        rows: &[RowMap],
        by: Combination,
    ) -> Result<CombinedRows<'a>, Error> {
        let of_map = |(map, names): (&RowMap, &[String])| CheckpointRows::new(request(*map), names);
        if let Combination::DividedRows { .. } = by {
            let (sums, counts) = names.split_at(names.len() / 2);
            let request = request(RowMap::Concat);
            let one = RowView { row_elems: 1, ..request.view };
            let operands = vec![
                CheckpointRows::new(request, sums)?,
                CheckpointRows::new(RowsFor { view: one, ..request }, counts)?,
            ];
            return Ok(CombinedRows { operands, by, in_f16: false, view: request.view });
        }
        let operands: Vec<CheckpointRows<'a>> = if let [_] = names {
            rows.iter().map(|map| of_map((map, names))).collect::<Result<_, _>>()?
        } else {
            rows.iter().zip(names.chunks(1)).map(of_map).collect::<Result<_, _>>()?
        };
        let whole = request(RowMap::Concat);
        let mut in_f16 = true;
        for name in names {
            in_f16 &= whole.source(name)?.dtype == Dtype::F16;
        }
        Ok(CombinedRows { operands, by, in_f16, view: whole.view })
    }
}

impl RowSource for CombinedRows<'_> {
    fn view(&self) -> RowView {
        self.view
    }

    fn read(&self, rows: Range<u64>, level: Level, out: &mut [f32]) -> Result<(), Error> {
        let mut operands = Vec::with_capacity(self.operands.len());
        for of in &self.operands {
            // A column of counts has one element per row.
            let n_elems = (rows.end - rows.start) * of.view().row_elems;
            let mut values = vec![0.0; n_elems as usize];
            of.read(rows.clone(), level, &mut values)?;
            operands.push(values);
        }
        let mut element = vec![0.0; operands.len()];
        let (row_elems, n_elems) = (self.view.row_elems.max(1) as usize, out.len());
        for (at, out) in out.iter_mut().enumerate() {
            let row = rows.start + (at / row_elems) as u64;
            for (element, values) in element.iter_mut().zip(&operands) {
                *element = values[if values.len() == n_elems { at } else { at / row_elems }];
            }
            *out = if self.in_f16 {
                self.by.apply(row, &element, |value| f16_to_f32(f32_to_f16(value)))
            } else {
                self.by.apply(row, &element, |value| value)
            };
        }
        Ok(())
    }

    fn input_bytes(&self, n_rows: u64) -> u64 {
        self.operands.iter().map(|operand| operand.input_bytes(n_rows)).sum()
    }
}
