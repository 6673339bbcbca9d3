//! Assignment of scales to codes by their shapes.

use super::{
    checks::{shape_error, wrong_dtype},
    number_tables::Scales,
};
use crate::{Error, Tensor};

/// Assignment of scales to codes: element `[m, row / block_rows, column / block_columns]` of a grid belongs
/// to code `[m, row, column]`.
#[derive(Debug)]
pub(super) struct Grid {
    pub scales: Scales,
    /// Rows of one matrix of codes.
    pub matrix_rows: u64,
    /// Elements of the scales from one matrix to the next, from one row of blocks to the next, from one
    /// column of blocks to the next; 0 if all share them.
    pub steps: [u64; 3],
    /// Rows and columns of a block; at least 1.
    pub block: [u64; 2],
}

/// Common blocks, for checkpoints whose config has no block size: those of DeepSeek, of groups, and of
/// microscaling.
const USUAL_BLOCKS: &[[u64; 2]] = &[[128, 128], [1, 128], [1, 32], [32, 32]];

/// Possible numbers of ranks for which a fused matrix of queries, keys and values was split: MiMo-V2.5.
/// Blocks of scales restart with the rows of each rank. Source: `_tp_aware_qkv_dequant` in
/// `conversion/mimo.py` of the reference.
const RANKS: [u64; 2] = [8, 4];

impl Grid {
    /// The grid of `scales` for `codes`, of shape (.., out, in). `blocks` are those in the config.
    ///
    /// Scales may be one for all; (out) or (.., out, 1) for each row; (.., 1, in) for each column; one for
    /// each matrix; or one for each block, with a short last block. A grid of blocks may be larger than
    /// necessary.
    pub fn new(codes: &Tensor, scales: &Tensor, blocks: &[[u64; 2]]) -> Result<Grid, Error> {
        let Some(values) = Scales::of(scales) else {
            return Err(wrong_dtype(scales, "scales of F32, F16, BF16, F8_E8M0 or U8"));
        };
        let (outer, [out, row_elems]) = match codes.shape[..] {
            [ref outer @ .., out, row_elems] => (outer, [out, row_elems]),
            [row_elems] => (&[][..], [1, row_elems]),
            [] => (&[][..], [1, 1]),
        };
        let grid = |matrix_rows, steps, block: [u64; 2]| Grid {
            scales: values.clone(),
            matrix_rows,
            steps,
            block: block.map(|size| size.max(1)),
        };
        if scales.shape.iter().all(|&dim| dim == 1) {
            return Ok(grid(out, [0; 3], [out, row_elems]));
        }
        let shape = without_inner_ones(&scales.shape, codes.shape.len());
        let wrong = || {
            let blocks =
                blocks.iter().map(|[rows, columns]| format!("{rows} x {columns}")).collect::<Vec<_>>();
            let blocks =
                if blocks.is_empty() { String::new() } else { format!(" of {}", blocks.join(" or ")) };
            let expected = format!("one scale for each tensor, row, column or block{blocks}");
            shape_error(scales, codes, expected)
        };
        if codes.shape.len() < 2 {
            return Err(wrong());
        }
        // (.., rows of blocks, columns of blocks)
        let cells = match shape.split_last_chunk::<2>() {
            Some((lead, &[down, right])) if lead == outer => Some([down, right]),
            _ => None,
        };
        let by_block = |[rows, columns]: [u64; 2], [down, right]: [u64; 2]| {
            grid(out, [down * right, right, 1], [rows, columns])
        };
        let needed = |block: [u64; 2]| [out.div_ceil(block[0]), row_elems.div_ceil(block[1])];
        // 1. Blocks that fit exactly.
        let named = if blocks.is_empty() { USUAL_BLOCKS } else { blocks };
        if let Some(cells) = cells
            && let Some(block) = named.iter().find(|&&block| needed(block) == cells)
        {
            return Ok(by_block(*block, cells));
        }
        // 2. A scale for each row, column or matrix: missing trailing dimensions are 1, like in the
        //    reference.
        if let Some(steps) = broadcast(&shape, outer, [out, row_elems]) {
            let columns = if steps[2] == 0 { row_elems } else { 1 };
            let rows = if steps[1] == 0 { out } else { 1 };
            return Ok(grid(out, steps, [rows, columns]));
        }
        let Some(cells) = cells else { return Err(wrong()) };
        for &block in blocks {
            let needs = needed(block);
            // 3. Blocks that restart with each rank.
            let ranks = RANKS.into_iter().find(|ranks| {
                out % ranks == 0 && cells == [ranks * (out / ranks).div_ceil(block[0]), needs[1]]
            });
            if let Some(ranks) = ranks.filter(|_| codes.name.ends_with("qkv_proj.weight")) {
                let steps = [cells[0] / ranks * cells[1], cells[1], 1];
                return Ok(grid(out / ranks, steps, block));
            }
            // 4. A grid that is larger than necessary.
            if needs[0] <= cells[0] && needs[1] <= cells[1] {
                return Ok(by_block(block, cells));
            }
        }
        Err(wrong())
    }

    /// Index of the scale for block column `column` of row `row`, counted over all matrices.
    pub fn place(&self, row: u64, column: u64) -> u64 {
        let [matrix, down, right] = self.steps;
        let (index, row) = (row / self.matrix_rows, row % self.matrix_rows);
        index * matrix + row / self.block[0] * down + column * right
    }
}

/// Removes the dimensions within blocks, which ModelOpt keeps as ones: (.., rows of blocks, 1, columns of
/// blocks, 1).
fn without_inner_ones(shape: &[u64], n_dims: usize) -> Vec<u64> {
    match *shape {
        [ref lead @ .., down, 1, right, 1] if shape.len() == n_dims + 2 => [lead, &[down, right]].concat(),
        _ => shape.to_vec(),
    }
}

/// Steps by matrix, row and column through scales whose dimensions are 1 or those of the codes.
fn broadcast(shape: &[u64], outer: &[u64], [out, row_elems]: [u64; 2]) -> Option<[u64; 3]> {
    let n_dims = outer.len() + 2;
    if shape.len() > n_dims {
        return None;
    }
    let mut full = shape.to_vec();
    // ModelOpt writes (E, in) for experts whose matrices are transposed.
    if shape.len() + 1 == n_dims && n_dims > 2 && shape.last() == Some(&row_elems) && row_elems != out {
        full.insert(n_dims - 2, 1);
    }
    full.resize(n_dims, 1);
    let (lead, &[rows, columns]) = full.split_last_chunk::<2>()?;
    let has = |dim: u64, of: u64| dim == of || dim == 1;
    let is_same_lead = lead == outer || lead.iter().all(|&dim| dim == 1);
    if !is_same_lead || !has(rows, out) || !has(columns, row_elems) {
        return None;
    }
    let step = |dim: u64, step: u64| if dim == 1 { 0 } else { step };
    let n_matrices: u64 = lead.iter().product();
    Some([step(n_matrices, rows * columns), step(rows, columns), step(columns, 1)])
}
