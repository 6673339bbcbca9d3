//! Coordinate descent on scales and levels together.
//!
//! Encoders choose a group's scale only for the group's weights. Here neighboring codes of scale and offset
//! are tried for the same objective as levels: for each, the group's levels are chosen anew by descent within
//! the group, and the cheapest code is kept. The group's cost is exact with all other errors fixed, so
//! `tr(E H E^T)` never rises.

use gguf_products::matmul;
use gguf_quant::{
    Level,
    frozen::{Codes, FrozenCodec},
    round::{f16_to_f32, f32_to_f16},
};
use ndarray::{Array2, ArrayView2, s};

use super::{
    PANEL,
    lanes::{Column, LANES, Lanes, Nearest, Scale, add_products, lanes, take_where_less},
    metric::Metric,
    tile::Tile,
};

const MAX_GROUP: usize = 32;
/// Passes of descent over a group for each candidate.
const PASSES: usize = 2;

/// Steps of the codes of scale and offset. The zero step is first; the others have to beat it.
const CANDIDATES: [(i32, i32); 11] =
    [(0, 0), (1, 0), (-1, 0), (2, 0), (-2, 0), (0, 1), (0, -1), (1, 1), (-1, -1), (1, -1), (-1, 1)];

/// The codes that are `steps` away from those of a group, with their values; `None` if they do not exist.
///
/// Steps in half precision are an eightieth of the scale or, for an offset, a quarter of the scale.
fn candidate(
    codec: &FrozenCodec,
    block: &[u8],
    codes: [u16; 2],
    steps: (i32, i32),
) -> Option<([u16; 2], [f32; 2])> {
    let [scale, _] = (codec.scale_of)(block, codes);
    let near = |codes: Codes, code: u16, step: i32, is_scale: bool| match codes {
        _ if step == 0 => Some(code),
        Codes::None => None,
        Codes::Integers { lowest, highest, zero } => {
            let code = i32::from(code) + step;
            let in_range = (i32::from(lowest)..=i32::from(highest)).contains(&code);
            (in_range && !(is_scale && code == i32::from(zero))).then_some(code as u16)
        }
        Codes::Halves => {
            let value = f16_to_f32(code);
            let moved =
                if is_scale { value * (1.0 + step as f32 / 80.0) } else { value + scale * step as f32 / 4.0 };
            Some(f32_to_f16(moved))
        }
    };
    let found =
        [near(codec.codes[0], codes[0], steps.0, true)?, near(codec.codes[1], codes[1], steps.1, false)?];
    let values = (codec.scale_of)(block, found);
    // A zero or infinite scale has no levels; a step that rounds to the same code is not a candidate.
    let is_useful = found != codes && values[0] != 0.0 && values.iter().all(|value| value.is_finite());
    is_useful.then_some((found, values))
}

/// One sweep over all groups of a tile, in file order. `gradients` (PANEL, n_lanes) is scratch space.
pub fn sweep(
    level: Level,
    codec: &FrozenCodec,
    metric: &Metric,
    nearest: &impl Nearest,
    tile: &mut Tile,
    blocks: &mut [u8],
    gradients: &mut Array2<f32>,
) {
    let n_columns = tile.n_columns();
    let steps: Vec<(i32, i32)> =
        CANDIDATES.into_iter().filter(|(_, offset)| *offset == 0 || codec.codes[1] != Codes::None).collect();
    for first in (0..n_columns).step_by(PANEL) {
        let end = n_columns.min(first + PANEL);
        // As in descent: g of the panel, (panel, n_columns) x (n_columns, n_lanes).
        let mut gradients = gradients.slice_mut(s![..end - first, ..]);
        let h = metric.h().slice(s![first..end, ..]);
        matmul(level, false, 1.0, h, tile.errors().view(), gradients.view_mut());
        let panel = Panel {
            first,
            h: h.slice(s![.., first..end]),
            inverse_diagonal: &metric.inverse_diagonal()[first..end],
        };
        for lane in (0..tile.n_lanes()).step_by(LANES) {
            let mut sums = [[0.0; LANES]; PANEL];
            let panel_gradients = gradients.as_slice().expect("whole rows");
            for (j, sum) in sums[..end - first].iter_mut().enumerate() {
                *sum = *lanes(panel_gradients, j * tile.n_lanes() + lane);
            }
            for group in (first..end).step_by(codec.group) {
                // (candidates, lanes). For rows without a candidate, the current codes are repeated, which
                // never win.
                let mut codes = vec![[[0; 2]; LANES]; steps.len()];
                let mut scales = vec![tile.scale(group, lane); steps.len()];
                for row in 0..LANES {
                    let Some((block, block_group)) = tile.block(codec, blocks, group, lane + row) else {
                        continue;
                    };
                    let now = (codec.codes_of)(block, block_group);
                    for ((step, codes), scale) in steps.iter().zip(&mut codes).zip(&mut scales) {
                        codes[row] = now;
                        if let Some((near, values)) = candidate(codec, block, now, *step)
                            && scale.scales[row] != 0.0
                        {
                            codes[row] = near;
                            (scale.scales[row], scale.offsets[row]) = (values[0], values[1]);
                        }
                    }
                }
                let chosen = level.vectorize(
                    #[inline(always)]
                    || choose(level, &panel, nearest, tile, (group, lane), &scales, &mut sums),
                );
                for row in 0..LANES {
                    let choice = chosen[row];
                    if choice > 0 {
                        tile.put_scale(
                            group,
                            lane + row,
                            scales[choice].scales[row],
                            scales[choice].offsets[row],
                        );
                        let block_group = group % codec.dtype.block_elems() as usize / codec.group;
                        let block = tile.block_mut(codec, blocks, group, lane + row);
                        (codec.put_codes)(codes[choice][row], block, block_group);
                    }
                }
            }
        }
    }
}

