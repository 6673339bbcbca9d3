//! Sums over the tensors of a file, by type.

use std::{cmp::Reverse, collections::BTreeMap};

use gguf_container::{File, TensorInfo};
use gguf_types::Shape;
use serde::Serialize;

use crate::text::human_bytes;

/// Sums over tensors.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Total {
    /// Number of tensors.
    pub tensors: u64,
    /// Number of elements.
    pub elements: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl Total {
    /// Adds a tensor. Saturating: a broken file is described, not trusted.
    pub(crate) fn add(&mut self, shape: Shape, n_bytes: u64) {
        self.tensors += 1;
        self.elements = self.elements.saturating_add(shape.n_elems());
        self.bytes = self.bytes.saturating_add(n_bytes);
    }

    pub(crate) fn bits_per_weight(&self) -> f64 {
        gguf_types::bits_per_weight(self.elements, self.bytes)
    }

    /// Cells of a table: name, tensors, elements, bytes, and bytes with a unit.
    pub(crate) fn row(&self, name: &str) -> Vec<String> {
        let numbers = [self.tensors, self.elements, self.bytes].map(|number| number.to_string());
        [name.to_owned()].into_iter().chain(numbers).chain([human_bytes(self.bytes)]).collect()
    }
}

/// By type, the largest first, and all together. Types of forks in `file` are named; their bytes follow from the places of the tensors.
pub(crate) fn totals<'a>(
    tensors: impl IntoIterator<Item = &'a TensorInfo>,
    file: &File,
) -> (Vec<(String, Total)>, Total) {
    let (mut by_type, mut all) = (BTreeMap::<String, Total>::new(), Total::default());
    let known = tensors.into_iter().map(|info| (info.dtype.name().to_owned(), info.shape, info.n_bytes));
    let foreign = file.foreign_tensors().iter().zip(file.foreign_bytes());
    let foreign = foreign.map(|(tensor, n_bytes)| (tensor.type_name(), tensor.shape, n_bytes));
    for (name, shape, n_bytes) in known.chain(foreign) {
        by_type.entry(name).or_default().add(shape, n_bytes);
        all.add(shape, n_bytes);
    }
    let mut by_type: Vec<_> = by_type.into_iter().collect();
    by_type.sort_by_key(|(_, total)| Reverse(total.bytes));
    (by_type, all)
}
