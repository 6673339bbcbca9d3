//! Output tensors computed element by element from several tensors, or from pieces of one.

use std::collections::{BTreeMap, BTreeSet};

use super::context::{Context, computed};
use super::index::Found;
use super::rules::{self, Scatter};
use crate::error::shape_of;
use crate::layout::{Data, ElementMap, FloatType, OutTensor, RowMap};
use crate::{ArchError, Combination, SourceTensor};

impl Context<'_> {
    /// Vectors combined element by element; some may be matrices of one row.
    pub(super) fn combined(
        &self,
        found: &Found,
        parts: &BTreeMap<usize, &SourceTensor>,
        by: Combination,
    ) -> Result<OutTensor, ArchError> {
        let name = rules::fill(found.rule.gguf, found.bid, 0) + found.suffix;
        let n_elems = parts.values().map(|part| part.shape.n_elems()).max().unwrap_or(0);
        if let Some(other) = parts.values().find(|part| part.shape.n_elems() != n_elems) {
            return Err(ArchError::TensorShape {
                name: other.name.clone(),
                found: other.shape,
                expected: format!("{n_elems} elements"),
            });
        }
        let shape = shape_of(&name, &[n_elems])?;
        let sources = parts.values().map(|part| part.name.clone()).collect();
        let data = Data::Combined { sources, rows: vec![RowMap::Concat; parts.len()], by };
        Ok(OutTensor { name, shape, data, float: FloatType::F32, stored_dtype: None })
    }

    /// A vector of the numbers of several tensors.
    pub(super) fn scalars(
        &self,
        found: &Found,
        parts: &BTreeMap<usize, &SourceTensor>,
        map: fn(&[f32]) -> Vec<f32>,
    ) -> Result<OutTensor, ArchError> {
        let name = rules::fill(found.rule.gguf, found.bid, 0) + found.suffix;
        let number = |part: &&SourceTensor| {
            let values = self.values.and_then(|values| values.read(&part.name));
            values.filter(|values| values.len() == 1).ok_or_else(|| ArchError::TensorShape {
                name: part.name.clone(),
                found: part.shape,
                expected: "one number".to_owned(),
            })
        };
        let numbers = parts.values().map(number).collect::<Result<Vec<_>, _>>()?.concat();
        let values = map(&numbers);
        computed(&name, &[values.len() as u64], values)
    }

    /// Matrices next to each other.
    pub(super) fn side_by_side(
        &self,
        found: &Found,
        parts: &BTreeMap<usize, &SourceTensor>,
    ) -> Result<OutTensor, ArchError> {
        let name = rules::fill(found.rule.gguf, found.bid, 0) + found.suffix;
        let n_rows = parts.values().next().map_or(0, |part| part.shape.n_rows());
        let wrong = |part: &&&SourceTensor| part.shape.n_dims() != 2 || part.shape.n_rows() != n_rows;
        if let Some(other) = parts.values().find(wrong) {
            return Err(ArchError::TensorShape {
                name: other.name.clone(),
                found: other.shape,
                expected: format!("a matrix of {n_rows} rows"),
            });
        }
        let row_elems = parts.values().fold(0u64, |sum, part| sum.saturating_add(part.shape.row_elems()));
        Ok(OutTensor {
            shape: shape_of(&name, &[row_elems, n_rows])?,
            float: self.float(found, &name, 2),
            stored_dtype: None,
            name,
            data: Data::SideBySide { sources: parts.values().map(|part| part.name.clone()).collect() },
        })
    }

    /// Rows of a matrix at their places in a matrix of zeros.
    pub(super) fn scattered(
        &self,
        found: &Found,
        source: &SourceTensor,
        places: Scatter,
    ) -> Result<OutTensor, ArchError> {
        let name = rules::fill(found.rule.gguf, found.bid, 0) + found.suffix;
        let Scatter { rows, n_rows } = places;
        let places: BTreeSet<u64> = rows.iter().copied().collect();
        let fits = places.len() == rows.len() && places.last().is_none_or(|last| *last < n_rows);
        match *source.shape.dims() {
            [row_elems, n] if n == rows.len() as u64 && fits => Ok(OutTensor {
                shape: shape_of(&name, &[row_elems, n_rows])?,
                float: self.float(found, &name, 2),
                stored_dtype: None,
                name,
                data: Data::Scattered { source: source.name.clone(), rows },
            }),
            _ => Err(ArchError::TensorShape {
                name: source.name.clone(),
                found: source.shape,
                expected: format!("a matrix of {} rows for different ids below {n_rows}", rows.len()),
            }),
        }
    }

    /// Codebooks of the same shape, from sums and counts.
    pub(super) fn codebooks(
        &self,
        found: &Found,
        parts: &BTreeMap<usize, &SourceTensor>,
    ) -> Result<OutTensor, ArchError> {
        let name = rules::fill(found.rule.gguf, found.bid, 0) + found.suffix;
        let n_books = parts.len() / 2;
        let Some(first) = parts.values().next() else {
            return Err(ArchError::MissingTensors { names: Vec::new() });
        };
        let &[row_elems, n_rows] = first.shape.dims() else {
            return Err(ArchError::TensorShape {
                name: first.name.clone(),
                found: first.shape,
                expected: "a matrix".to_owned(),
            });
        };
        for (part, source) in parts {
            let expected = if *part < n_books { &[row_elems, n_rows][..] } else { &[n_rows][..] };
            if source.shape.dims() != expected {
                return Err(ArchError::TensorShape {
                    name: source.name.clone(),
                    found: source.shape,
                    expected: format!("codebooks of {n_rows} rows"),
                });
            }
        }
        let dims = [row_elems, n_rows, n_books as u64];
        let shape = shape_of(&name, if n_books > 1 { &dims[..] } else { &dims[..2] })?;
        Ok(OutTensor {
            float: self.float(found, &name, shape.n_dims()),
            stored_dtype: None,
            name,
            shape,
            data: Data::Combined {
                sources: parts.values().map(|part| part.name.clone()).collect(),
                rows: vec![RowMap::Concat; 2],
                by: Combination::DividedRows { least: 1e-5 },
            },
        })
    }

    /// Rows of tensors, then the product of a matrix and a vector, which are the first two parts.
    pub(super) fn extended(
        &self,
        found: &Found,
        parts: &BTreeMap<usize, &SourceTensor>,
    ) -> Result<OutTensor, ArchError> {
        let name = rules::fill(found.rule.gguf, found.bid, 0) + found.suffix;
        let all: Vec<&SourceTensor> = parts.values().copied().collect();
        let [matrix, vector, taken @ ..] = &all[..] else {
            return Err(ArchError::MissingTensors { names: Vec::new() });
        };
        let wrong = |source: &SourceTensor, expected: String| ArchError::TensorShape {
            name: source.name.clone(),
            found: source.shape,
            expected,
        };
        let &[n_in, row_elems] = matrix.shape.dims() else {
            return Err(wrong(matrix, "a matrix".to_owned()));
        };
        if vector.shape.n_elems() != n_in {
            return Err(wrong(vector, format!("{n_in} elements")));
        }
        let mut n_rows = 1u64;
        for source in taken {
            // A vector may have outer dimensions of one.
            if source.shape.row_elems() != row_elems {
                return Err(wrong(source, format!("rows of {row_elems} elements")));
            }
            n_rows = n_rows.saturating_add(source.shape.n_elems() / row_elems.max(1));
        }
        let sources = taken.iter().chain([matrix, vector]).map(|source| source.name.clone()).collect();
        Ok(OutTensor {
            shape: shape_of(&name, &[row_elems, n_rows])?,
            float: self.float(found, &name, 2),
            stored_dtype: None,
            name,
            data: Data::Extended { sources },
        })
    }

    /// Matrices as one tensor, the shorter ones padded with rows of zeros.
    pub(super) fn padded(
        &self,
        found: &Found,
        parts: &BTreeMap<usize, &SourceTensor>,
    ) -> Result<OutTensor, ArchError> {
        let row_elems = parts.values().next().map_or(0, |part| part.shape.row_elems());
        let to = parts.values().map(|part| part.shape.n_rows()).max().unwrap_or(0);
        let wrong = |part: &&&SourceTensor| part.shape.row_elems() != row_elems || part.shape.n_dims() != 2;
        if let Some(other) = parts.values().find(wrong) {
            return Err(ArchError::TensorShape {
                name: other.name.clone(),
                found: other.shape,
                expected: format!("rows of {row_elems} elements"),
            });
        }
        let mut tensor = self.joined(found, parts, &[row_elems, to, parts.len() as u64])?;
        if let Data::Rows { rows, .. } = &mut tensor.data {
            *rows = RowMap::PadEach { to };
        }
        Ok(tensor)
    }

    /// A square grid of rows, interpolated to `to` rows per side.
    pub(super) fn grid(&self, found: &Found, source: &SourceTensor, to: u64) -> Result<OutTensor, ArchError> {
        /// Maximum number of rows per side: images of 14,336 pixels in patches of 14.
        const MAX_SIDE: u64 = 1 << 10;
        let name = rules::fill(found.rule.gguf, found.bid, found.xid) + found.suffix;
        let wrong = || ArchError::TensorShape {
            name: source.name.clone(),
            found: source.shape,
            expected: format!("a square number of rows, to interpolate to {to} per side"),
        };
        let n_rows = source.shape.n_rows();
        let from = n_rows.isqrt();
        if from * from != n_rows || !(1..=MAX_SIDE).contains(&from) || !(1..=MAX_SIDE).contains(&to) {
            return Err(wrong());
        }
        let mut dims = source.shape.dims().to_vec();
        *dims.get_mut(1).ok_or_else(wrong)? = to * to;
        let shape = shape_of(&name, &dims)?;
        let sources = vec![source.name.clone()];
        let data = if from == to {
            Data::Rows { sources, rows: RowMap::Concat, element: ElementMap::Identity }
        } else {
            let rows = (0..4).map(|corner| RowMap::GridCorner { from, to, corner }).collect();
            Data::Combined { sources, rows, by: Combination::Bilinear { from, to } }
        };
        Ok(OutTensor {
            float: self.float(found, &name, shape.n_dims()),
            stored_dtype: None,
            name,
            shape,
            data,
        })
    }

    /// The sum of the slabs of a matrix, which are next to each other in every row.
    pub(super) fn slabs(
        &self,
        found: &Found,
        source: &SourceTensor,
        n_slabs: u64,
    ) -> Result<OutTensor, ArchError> {
        /// Maximum number of slabs; released checkpoints have 2.
        const MAX_SLABS: u64 = 16;
        let name = rules::fill(found.rule.gguf, found.bid, found.xid) + found.suffix;
        let wrong = || ArchError::TensorShape {
            name: source.name.clone(),
            found: source.shape,
            expected: format!("rows of {n_slabs} slabs"),
        };
        let &[row, n_out] = source.shape.dims() else { return Err(wrong()) };
        if !(1..=MAX_SLABS).contains(&n_slabs) || !row.is_multiple_of(n_slabs) {
            return Err(wrong());
        }
        let slab = row / n_slabs;
        let shape = self.reshape(found.rule, source, shape_of(&name, &[slab, n_out])?)?;
        // A slab consists of several rows of the new shape.
        let rows = slab.checked_div(shape.row_elems()).filter(|rows| rows * shape.row_elems() == slab);
        let rows = rows.ok_or_else(wrong)?;
        let map = |slab| RowMap::Groups { group: n_slabs * rows, start: slab * rows, rows, n_head: 0 };
        Ok(OutTensor {
            float: self.float(found, &name, shape.n_dims()),
            stored_dtype: None,
            name,
            shape,
            data: Data::Combined {
                sources: vec![source.name.clone()],
                rows: (0..n_slabs).map(map).collect(),
                by: Combination::Sum,
            },
        })
    }
}
