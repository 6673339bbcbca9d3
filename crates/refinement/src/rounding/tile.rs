//! Rows of a matrix, transposed: one row per lane.

use std::ops::Range;

use gguf_quant::frozen::FrozenCodec;
use ndarray::Array2;

use super::lanes::{Column, LANES, Lanes, Scale, lanes, lanes_mut};

/// Rows of one matrix with the points of their levels. All arrays are (columns or groups, n_lanes),
/// row-major, padded with zero rows to a multiple of the lanes.
#[derive(Debug)]
pub struct Tile {
    n_columns: usize,
    n_lanes: usize,
    group: usize,
    weights: Vec<f32>,
    points: Vec<f32>,
    /// `weight - value`.
    errors: Array2<f32>,
    /// (n_columns / group, n_lanes).
    scales: Vec<f32>,
    offsets: Vec<f32>,
    /// True for rows that can be rounded: all weights and values are finite.
    sound: Vec<bool>,
}

impl Tile {
    /// Reads rows of matching lengths.
    pub fn read(codec: &FrozenCodec, weights: &[f32], blocks: &[u8], n_columns: usize) -> Tile {
        let n_rows = weights.len() / n_columns;
        let n_lanes = n_rows.next_multiple_of(LANES);
        let n_groups = n_columns / codec.group;
        let mut tile = Tile {
            n_columns,
            n_lanes,
            group: codec.group,
            weights: vec![0.0; n_columns * n_lanes],
            points: vec![0.0; n_columns * n_lanes],
            errors: Array2::zeros((n_columns, n_lanes)),
            scales: vec![0.0; n_groups * n_lanes],
            offsets: vec![0.0; n_groups * n_lanes],
            sound: Vec::with_capacity(n_rows),
        };
        let mut levels = vec![0; n_columns];
        let (mut scales, mut offsets) = (vec![0.0; n_groups], vec![0.0; n_groups]);
        let rows = weights.chunks_exact(n_columns).zip(blocks.chunks_exact(blocks.len() / n_rows));
        for (lane, (weights, blocks)) in rows.enumerate() {
            (codec.levels)(blocks, &mut levels);
            (codec.scales)(blocks, &mut scales, &mut offsets);
            let values = levels.iter().enumerate().map(|(column, level)| {
                let point = codec.points.point(*level);
                (point, scales[column / codec.group] * point + offsets[column / codec.group])
            });
            // Non-finite scales and offsets give non-finite values.
            let sound =
                weights.iter().zip(values.clone()).all(|(weight, (_, value))| (weight - value).is_finite());
            tile.sound.push(sound);
            if !sound {
                continue;
            }
            for (column, (weight, (point, value))) in weights.iter().zip(values).enumerate() {
                let at = column * n_lanes + lane;
                tile.weights[at] = *weight;
                tile.points[at] = point;
                tile.errors[[column, lane]] = weight - value;
            }
            for group in 0..n_groups {
                tile.scales[group * n_lanes + lane] = scales[group];
                tile.offsets[group * n_lanes + lane] = offsets[group];
            }
        }
        tile
    }

    /// Packs the levels into the original blocks.
    pub fn write(&self, codec: &FrozenCodec, blocks: &mut [u8]) {
        let mut levels = vec![0; self.n_columns];
        let row_bytes = blocks.len() / self.sound.len();
        for (lane, blocks) in blocks.chunks_exact_mut(row_bytes).enumerate() {
            if !self.sound[lane] {
                continue;
            }
            for (level, points) in levels.iter_mut().zip(self.points.chunks_exact(self.n_lanes)) {
                *level = codec.points.level(points[lane]);
            }
            (codec.put_levels)(&levels, blocks);
        }
    }

    /// Number of columns.
    pub fn n_columns(&self) -> usize {
        self.n_columns
    }

    /// Number of rows, including padding.
    pub fn n_lanes(&self) -> usize {
        self.n_lanes
    }

    /// `weight - value`: (n_columns, n_lanes).
    pub fn errors(&self) -> &Array2<f32> {
        &self.errors
    }

    pub fn errors_mut(&mut self) -> &mut Array2<f32> {
        &mut self.errors
    }

    /// Sixteen rows of a column from a lane on, with their points and errors.
    #[inline(always)]
    pub fn column(&mut self, column: usize, lane: usize) -> (Column<'_>, &mut Lanes, &mut Lanes) {
        let at = column * self.n_lanes + lane;
        let scale_at = column / self.group * self.n_lanes + lane;
        let lanes_column = Column {
            weights: lanes(&self.weights, at),
            scales: lanes(&self.scales, scale_at),
            offsets: lanes(&self.offsets, scale_at),
        };
        let errors = self.errors.as_slice_mut().expect("row-major");
        (lanes_column, lanes_mut(&mut self.points, at), lanes_mut(errors, at))
    }

    pub fn group(&self) -> usize {
        self.group
    }

    /// Scales and offsets of sixteen rows for the group that starts at a column.
    pub fn scale(&self, column: usize, lane: usize) -> Scale {
        let at = column / self.group * self.n_lanes + lane;
        Scale { scales: *lanes(&self.scales, at), offsets: *lanes(&self.offsets, at) }
    }

    /// The points of one row's columns.
    pub fn points(&self, columns: Range<usize>, lane: usize) -> impl Iterator<Item = f32> {
        columns.map(move |column| self.points[column * self.n_lanes + lane])
    }

    /// Changes scale and offset of one row's group under its current points.
    pub fn move_scale(&mut self, column: usize, lane: usize, scale: f32, offset: f32) {
        self.put_scale(column, lane, scale, offset);
        for column in column..column + self.group {
            let at = column * self.n_lanes + lane;
            // The decoder's arithmetic: a product, then a sum.
            self.errors[[column, lane]] = self.weights[at] - (scale * self.points[at] + offset);
        }
    }

    /// Changes scale and offset of one row's group.
    pub fn put_scale(&mut self, column: usize, lane: usize, scale: f32, offset: f32) {
        let at = column / self.group * self.n_lanes + lane;
        (self.scales[at], self.offsets[at]) = (scale, offset);
    }

    /// The block of a column of one sound row, and the index of the group that starts at the column.
    pub fn block<'a>(
        &self,
        codec: &FrozenCodec,
        blocks: &'a [u8],
        column: usize,
        lane: usize,
    ) -> Option<(&'a [u8], usize)> {
        let sound = self.sound.get(lane).is_some_and(|sound| *sound);
        let elems = codec.dtype.block_elems() as usize;
        sound.then(|| (&blocks[self.block_range(codec, column, lane)], column % elems / self.group))
    }

    pub fn block_mut<'a>(
        &self,
        codec: &FrozenCodec,
        blocks: &'a mut [u8],
        column: usize,
        lane: usize,
    ) -> &'a mut [u8] {
        &mut blocks[self.block_range(codec, column, lane)]
    }

    fn block_range(&self, codec: &FrozenCodec, column: usize, lane: usize) -> Range<usize> {
        let (elems, bytes) = (codec.dtype.block_elems() as usize, codec.dtype.block_bytes() as usize);
        let at = (lane * self.n_columns + column) / elems * bytes;
        at..at + bytes
    }
}
