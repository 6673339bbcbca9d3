//! Exhaustive search for the nearest codebook point, for sixteen rows at once.
//!
//! For eight columns with targets `t`, in units of the scale, and weights `m`, it finds the point that
//! minimizes `sum_i m_i (|t_i| - magnitude_i)^2`; signs are those of `t`. If the number of minus signs must
//! be even and is not, the sign that costs least is flipped: `4 m_i |t_i| magnitude_i`.
//!
//! There are few magnitudes (3 or 8), so the costs of all pairs of neighboring columns are tabulated once,
//! and a point needs one or two look-ups per pair. All rows use the same entry.
#![expect(clippy::needless_range_loop, reason = "lanes walk several arrays by one index")]

use gguf_quant::codebook::{COLUMNS, Choice, Codebook, CodebookCodec};

use super::lanes::{LANES, Lanes};

/// Maximum number of magnitudes of a codebook.
const MAX_LEVELS: usize = 8;
/// Number of pairs of neighboring columns.
const PAIRS: usize = COLUMNS / 2;

#[derive(Debug)]
pub struct Search {
    codebook: Codebook,
    even: bool,
    /// Distinct magnitudes, ascending.
    levels: Vec<f32>,
    /// Look-ups per point: 4 or 2.
    point_pairs: usize,
    /// (points, point_pairs): `level_1 * levels + level_0`.
    pairs: Vec<u8>,
}

/// A result: one or two points, and signs, per row.
#[derive(Debug, Clone, Copy)]
pub struct Found {
    points: [[u32; LANES]; 2],
    /// 1 or -1.
    signs: [Lanes; COLUMNS],
}

impl Found {
    /// Takes one row of another result.
    #[inline(always)]
    pub fn take(&mut self, other: &Found, row: usize) {
        for half in 0..2 {
            self.points[half][row] = other.points[half][row];
        }
        for i in 0..COLUMNS {
            self.signs[i][row] = other.signs[i][row];
        }
    }
}

/// Best point for a part of the columns: unchanged, and with one sign flipped.
#[derive(Debug, Clone, Copy)]
struct Best {
    cost: Lanes,
    point: [u32; LANES],
    turned_cost: Lanes,
    turned_point: [u32; LANES],
}

impl Search {
    pub fn new(codec: &CodebookCodec) -> Search {
        let points: Vec<&[u8]> = match codec.codebook {
            Codebook::Eights(points) => points.iter().map(|point| &point[..]).collect(),
            Codebook::Fours(points) => points.iter().map(|point| &point[..]).collect(),
        };
        let mut levels: Vec<u8> = points.iter().flat_map(|point| point.iter().copied()).collect();
        levels.sort_unstable();
        levels.dedup();
        let level = |magnitude: u8| levels.iter().position(|level| *level == magnitude).unwrap_or_default();
        let pair = |pair: &[u8]| (level(pair[1]) * levels.len() + level(pair[0])) as u8;
        Search {
            codebook: codec.codebook,
            even: codec.even,
            point_pairs: points[0].len() / 2,
            pairs: points.iter().flat_map(|point| point.chunks_exact(2).map(pair)).collect(),
            levels: levels.iter().map(|level| f32::from(*level)).collect(),
        }
    }

