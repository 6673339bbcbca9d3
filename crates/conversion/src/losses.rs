//! Tensors that are entirely zero, or become so.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use gguf_types::DType;

/// Zero and nonzero values in the tensors that jobs have written.
#[derive(Debug, Default)]
pub struct Losses {
    /// By task and output.
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
}

/// A tensor of which all values are zero.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Loss {
    /// All values are zero in the source.
    Zero {
        /// The tensor.
        tensor: String,
    },
    /// The source has other values, and all of them become zero in the type.
    Underflow {
        /// The tensor.
        tensor: String,
        /// The type.
        dtype: DType,
    },
}

impl Losses {
    /// Losses in completely processed tensors, sorted by name. A tensor that is zero in the source is listed once for all outputs.
    pub fn found(&self) -> Vec<Loss> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let whole = seen.values().filter(|seen| seen.n_seen >= seen.n_rows && !seen.has_encoded);
        let mut found: Vec<Loss> = whole
            .map(|seen| match seen.has_source {
                true => Loss::Underflow { tensor: seen.name.clone(), dtype: seen.dtype },
                false => Loss::Zero { tensor: seen.name.clone() },
            })
            .collect();
        found.sort();
        found.dedup();
        found
    }

    /// Records some rows of a tensor. The functions return true if the source and the output have a nonzero value; they are not
    /// called again once one is found.
    pub(crate) fn note(
        &self,
        (task, output): (usize, usize),
        (name, dtype): (&str, DType),
        (n_rows, n_now): (u64, u64),
        has_source: impl FnOnce() -> bool,
        has_encoded: impl FnOnce() -> bool,
    ) {
        let known = {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let seen = seen.entry((task, output)).or_insert_with(|| Seen {
                name: name.to_owned(),
                dtype,
                n_rows,
                n_seen: 0,
                has_source: false,
                has_encoded: false,
            });
            seen.n_seen += n_now;
            (seen.has_source, seen.has_encoded)
        };
        if known.1 {
            return;
        }
        // Outside the lock: decoding takes time.
        let found = (known.0 || has_source(), has_encoded());
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seen) = seen.get_mut(&(task, output)) {
            seen.has_source |= found.0;
            seen.has_encoded |= found.1;
        }
    }
}

/// True for a tensor that a trained model does not have as zeros: a matrix or a norm. Biases and factors of token shifts may be zero.
pub fn is_nonzero_by_nature(name: &str, n_dims: usize) -> bool {
    name.ends_with(".weight") && (n_dims > 1 || name.contains("norm"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_and_underflow_are_distinguished() {
        let losses = Losses::default();
        let note = |task, name, source: bool, made: bool| {
            losses.note((task, 0), (name, DType::Q4_0), (4, 2), || source, || made);
        };
        for (task, name, rows) in [
            (0, "zero", [(false, false), (false, false)]),
            (1, "lost", [(false, false), (true, false)]),
            (2, "kept", [(true, true), (true, false)]),
        ] {
            rows.into_iter().for_each(|(source, made)| note(task, name, source, made));
        }
        // An incomplete tensor is not reported.
        note(3, "half", false, false);
        let expected = [
            Loss::Zero { tensor: "zero".into() },
            Loss::Underflow { tensor: "lost".into(), dtype: DType::Q4_0 },
        ];
        assert_eq!(losses.found(), expected);
    }

    #[test]
    fn matrices_and_norms_are_expected_nonzero() {
        assert!(is_nonzero_by_nature("blk.0.attn_q.weight", 2));
        assert!(is_nonzero_by_nature("output_norm.weight", 1));
        assert!(!is_nonzero_by_nature("blk.0.attn_q.bias", 1));
        assert!(!is_nonzero_by_nature("rope_freqs.weight", 1));
    }
}
