//! Statistics of entries: how much data each matrix has, and how evenly it is distributed.

use gguf_types::layer_and_part;

use super::{Entry, Sums};

/// Mean squares up to this value count as inactive.
const INACTIVE: f64 = 1e-5;

/// Statistics of the mean squares of the input columns of one tensor. Experts without data are left out.
///
/// Source: `compute_statistics` and `compute_cossim` in `tools/imatrix/imatrix.cpp`, llama.cpp as vendored in llama-cpp-python
/// 0.3.36 (`llama-imatrix --show-statistics`), here in double precision.
#[derive(Debug, Clone, PartialEq)]
pub struct EntryStatistics {
    /// Name of the tensor.
    pub name: String,
    /// Number of matrices: 1, or the number of experts.
    pub n_matrices: usize,
    /// Matrices with data.
    pub n_used: usize,
    /// Fewest and most tokens of a matrix; calls in the older format.
    pub counts: (i64, i64),
    /// Number of columns of all matrices with data.
    pub n_values: usize,
    /// Sum of the mean squares.
    pub sum: f64,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation.
    pub deviation: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Share of columns that are exactly zero.
    pub zero: f64,
    /// Share of columns above 1e-5.
    pub active: f64,
    /// Entropy of the distribution of the sum over the columns, in bits.
    pub entropy: f64,
    /// Share of columns that are more than a standard deviation above the mean.
    pub outliers: f64,
    /// Cosine similarity with the sums of the same tensor in the previous layer, if it has the same size.
    pub similarity: Option<f64>,
}

impl EntryStatistics {
    /// Entropy divided by its maximum, that of equal columns; 1 for a single column.
    pub fn evenness(&self) -> f64 {
        match self.n_values {
            0 | 1 => 1.0,
            n => self.entropy / (n as f64).log2(),
        }
    }
}

impl Sums {
    /// Statistics of each entry, in name order. Entries without data, or with another number of sums than
    /// their counts allow, are left out.
    ///
    /// # Examples
    /// ```
    /// use gguf_imatrix::{Entry, Sums};
    ///
    /// let mut sums = Sums::new(512);
    /// let entry = Entry { sums: vec![2.0, 6.0], counts: vec![2] };
    /// sums.entries.insert("blk.0.attn_q.weight".to_owned(), entry);
    /// let statistics = &sums.statistics()[0];
    /// assert_eq!((statistics.mean, statistics.max, statistics.deviation), (2.0, 3.0, 1.0));
    /// ```
    pub fn statistics(&self) -> Vec<EntryStatistics> {
        let statistics = self.entries.iter().filter_map(|(name, entry)| {
            let similarity = self.layer_before(name).and_then(|before| cosine(&entry.sums, &before.sums));
            Some(EntryStatistics { similarity, ..entry.statistics(name)? })
        });
        statistics.collect()
    }

    /// Cosine similarities of the sums with those of another matrix, in name order. Entries of different sizes and entries that
    /// are zero are left out.
    pub fn similarities<'a>(&'a self, other: &'a Sums) -> impl Iterator<Item = (&'a str, f64)> {
        self.entries.iter().filter_map(|(name, entry)| {
            Some((name.as_str(), cosine(&entry.sums, &other.entries.get(name)?.sums)?))
        })
    }

    /// Entry of the same tensor in the previous layer.
    fn layer_before(&self, name: &str) -> Option<&Entry> {
        let (layer, part) = layer_and_part(name)?;
        self.entries.get(&format!("blk.{}.{part}", layer.checked_sub(1)?))
    }
}

impl Entry {
    fn statistics(&self, name: &str) -> Option<EntryStatistics> {
        let row_elems = self.sums.len().checked_div(self.counts.len()).filter(|n| *n > 0)?;
        let rows = self.sums.chunks_exact(row_elems).zip(&self.counts);
        let used = || rows.clone().filter(|(_, count)| **count > 0);
        let means = || used().flat_map(|(row, n)| row.iter().map(|sum| f64::from(*sum) / *n as f64));
        let n_values = means().count();
        if n_values == 0 {
            return None;
        }
        let n = n_values as f64;
        let share = |holds: &dyn Fn(f64) -> bool| means().filter(|mean| holds(*mean)).count() as f64 / n;
        let sum: f64 = means().sum();
        let mean = sum / n;
        let deviation = (means().map(|value| value * value).sum::<f64>() / n - mean * mean).max(0.0).sqrt();
        // H = - sum_i p_i log2 p_i,   p_i = mean_i / sum.
        let bits = |value: f64| match value / sum {
            p if p > 0.0 => -p * p.log2(),
            _ => 0.0,
        };
        Some(EntryStatistics {
            name: name.to_owned(),
            n_matrices: self.counts.len(),
            n_used: used().count(),
            counts: (self.counts.iter().copied().min()?, self.counts.iter().copied().max()?),
            n_values,
            sum,
            mean,
            deviation,
            min: means().fold(f64::INFINITY, f64::min),
            max: means().fold(f64::NEG_INFINITY, f64::max),
            zero: share(&|value| value == 0.0),
            active: share(&|value| value.abs() > INACTIVE),
            entropy: if sum > 0.0 { means().map(bits).sum() } else { 0.0 },
            outliers: if deviation > 0.0 { share(&|value| (value - mean) / deviation > 1.0) } else { 0.0 },
            similarity: None,
        })
    }
}

/// `a . b / (|a| |b|)`; `None` for lists of different lengths and for zeros.
fn cosine(a: &[f32], b: &[f32]) -> Option<f64> {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let cosine = dot(a, b) / (dot(a, a).sqrt() * dot(b, b).sqrt());
    Some(cosine).filter(|cosine| a.len() == b.len() && cosine.is_finite())
}