struct Panel<'a> {
    first: usize,
    /// Their part of `H`.
    h: ArrayView2<'a, f32>,
    inverse_diagonal: &'a [f32],
}

/// Tries the candidates for the group that starts at column `group`, in sixteen rows from `lane` on; applies
/// the best per row, and updates the panel's gradients `sums`. Returns the index of the chosen candidate.
#[inline(always)]
fn choose(
    level: Level,
    panel: &Panel<'_>,
    nearest: &impl Nearest,
    tile: &mut Tile,
    (group, lane): (usize, usize),
    scales: &[Scale],
    sums: &mut [Lanes; PANEL],
) -> [usize; LANES] {
    let Panel { first, h, inverse_diagonal } = *panel;
    let (from, n) = (group - first, tile.group());
    let h_row = |j: usize| h.row(from + j).to_slice().expect("whole rows");
    let mut least = [0.0; LANES];
    let mut chosen = [0; LANES];
    let (mut best_points, mut best_errors) = ([[0.0; LANES]; MAX_GROUP], [[0.0; LANES]; MAX_GROUP]);
    for (index, candidate) in scales.iter().enumerate() {
        let (mut points, mut errors) = ([[0.0; LANES]; MAX_GROUP], [[0.0; LANES]; MAX_GROUP]);
        let mut gradients = [[0.0; LANES]; MAX_GROUP];
        gradients[..n].copy_from_slice(&sums[from..from + n]);
        for j in 0..n {
            let (_, now, left) = tile.column(group + j, lane);
            (points[j], errors[j]) = (*now, *left);
        }
        // Cost of all changes so far: sum of 2 g_j c_j + H[j, j] c_j^2, with g at the time of each.
        let mut cost = [0.0; LANES];
        for pass in 0..PASSES {
            for j in 0..n {
                let (tile_column, _, _) = tile.column(group + j, lane);
                let column = Column { scales: &candidate.scales, offsets: &candidate.offsets, ..tile_column };
                let (mut best, mut target) = ([0.0; LANES], [0.0; LANES]);
                for i in 0..LANES {
                    best[i] = errors[j][i] - gradients[j][i] * inverse_diagonal[from + j];
                    target[i] = column.weights[i] - best[i];
                }
                let (found, left) = column.nearest(nearest, &target, &points[j]);
                let h_row = h_row(j);
                let mut change = [0.0; LANES];
                for i in 0..LANES {
                    // The first pass must leave the old scale; later passes take the nearer level.
                    let take = pass == 0 || (left[i] - best[i]).abs() < (errors[j][i] - best[i]).abs();
                    change[i] = if take { left[i] - errors[j][i] } else { 0.0 };
                    points[j][i] = if take { found[i] } else { points[j][i] };
                    errors[j][i] = if take { left[i] } else { errors[j][i] };
                    cost[i] += change[i] * (2.0 * gradients[j][i] + h_row[from + j] * change[i]);
                }
                // After the last pass, gradients of finished columns are not needed.
                let next = if pass + 1 == PASSES { j + 1 } else { 0 };
                add_products(level, &mut gradients[next..n], &h_row[from + next..from + n], &change);
            }
        }
        if index == 0 {
            (least, best_points, best_errors) = (cost, points, errors);
            continue;
        }
        take_where_less(level, (&cost, &least), &points[..n], &mut best_points[..n]);
        take_where_less(level, (&cost, &least), &errors[..n], &mut best_errors[..n]);
        for i in 0..LANES {
            let better = cost[i] < least[i];
            least[i] = if better { cost[i] } else { least[i] };
            chosen[i] = if better { index } else { chosen[i] };
        }
    }
    for j in 0..n {
        let (_, points, errors) = tile.column(group + j, lane);
        let mut change = [0.0; LANES];
        for i in 0..LANES {
            change[i] = best_errors[j][i] - errors[i];
        }
        (*points, *errors) = (best_points[j], best_errors[j]);
        let later = from + n;
        let h_row = h_row(j);
        add_products(level, &mut sums[later..h_row.len().min(h.nrows())], &h_row[later..], &change);
    }
    chosen
}
