//! Activations, and the memory that they are kept in.

use std::{
    ops::{AddAssign, Deref, DerefMut, MulAssign, Range},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ndarray::{Array2, Axis, s};
use rayon::prelude::*;

use super::vectorize;

/// Activations: (n_rows, width) f32, row-major and contiguous; a row is a token.
///
/// Memory that came from `Buffers` goes back there when the rows are dropped.
#[derive(Debug)]
pub struct Rows {
    values: Array2<f32>,
    buffers: Option<Buffers>,
}

impl Rows {
    /// Zeros: (n_rows, width).
    pub fn zeros(n_rows: usize, width: usize) -> Rows {
        Rows { values: Array2::zeros((n_rows, width)), buffers: None }
    }

    /// Rows of values, whose number must be `n_rows * width`.
    pub fn from_vec(n_rows: usize, width: usize, values: Vec<f32>) -> Rows {
        let values = Array2::from_shape_vec((n_rows, width), values);
        Rows { values: values.expect("there are as many values as the shape says"), buffers: None }
    }

    /// All values, row-major.
    pub fn as_slice(&self) -> &[f32] {
        self.values.as_slice().expect("rows are contiguous from their making on")
    }

    /// All values, row-major.
    pub fn as_mut_slice(&mut self) -> &mut [f32] {
        self.values.as_slice_mut().expect("rows are contiguous from their making on")
    }

    /// Some rows: (indices.len(), width).
    pub fn select_rows(&self, indices: &[usize]) -> Rows {
        Rows { values: self.values.select(Axis(0), indices), buffers: None }
    }

    /// `self_r <- self_r + scale_i * rows_i`, for the rows `r` of `to`, which ascend: rows (to.len(), width).
    pub fn add_to_rows(&mut self, to: &[usize], scales: &[f32], rows: &Rows) {
        // Rows of `self` that a thread adds to.
        const ROWS: usize = 64;
        let width = self.ncols().max(1);
        self.as_mut_slice().par_chunks_mut(width * ROWS).enumerate().for_each(|(chunk, own)| {
            let first = chunk * ROWS;
            // Rows ascend, so that those of a chunk lie together.
            let among = to.partition_point(|row| *row < first)..to.partition_point(|row| *row < first + ROWS);
            let each = to[among.clone()].iter().zip(&scales[among.clone()]);
            let rows = rows.as_slice().chunks_exact(width).skip(among.start);
            for ((row, scale), from) in each.zip(rows) {
                let own = &mut own[(row - first) * width..][..width];
                vectorize(
                    #[inline(always)]
                    || own.iter_mut().zip(from).for_each(|(own, x)| *own += scale * x),
                );
            }
        });
    }

    /// These rows for longer use than one pass: the memory is not returned to the pool.
    pub fn detached(mut self) -> Rows {
        self.buffers = None;
        self
    }

    /// Adds a vector (width) to every row.
    pub fn add_bias(&mut self, bias: &[f32]) {
        self.as_mut_slice().par_chunks_mut(bias.len().max(1)).for_each(|row| {
            vectorize(
                #[inline(always)]
                || row.iter_mut().zip(bias).for_each(|(value, bias)| *value += bias),
            );
        });
    }

    /// `self <- self + scale * rows`, of the same shape.
    pub fn add_scaled(&mut self, scale: f32, rows: &Rows) {
        self.as_mut_slice().par_chunks_mut(CHUNK).zip(rows.as_slice().par_chunks(CHUNK)).for_each(
            |(to, rows)| {
                vectorize(
                    #[inline(always)]
                    || to.iter_mut().zip(rows).for_each(|(to, x)| *to += scale * x),
                );
            },
        );
    }

    /// `self <- from`, of the same shape.
    pub fn copy_from(&mut self, from: &Rows) {
        let from = from.as_slice().par_chunks(CHUNK);
        self.as_mut_slice().par_chunks_mut(CHUNK).zip(from).for_each(|(to, from)| to.copy_from_slice(from));
    }

    /// Multiplies groups of neighboring elements with a factor each: the number of factors in a row divides its width.
    pub fn multiply_groups(&mut self, factors: &Rows) {
        let width = self.ncols() / factors.ncols().max(1);
        for (elements, factor) in self.as_mut_slice().chunks_exact_mut(width.max(1)).zip(factors.as_slice()) {
            elements.iter_mut().for_each(|x| *x *= factor);
        }
    }

    /// Every element through a function.
    pub fn map(&mut self, f: impl Fn(f32) -> f32 + Sync) {
        let width = self.ncols().max(1);
        let chunks = self.as_mut_slice().par_chunks_mut(width * 8);
        chunks.for_each(|values| values.iter_mut().for_each(|x| *x = f(*x)));
    }
}

/// Elements that a thread adds or copies at once.
const CHUNK: usize = 1 << 14;

impl Deref for Rows {
    type Target = Array2<f32>;

    fn deref(&self) -> &Array2<f32> {
        &self.values
    }
}

impl DerefMut for Rows {
    fn deref_mut(&mut self) -> &mut Array2<f32> {
        &mut self.values
    }
}

impl AddAssign<&Rows> for Rows {
    fn add_assign(&mut self, other: &Rows) {
        assert_eq!(self.dim(), other.dim(), "sums are of the same shape");
        // By all threads; a factor of 1 changes no bit.
        self.add_scaled(1.0, other);
    }
}

impl MulAssign<&Rows> for Rows {
    fn mul_assign(&mut self, other: &Rows) {
        self.values *= &other.values;
    }
}

impl MulAssign<f32> for Rows {
    fn mul_assign(&mut self, factor: f32) {
        self.values *= factor;
    }
}

impl Clone for Rows {
    fn clone(&self) -> Rows {
        Rows { values: self.values.clone(), buffers: None }
    }
}

impl Default for Rows {
    fn default() -> Rows {
        Rows::zeros(0, 0)
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        if let Some(buffers) = self.buffers.take() {
            buffers.give_back(std::mem::take(&mut self.values).into_raw_vec_and_offset().0);
        }
    }
}

/// Memory for rows that comes back when they are dropped: fresh pages would cost a tenth of the time.
#[derive(Debug, Clone, Default)]
pub struct Buffers(Arc<Mutex<Vec<Vec<f32>>>>);

impl Buffers {
    /// Rows with whatever is in them: (n_rows, width).
    pub fn rows(&self, n_rows: usize, width: usize) -> Rows {
        let len = n_rows * width;
        // A buffer eight times as large as needed is left for others.
        let fits = |buffer: &Vec<f32>| buffer.capacity() >= len && buffer.capacity() / 8 <= len;
        let mut free = self.free();
        // One of the same length needs no filling.
        let same = free.iter().position(|buffer| buffer.len() == len);
        let mut buffer = match same.or_else(|| free.iter().position(fits)) {
            Some(at) => free.swap_remove(at),
            None => Vec::with_capacity(len),
        };
        drop(free);
        buffer.resize(len, 0.0);
        let mut rows = Rows::from_vec(n_rows, width, buffer);
        rows.buffers = Some(self.clone());
        rows
    }

    /// Zeros: (n_rows, width).
    pub fn zeros(&self, n_rows: usize, width: usize) -> Rows {
        let mut rows = self.rows(n_rows, width);
        rows.fill(0.0);
        rows
    }

    /// Some rows of `from`: (indices.len(), width).
    pub fn select_rows(&self, from: &Rows, indices: &[usize]) -> Rows {
        // Copies of some hundred kilobytes are worth a task.
        const ROWS: usize = 64;
        let width = from.ncols().max(1);
        let mut rows = self.rows(indices.len(), from.ncols());
        let to = rows.as_mut_slice().par_chunks_mut(width * ROWS);
        to.zip(indices.par_chunks(ROWS)).for_each(|(to, indices)| {
            for (to, index) in to.chunks_exact_mut(width).zip(indices) {
                to.copy_from_slice(&from.as_slice()[index * width..(index + 1) * width]);
            }
        });
        rows
    }

    /// Some columns of `from` (n, width): (n, columns.len()).
    pub fn columns(&self, from: &Rows, columns: Range<usize>) -> Rows {
        let mut rows = self.rows(from.nrows(), columns.len());
        rows.assign(&from.slice(s![.., columns]));
        rows
    }

    fn give_back(&self, buffer: Vec<f32>) {
        /// About as many as a layer uses at once; more would contain unused memory.
        const KEPT: usize = 8;
        let mut free = self.free();
        if free.len() < KEPT {
            free.push(buffer);
        }
    }

    fn free(&self) -> MutexGuard<'_, Vec<Vec<f32>>> {
        // A buffer contains nothing that a panic elsewhere could leave half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_memory_is_reused_unless_detached() {
        let buffers = Buffers::default();
        let rows = buffers.rows(3, 4);
        let at = rows.as_slice().as_ptr();
        drop(rows);
        let rows = buffers.rows(2, 6);
        assert_eq!(rows.as_slice().as_ptr(), at);
        drop(rows.detached());
        assert_eq!(buffers.free().len(), 0);
        assert_eq!(buffers.zeros(2, 2).as_slice(), [0.0; 4]);
        assert_eq!(buffers.free().len(), 1);
    }

    #[test]
    fn gathered_rows_are_scattered_back() {
        let from = Rows::from_vec(200, 3, (0u16..600).map(f32::from).collect());
        let indices: Vec<usize> = (0..200).filter(|row| row % 3 != 1).collect();
        let scales: Vec<f32> = indices.iter().map(|row| (row % 5) as f32).collect();
        let gathered = Buffers::default().select_rows(&from, &indices);
        let mut sum = from.clone();
        sum.add_to_rows(&indices, &scales, &gathered);
        for (row, (sum, from)) in sum.rows().into_iter().zip(from.rows()).enumerate() {
            let scale = if row % 3 == 1 { 0.0 } else { (row % 5) as f32 };
            assert_eq!(sum, from.mapv(|x| x + scale * x), "{row}");
        }
    }
}
