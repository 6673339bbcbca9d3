//! Tensors that are entirely zero, become zero, or lose far more than their type usually does.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use gguf_types::DType;

/// Zero values and errors of the tensors that jobs have written.
#[derive(Debug, Default)]
pub struct Losses {
    seen: Mutex<BTreeMap<(usize, usize), Seen>>,
}

#[derive(Debug)]
struct Seen {
    name: String,
    dtype: DType,
    n_rows: u64,
    /// Rows of all jobs so far.
    n_seen: u64,
    has_source: bool,
    has_encoded: bool,
    error: SquaredError,
    is_refined: bool,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SquaredError {
    /// Sum of `(encoded - source)^2`.
    pub(crate) difference: f64,
    /// Sum of `source^2`.
    pub(crate) source: f64,
}

impl SquaredError {
    /// Adds decoded blocks and their source values.
    pub(crate) fn add(&mut self, decoded: &[f32], source: &[f32]) {
        let differences = decoded.iter().zip(source).map(|(a, b)| f64::from(*a) - f64::from(*b));
        self.difference += differences.map(|difference| difference * difference).sum::<f64>();
        self.source += source.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>();
    }

    pub(crate) fn merge(&mut self, other: SquaredError) {
        self.difference += other.difference;
        self.source += other.source;
    }

    /// `|encoded - source| / |source|`.
    pub(crate) fn relative(self) -> f64 {
        if self.difference == 0.0 { 0.0 } else { (self.difference / self.source).sqrt() }
    }

    /// Relative error and that of the type on normally distributed numbers, if it is far above. Error
    /// feedback moves weights further.
    pub(crate) fn far_above(self, dtype: DType, is_refined: bool) -> Option<(f64, f64)> {
        let error = self.relative();
        // Most types of most tensors: an importance matrix raises the error by a third, outliers of a block
        // double it.
        if error <= SMALL_ERROR {
            return None;
        }
        let usual = gguf_quant::usual_error(dtype)?;
        let bound = if is_refined {
            (6.0 * usual).min(0.25f64.mul_add(usual, 0.75))
        } else {
            (3.0 * usual).min(f64::midpoint(usual, 1.0))
        };
        // Binary and ternary types lose much of ordinary weights.
        (error > bound.max(SMALL_ERROR)).then_some((error, usual))
    }
}

/// Relative error that is acceptable for every type.
const SMALL_ERROR: f64 = 0.05;

/// A tensor that lost its values.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Loss {
    /// All values are zero in the source.
    Zero {
        /// Name of the tensor.
        tensor: String,
    },
    /// The source has nonzero values, but all become zero in the type.
    Underflow {
        /// Name of the tensor.
        tensor: String,
        /// Target type.
        dtype: DType,
    },
    /// The error is far above that of the type on ordinary weights.
    Distant {
        /// Name of the tensor.
        tensor: String,
        /// Target type.
        dtype: DType,
        /// `|encoded - source| / |source|`, estimated from some of the rows.
        error: f64,
        /// Error of the type on normally distributed numbers.
        usual: f64,
    },
}

impl Loss {
    /// Name of the tensor.
    pub fn tensor(&self) -> &str {
        match self {
            Loss::Zero { tensor } | Loss::Underflow { tensor, .. } | Loss::Distant { tensor, .. } => tensor,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Noted<'a> {
    pub(crate) name: &'a str,
    pub(crate) dtype: DType,
    /// Rows of the tensor, and of the job.
    pub(crate) n_rows: u64,
    pub(crate) n_now: u64,
    pub(crate) error: SquaredError,
    pub(crate) is_refined: bool,
}

impl Losses {
    /// Losses in completely processed tensors, sorted by name. A tensor that is zero in the source is listed once for all outputs.
    pub fn found(&self) -> Vec<Loss> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let whole = seen.values().filter(|seen| seen.n_seen >= seen.n_rows);
        let mut found: Vec<Loss> = whole.filter_map(Seen::loss).collect();
        found.sort_by(|a, b| a.tensor().cmp(b.tensor()));
        found.dedup();
        found
    }

    /// Records some rows of a tensor. `has_source` and `has_encoded` return true if a value is nonzero; they
    /// are not called again once one is found.
    pub(crate) fn note(
        &self,
        place: (usize, usize),
        noted: Noted<'_>,
        has_source: impl FnOnce() -> bool,
        has_encoded: impl FnOnce() -> bool,
    ) {
        let Noted { name, dtype, n_rows, n_now, error, is_refined } = noted;
        let known = {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let seen = seen.entry(place).or_insert_with(|| Seen {
                name: name.to_owned(),
                dtype,
                n_rows,
                n_seen: 0,
                has_source: false,
                has_encoded: false,
                error: SquaredError::default(),
                is_refined,
            });
            seen.n_seen += n_now;
            seen.error.merge(error);
            (seen.has_source, seen.has_encoded)
        };
        if known.1 {
            return;
        }
        // Outside the lock: decoding takes time.
        let found = (known.0 || has_source(), has_encoded());
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seen) = seen.get_mut(&place) {
            seen.has_source |= found.0;
            seen.has_encoded |= found.1;
        }
    }
}

impl Seen {
    fn loss(&self) -> Option<Loss> {
        let (tensor, dtype) = (self.name.clone(), self.dtype);
        if !self.has_encoded {
            return Some(if self.has_source {
                Loss::Underflow { tensor, dtype }
            } else {
                Loss::Zero { tensor }
            });
        }
        let (error, usual) = self.error.far_above(dtype, self.is_refined)?;
        Some(Loss::Distant { tensor, dtype, error, usual })
    }
}

/// True for a tensor that is never zero in a trained model: a matrix or a norm. Biases and factors of token
/// shifts may be zero.
pub fn is_nonzero_by_nature(name: &str, n_dims: usize) -> bool {
    name.ends_with(".weight") && (n_dims > 1 || name.contains("norm"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_underflow_and_large_errors_are_distinguished() {
        let losses = Losses::default();
        let note = |task, name, source: bool, made: bool, difference: f64| {
            let error = SquaredError { difference, source: 1.0 };
            let noted = Noted { name, dtype: DType::Q4_0, n_rows: 4, n_now: 2, error, is_refined: false };
            losses.note((task, 0), noted, || source, || made);
        };
        for (task, name, rows, error) in [
            (0, "zero", [(false, false), (false, false)], 0.0),
            (1, "lost", [(false, false), (true, false)], 1.0),
            (2, "kept", [(true, true), (true, false)], 0.01),
            (3, "distant", [(true, true), (true, true)], 0.81),
        ] {
            rows.into_iter().for_each(|(source, made)| note(task, name, source, made, error));
        }
        // An incomplete tensor is not reported.
        note(4, "half", false, false, 1.0);
        let found = losses.found();
        assert_eq!(found.iter().map(Loss::tensor).collect::<Vec<_>>(), ["distant", "lost", "zero"]);
        assert!(matches!(found[0], Loss::Distant { error, usual, .. } if error > 0.89 && usual < 0.1));
        assert_eq!(found[1], Loss::Underflow { tensor: "lost".into(), dtype: DType::Q4_0 });
        assert_eq!(found[2], Loss::Zero { tensor: "zero".into() });
    }

    #[test]
    fn matrices_and_norms_are_expected_nonzero() {
        assert!(is_nonzero_by_nature("blk.0.attn_q.weight", 2));
        assert!(is_nonzero_by_nature("output_norm.weight", 1));
        assert!(!is_nonzero_by_nature("blk.0.attn_q.bias", 1));
        assert!(!is_nonzero_by_nature("rope_freqs.weight", 1));
    }
}
