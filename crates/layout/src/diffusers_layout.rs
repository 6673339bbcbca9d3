//! Conversion from the layout of diffusers to the original one, for models in which this only renames tensors, joins their rows
//! and exchanges halves.
//!
//! [`Diffusion::stages`] has the modules and [`Diffusion::tensors`] all other tensors. A checkpoint is in this
//! layout if every tensor has a place, and the tensors of the original layout are complete.

use std::collections::HashMap;

use crate::adapter_names::{AdapterRows, captures, filled, original_names};
use crate::diffusion::{Diffusion, DiffusionSource};
use crate::row_map::RowMap;

/// A tensor of the original layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OriginalTensor {
    /// Its name.
    pub name: String,
    /// Its dimensions, row length last.
    pub shape: Vec<u64>,
    /// The type that its sources have; `F32` if they differ.
    pub dtype: &'static str,
    /// The tensors of the checkpoint that it is made of.
    pub sources: Vec<String>,
    /// Its rows in them.
    pub rows: RowMap,
}

/// A source and the rows that it has in its tensor.
type Piece<'a> = (&'a DiffusionSource, AdapterRows);

/// The tensors of the original layout, in the order of the checkpoint. `None` if the checkpoint is not in the layout of
/// diffusers.
pub(crate) fn original_tensors(row: &Diffusion, sources: &[DiffusionSource]) -> Option<Vec<OriginalTensor>> {
    let mut order: Vec<String> = Vec::new();
    let mut pieces: HashMap<String, Vec<Piece<'_>>> = HashMap::new();
    for source in sources {
        let (name, rows) = place(row, &source.name)?;
        let known = pieces.entry(name.clone()).or_default();
        if known.is_empty() {
            order.push(name);
        }
        known.push((source, rows));
    }
    order
        .into_iter()
        .map(|name| {
            joined(&name, &pieces).map(|(shape, rows, parts)| {
                let dtype = parts[0].dtype;
                let dtype = if parts.iter().all(|part| part.dtype == dtype) { dtype } else { "F32" };
                let sources = parts.iter().map(|part| part.name.clone()).collect();
                OriginalTensor { name, shape, dtype, sources, rows }
            })
        })
        .collect()
}

/// Name and rows in the original layout of a tensor of diffusers.
fn place(row: &Diffusion, name: &str) -> Option<(String, AdapterRows)> {
    let whole = row
        .tensors
        .iter()
        .find_map(|rule| Some((filled(&rule.tensor, &captures(&rule.module, name)?), rule.rows)));
    if whole.is_some() {
        return whole;
    }
    let (module, end) = [".weight", ".bias"].iter().find_map(|end| Some((name.strip_suffix(end)?, end)))?;
    let (tensor, rows) = original_names(&row.stages(), module).into_iter().next()?;
    Some((format!("{tensor}{end}"), rows))
}

/// Shape, row map and sources of a tensor, whose pieces cover all of its rows once.
fn joined<'a>(
    name: &str,
    pieces: &HashMap<String, Vec<Piece<'a>>>,
) -> Option<(Vec<u64>, RowMap, Vec<&'a DiffusionSource>)> {
    let own = &pieces[name];
    let (first, rows) = own[0];
    if let ([_], AdapterRows::All) = (&own[..], rows) {
        return Some((first.shape.clone(), RowMap::Concat, vec![first]));
    }
    // Rows of a bias are divided as those of its weight.
    let weight = name.strip_suffix(".bias").and_then(|module| pieces.get(&format!("{module}.weight")));
    let (columns_of, _) = weight.unwrap_or(own)[0];
    let n_columns: u64 = columns_of.shape.get(1..)?.iter().product();
    let n_rows = own.iter().try_fold(0u64, |sum, (piece, _)| sum.checked_add(*piece.shape.first()?))?;
    let mut parts = Vec::with_capacity(own.len());
    let mut rows = RowMap::Concat;
    for (piece, of) in own {
        if piece.shape.get(1..) != first.shape.get(1..) {
            return None;
        }
        let ranges = of.ranges(n_rows, n_columns)?;
        match &ranges[..] {
            [range] if range.rows.end - range.rows.start == piece.shape[0] => {
                parts.push((range.rows.start, *piece))
            }
            [_, _] if own.len() == 1 => {
                rows = RowMap::Chunks { order: &[1, 0] };
                parts.push((0, *piece));
            }
            _ => return None,
        }
    }
    parts.sort_by_key(|(start, _)| *start);
    let mut end = 0;
    for (start, piece) in &parts {
        if *start != end {
            return None;
        }
        end += piece.shape[0];
    }
    let shape = [&[n_rows], first.shape.get(1..)?].concat();
    Some((shape, rows, parts.into_iter().map(|(_, piece)| piece).collect()))
}
