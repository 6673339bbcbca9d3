//! Joins gate and up of gpt-oss that MLX split.
//!
//! The rows of `experts.gate_up_proj` of gpt-oss alternate: g0 u0 g1 u1 ... mlx-lm (`sanitize` in
//! `models/gpt_oss.py`) splits it into two matrices and two biases. Here they are joined again, under the
//! names of OpenAI's checkpoint, which the architecture expects.
//!
//! ```text
//! experts.gate_proj.weight, up_proj.weight  (E, n, in)   experts.gate_up_proj_blocks  (E, 2 n, in)
//! experts.gate_proj.bias, up_proj.bias      (E, n)       experts.gate_up_proj_bias    (E, 2 n)
//! experts.down_proj.weight                               experts.down_proj_blocks
//! experts.down_proj.bias                                 experts.down_proj_bias
//! ```

use std::{collections::HashMap, ops::Range, sync::Arc};

use gguf_types::{DType, StoredBlocks};

use super::checks::shape_error;
use crate::{Dtype, Error, Part, ReadError, Region, Repacks, Span, Stored, Tensor, read_columns};

/// Two tensors of one shape that alternate: row by row, or element by element.
#[derive(Debug)]
struct Alternating {
    /// Even rows or elements come from the first.
    both: [Tensor; 2],
    by_rows: bool,
    stored_blocks: Option<StoredBlocks>,
}

impl Alternating {
    /// Rows of each tensor for rows `rows`. A stack has an even number of rows per expert, so they can be
    /// counted through all experts.
    fn rows(&self, rows: &Range<u64>) -> [Range<u64>; 2] {
        if self.by_rows {
            [rows.start.div_ceil(2)..rows.end.div_ceil(2), rows.start / 2..rows.end / 2]
        } else {
            [rows.clone(), rows.clone()]
        }
    }
}

impl Stored for Alternating {
    fn read(&self, parts: &[Part], region: Region, out: &mut [f32]) -> Result<(), ReadError> {
        let Region { rows, columns } = region;
        let width = (columns.end - columns.start) as usize;
        if width == 0 {
            return Ok(());
        }
        if self.by_rows {
            for (row, out) in rows.zip(out.chunks_exact_mut(width)) {
                let source = &self.both[(row % 2) as usize];
                read_columns(parts, source, row / 2..row / 2 + 1, columns.clone(), out)?;
            }
            return Ok(());
        }
        let halves = columns.start / 2..columns.end.div_ceil(2);
        let mut values = vec![0.0; (halves.end - halves.start) as usize];
        for (row, out) in rows.zip(out.chunks_exact_mut(width)) {
            for (parity, source) in self.both.iter().enumerate() {
                read_columns(parts, source, row..row + 1, halves.clone(), &mut values)?;
                // Its elements are in every second column from the first even one on.
                let skip = (columns.start % 2) as usize;
                let places = out.iter_mut().zip(skip..).filter(|(_, column)| column % 2 == parity);
                places.for_each(|(out, column)| *out = values[column / 2]);
            }
        }
        Ok(())
    }

    fn spans(&self, rows: Range<u64>) -> Vec<Span> {
        let parts = self.both.iter().zip(self.rows(&rows));
        parts.flat_map(|(tensor, rows)| tensor.spans(rows)).collect()
    }

    fn codes(&self) -> Option<Dtype> {
        self.both[0].stored.as_ref()?.codes()
    }

    fn panel_rows(&self) -> u64 {
        self.both.iter().map(Tensor::panel_rows).max().unwrap_or(1).saturating_mul(2)
    }

    fn description(&self) -> Option<String> {
        Some(self.both[0].stored_as())
    }

    fn stored_blocks(&self) -> Option<&StoredBlocks> {
        self.stored_blocks.as_ref()
    }