    /// The point nearest to `target`, in units of the scale, with weights per column.
    #[inline(always)]
    pub fn nearest(&self, target: &[Lanes; COLUMNS], weights: &[f32; COLUMNS]) -> Found {
        let n_levels = self.levels.len();
        let mut signs = [[1.0; LANES]; COLUMNS];
        let mut sizes = [[0.0; LANES]; COLUMNS];
        let mut product = [1.0; LANES];
        for i in 0..COLUMNS {
            for row in 0..LANES {
                signs[i][row] = if target[i][row] < 0.0 { -1.0 } else { 1.0 };
                sizes[i][row] = target[i][row].abs();
                product[row] *= signs[i][row];
            }
        }
        // For pairs of columns, (pairs, levels^2): cost of a pair of magnitudes, and the least cost of
        // flipping one of its signs.
        let mut costs = [[[0.0; LANES]; MAX_LEVELS * MAX_LEVELS]; PAIRS];
        let mut turns = [[[0.0; LANES]; MAX_LEVELS * MAX_LEVELS]; PAIRS];
        for pair in 0..PAIRS {
            let mut level_costs = [[([0.0; LANES], [0.0; LANES]); MAX_LEVELS]; 2];
            for side in 0..2 {
                let (size, weight) = (&sizes[2 * pair + side], weights[2 * pair + side]);
                for (level, level_costs) in self.levels.iter().zip(&mut level_costs[side]) {
                    for row in 0..LANES {
                        let distance = size[row] - level;
                        level_costs.0[row] = weight * distance * distance;
                        level_costs.1[row] = 4.0 * weight * size[row] * level;
                    }
                }
            }
            for high in 0..n_levels {
                for low in 0..n_levels {
                    let at = high * n_levels + low;
                    let (a, b) = (&level_costs[0][low], &level_costs[1][high]);
                    for row in 0..LANES {
                        costs[pair][at][row] = a.0[row] + b.0[row];
                        turns[pair][at][row] = if a.1[row] < b.1[row] { a.1[row] } else { b.1[row] };
                    }
                }
            }
        }
        let odd = product.map(|product| self.even && product < 0.0);
        let mut points = [[0; LANES]; 2];
        match self.codebook {
            Codebook::Eights(_) => {
                let best = self.best(&costs, &turns);
                for row in 0..LANES {
                    points[0][row] = if odd[row] { best.turned_point[row] } else { best.point[row] };
                }
            }
            Codebook::Fours(_) => {
                let [low, high] = [0, 2].map(
                    #[inline(always)]
                    |from| self.best(&costs[from..from + 2], &turns[from..from + 2]),
                );
                for row in 0..LANES {
                    // The flipped sign is in one of the halves.
                    let in_low =
                        low.turned_cost[row] + high.cost[row] < low.cost[row] + high.turned_cost[row];
                    let turned = [odd[row] && in_low, odd[row] && !in_low];
                    points[0][row] = if turned[0] { low.turned_point[row] } else { low.point[row] };
                    points[1][row] = if turned[1] { high.turned_point[row] } else { high.point[row] };
                }
            }
        }
        let mut found = Found { points, signs };
        for row in 0..LANES {
            if odd[row] {
                // The first sign that costs least to flip.
                let magnitudes = self.magnitudes(&found, row);
                let turn = |i: usize| weights[i] * sizes[i][row] * f32::from(magnitudes[i]);
                let least = (1..COLUMNS).fold(0, |least, i| if turn(i) < turn(least) { i } else { least });
                found.signs[least][row] = -found.signs[least][row];
            }
        }
        found
    }

    /// The best point by tables with one entry per look-up; the first of equals.
    #[inline(always)]
    fn best(
        &self,
        costs: &[[Lanes; MAX_LEVELS * MAX_LEVELS]],
        turns: &[[Lanes; MAX_LEVELS * MAX_LEVELS]],
    ) -> Best {
        let none = [f32::INFINITY; LANES];
        let mut best = Best { cost: none, point: [0; LANES], turned_cost: none, turned_point: [0; LANES] };
        for (index, pairs) in self.pairs.chunks_exact(self.point_pairs).enumerate() {
            let mut cost = [0.0; LANES];
            for (costs, pair) in costs.iter().zip(pairs) {
                for row in 0..LANES {
                    cost[row] += costs[usize::from(*pair)][row];
                }
            }
            for row in 0..LANES {
                let better = cost[row] < best.cost[row];
                best.cost[row] = if better { cost[row] } else { best.cost[row] };
                best.point[row] = if better { index as u32 } else { best.point[row] };
            }
            if self.even {
                let mut turn = none;
                for (turns, pair) in turns.iter().zip(pairs) {
                    for row in 0..LANES {
                        let other = turns[usize::from(*pair)][row];
                        turn[row] = if other < turn[row] { other } else { turn[row] };
                    }
                }
                for row in 0..LANES {
                    let cost = cost[row] + turn[row];
                    let better = cost < best.turned_cost[row];
                    best.turned_cost[row] = if better { cost } else { best.turned_cost[row] };
                    best.turned_point[row] = if better { index as u32 } else { best.turned_point[row] };
                }
            }
        }
        best
    }

    #[inline(always)]
    fn magnitudes(&self, found: &Found, row: usize) -> [u8; COLUMNS] {
        self.codebook.magnitudes(found.points.map(|points| points[row] as u16))
    }

    /// Values of a result in the decoder's arithmetic: `scale * magnitude * sign`.
    #[inline(always)]
    pub fn values(&self, found: &Found, scales: &Lanes) -> [Lanes; COLUMNS] {
        let mut values = [[0.0; LANES]; COLUMNS];
        for row in 0..LANES {
            let magnitudes = self.magnitudes(found, row);
            for i in 0..COLUMNS {
                values[i][row] = scales[row] * f32::from(magnitudes[i]) * found.signs[i][row];
            }
        }
        values
    }

    /// Codes of one row for its block.
    #[inline(always)]
    pub fn choice(&self, found: &Found, row: usize) -> Choice {
        let signs = (0..COLUMNS).fold(0, |signs, i| signs | u8::from(found.signs[i][row] < 0.0) << i);
        Choice { points: found.points.map(|points| points[row] as u16), signs }
    }
}