    fn repacks_to(&self, parts: &[Part]) -> Result<Repacks, ReadError> {
        let [Some(gate), Some(up)] = [&self.both[0].stored, &self.both[1].stored] else {
            return Ok(Repacks::Not("a part of it is not quantized".to_owned()));
        };
        Ok(match (gate.repacks_to(parts)?, up.repacks_to(parts)?) {
            (Repacks::To(gate_types), Repacks::To(up_types)) => {
                Repacks::To(gate_types.into_iter().filter(|dtype| up_types.contains(dtype)).collect())
            }
            (Repacks::Not(reason), _) | (_, Repacks::Not(reason)) => Repacks::Not(reason),
        })
    }

    fn repack(
        &self,
        parts: &[Part],
        dtype: DType,
        rows: Range<u64>,
        out: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        for row in rows {
            if let Some(stored) = &self.both[(row % 2) as usize].stored {
                stored.repack(parts, dtype, row / 2..row / 2 + 1, out)?;
            }
        }
        Ok(())
    }
}

/// Replaces every gate and its up with one tensor, and renames down.
///
/// # Errors
/// [`Error::PartShape`] if their shapes differ.
pub(super) fn join_gate_and_up(tensors: &mut Vec<Tensor>) -> Result<(), Error> {
    let all = std::mem::take(tensors);
    let by_name: HashMap<&str, &Tensor> = all.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
    for tensor in &all {
        let partner = |of: &str, with: &str| by_name.get(tensor.name.replace(of, with).as_str()).copied();
        let (before, matrix, ending) = parts_of(&tensor.name).unwrap_or_default();
        match matrix {
            "gate_proj" => tensors.push(match partner(".gate_proj.", ".up_proj.") {
                Some(up) => join(tensor, up, format!("{before}.experts.gate_up_proj_{ending}"))?,
                None => tensor.clone(),
            }),
            // Handled with its gate.
            "up_proj" if partner(".up_proj.", ".gate_proj.").is_some() => {}
            "down_proj" => {
                let name = format!("{before}.experts.down_proj_{ending}");
                tensors.push(Tensor { name, ..tensor.clone() });
            }
            _ => tensors.push(tensor.clone()),
        }
    }
    Ok(())
}

/// Parts of the name of an expert matrix or bias: the prefix before `.experts.`, the matrix, and its suffix
/// in OpenAI's checkpoint.
fn parts_of(name: &str) -> Option<(&str, &str, &'static str)> {
    let (before, matrix) = name.split_once(".experts.")?;
    let (matrix, ending) = matrix.split_once('.')?;
    match ending {
        "weight" => Some((before, matrix, "blocks")),
        "bias" => Some((before, matrix, "bias")),
        _ => None,
    }
}

/// Tensor with the even rows, or elements of a bias, of `gate`, and the odd ones of `up`.
fn join(gate: &Tensor, up: &Tensor, name: String) -> Result<Tensor, Error> {
    let by_rows = gate.shape.len() > 2;
    let mut shape = gate.shape.clone();
    let n_dims = shape.len();
    let doubled = n_dims.checked_sub(if by_rows { 2 } else { 1 }).and_then(|dim| shape.get_mut(dim));
    let (Some(dim), true) = (doubled, gate.shape == up.shape && n_dims > 1 && gate.n_bytes() > 0) else {
        return Err(shape_error(up, gate, "the shape of the gate"));
    };
    // The tensors have bytes, so the dimension is far below the limit.
    *dim = dim.saturating_mul(2);
    let stored_blocks = |tensor: &Tensor| tensor.stored.as_ref()?.stored_blocks().cloned();
    // Tensor-wide factors would have to alternate too; MXFP4 does not have any.
    let stored_blocks = stored_blocks(gate).filter(|blocks| {
        stored_blocks(up).as_ref() == Some(blocks) && blocks.scales == [1.0] && blocks.input_scales == [1.0]
    });
    let Tensor { part, begin, end, .. } = *gate;
    let stored: Arc<dyn Stored> =
        Arc::new(Alternating { both: [gate.clone(), up.clone()], by_rows, stored_blocks });
    Ok(Tensor { name, dtype: Dtype::F32, shape, part, begin, end, stored: Some(stored) })
}
