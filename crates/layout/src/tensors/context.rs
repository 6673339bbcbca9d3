//! A table with what it is applied with, and what its rows make of single source tensors.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Not as _;

use gguf_types::{DType, Shape};

use super::drops;
use super::index::{CORRECTION_BIAS, Found, Index};
use super::rules::{self, IntegerRule, NumberRule, RowRule, TensorRule};
use super::transposed;
use crate::config::Hparams;
use crate::error::shape_of;
use crate::layout::{Data, ElementMap, FloatType, OutTensor, RowMap};
use crate::{ArchError, Integers, SameValues, SourceTensor, TensorValues};

/// Experts of one layer that wait for the rest: by output pattern and expert.
pub type Stack<'a> = HashMap<(&'static str, u64), &'a SourceTensor>;

/// Layer counts of the towers next to a text model.
#[derive(Debug, Clone, Copy)]
pub struct TowerLayers {
    /// Layers of the vision tower.
    pub vision: u64,
    /// Layers of the audio encoder.
    pub audio: u64,
}

/// Parameters for applying a table.
pub struct Context<'a> {
    /// The parts of the table.
    pub table: &'static [&'static [TensorRule]],
    /// The names of the table.
    pub index: Index,
    /// The key of the number of layers of the decoder, if it has its own.
    pub decoder_layers: Option<&'static str>,
    /// The layers of towers, if the table is that of a projector.
    pub towers: Option<TowerLayers>,
    /// Tensors that become keys.
    pub numbers: &'static [NumberRule],
    /// Prefix added to every checkpoint name before it is looked up.
    pub prefix: &'a str,
    /// The config.
    pub hparams: &'a Hparams,
    /// Tensors that this architecture leaves out, with the reason.
    pub drops: fn(&Hparams, &str) -> Option<&'static str>,
    /// Names of other releases, brought to those of the table.
    pub rename: fn(&Hparams, &str) -> Option<String>,
    /// Comparison of tensors of the checkpoint.
    pub same: Option<&'a SameValues<'a>>,
    /// Reader of tensors of integers.
    pub integers: Option<&'a Integers<'a>>,
    /// Reader of values of small tensors.
    pub values: Option<&'a TensorValues<'a>>,
    /// The first layer that must be there.
    pub first_layer: u64,
}

impl Context<'_> {
    pub(super) fn rules(&self) -> impl Iterator<Item = &'static TensorRule> + use<> {
        self.table.iter().flat_map(|part| part.iter())
    }

    /// Number of layers that have the tensors of a rule.
    pub fn n_layers(&self, rule: &TensorRule) -> u64 {
        if let Some(towers) = self.towers {
            // A tensor outside layers counts as the only one of its kind.
            let tower_layers = if rule.gguf.starts_with("a.") { towers.audio } else { towers.vision };
            return if rule.gguf.contains("{bid}") { tower_layers } else { 1 };
        }
        // T5 and Whisper have layers of two kinds under one table.
        let decoder_count = self.decoder_layers.filter(|_| rule.gguf.starts_with("dec."));
        let decoder_count = decoder_count.and_then(|key| self.hparams.get_u64(key).ok().flatten());
        decoder_count.unwrap_or_else(|| self.hparams.n_layers().unwrap_or(0))
    }

    pub(super) fn stacked(&self) -> impl Iterator<Item = &'static TensorRule> + use<> {
        self.rules().filter(|rule| matches!(rule.rows, RowRule::StackExperts))
    }

    /// True if a later tensor may be left out because it equals the one that this pattern makes.
    pub(super) fn is_twin(&self, gguf: &str) -> bool {
        self.rules().any(|rule| rule.twin == Some(gguf))
    }

    /// The rows that a tensor of the checkpoint fits. More than one if it is taken apart.
    pub fn find(&self, name: &str) -> Vec<Found> {
        let mut found = self.index.find(&self.name_in_table(name));
        found.retain(|found| found.rule.holds(self.hparams, found.bid));
        found
    }

    /// Renames what the reference renames before it looks at its own table
    /// (`ModelBase.filter_tensors`).
    pub(super) fn name_in_table<'n>(&self, name: &'n str) -> Cow<'n, str> {
        let mut name = Cow::Borrowed(name);
        if !self.prefix.is_empty() {
            name = format!("{}{name}", self.prefix).into();
        }
        // The text part of a model of several kinds; and a bias whose name ends otherwise, so that
        // `.bias` can be left out of patterns.
        for (from, to) in [("language_model.", ""), CORRECTION_BIAS] {
            if name.contains(from) {
                name = name.replace(from, to).into();
            }
        }
        (self.rename)(self.hparams, &name).map_or(name, Cow::Owned)
    }

    /// One tensor of several that are alike.
    pub(super) fn fuse(
        &self,
        found: &Found,
        parts: &BTreeMap<usize, &SourceTensor>,
    ) -> Result<OutTensor, ArchError> {
        match found.rule.rows {
            RowRule::Combine(by) => return self.combined(found, parts, by),
            RowRule::Append(_) => return self.append(found, parts),
            RowRule::FusePadded(_) => return self.padded(found, parts),
            RowRule::Codebooks(_) => return self.codebooks(found, parts),
            RowRule::Extend(_) => return self.extended(found, parts),
            RowRule::Scalars(map) => return self.scalars(found, parts, map),
            RowRule::SideBySide => return self.side_by_side(found, parts),
            _ => {}
        }
        let mut all = parts.values();
        let Some(first) = all.next() else { return Err(ArchError::MissingTensors { names: Vec::new() }) };
        if let Some(other) = all.find(|part| part.shape != first.shape) {
            return Err(ArchError::TensorShape {
                name: other.name.clone(),
                found: other.shape,
                expected: format!("{} as of `{}`", first.shape, first.name),
            });
        }
        let mut dims = self.reshape(found.rule, first, first.shape)?.dims().to_vec();
        // The new dimension is the outermost, which comes last.
        dims.push(parts.len() as u64);
        let mut tensor = self.joined(found, parts, &dims)?;
        if let (RowRule::FuseRows(_, map), Data::Rows { rows, .. }) = (&found.rule.rows, &mut tensor.data) {
            // Elements of biases, rows of matrices.
            let is_bias = found.suffix == ".bias";
            let map = match map {
                RowMap::Groups { group, start, rows: 1, .. } if is_bias => {
                    RowMap::Elements { step: *group, start: *start }
                }
                map => *map,
            };
            tensor.shape = part_shape(&map, &tensor.shape).map_err(|expected| ArchError::TensorShape {
                name: first.name.clone(),
                found: first.shape,
                expected,
            })?;
            *rows = map;
        }
        Ok(tensor)
    }

    /// Parts, concatenated, as one tensor.
    pub(super) fn joined(
        &self,
        found: &Found,
        parts: &BTreeMap<usize, &SourceTensor>,
        dims: &[u64],
    ) -> Result<OutTensor, ArchError> {
        let name = rules::fill(found.rule.gguf, found.bid, 0) + found.suffix;
        Ok(OutTensor {
            shape: shape_of(&name, dims)?,
            float: self.float(found, &name, dims.len()),
            stored_dtype: None,
            name,
            data: Data::Rows {
                sources: parts.values().map(|part| part.name.clone()).collect(),
                rows: RowMap::Concat,
                element: ElementMap::Identity,
            },
        })
    }

    /// The rows of several tensors, concatenated, or the elements of several biases.
    fn append(&self, found: &Found, parts: &BTreeMap<usize, &SourceTensor>) -> Result<OutTensor, ArchError> {
        if found.suffix == ".bias" && parts.values().all(|part| part.shape.n_dims() == 1) {
            let n_elems = parts.values().fold(0u64, |sum, part| sum.saturating_add(part.shape.n_elems()));
            return self.joined(found, parts, &[n_elems]);
        }
        let row_elems = parts.values().next().map_or(0, |part| part.shape.row_elems());
        let mut n_rows = 0u64;
        for part in parts.values() {
            if part.shape.row_elems() != row_elems || part.shape.n_dims() != 2 {
                return Err(ArchError::TensorShape {
                    name: part.name.clone(),
                    found: part.shape,
                    expected: format!("rows of {row_elems} elements"),
                });
            }
            n_rows = n_rows.saturating_add(part.shape.n_rows());
        }
        self.joined(found, parts, &[row_elems, n_rows])
    }

    /// The shape of a tensor in the file, which has as many elements as without the rule.
    pub(super) fn reshape(
        &self,
        rule: &TensorRule,
        source: &SourceTensor,
        shape: Shape,
    ) -> Result<Shape, ArchError> {
        let Some(reshape) = rule.shape else { return Ok(shape) };
        let dims = (reshape.forward)(self.hparams, shape.dims())?;
        // The config decides the new shape, and a config may be wrong: no element may be lost or made
        // up.
        let made = Shape::new(&dims).ok().filter(|made| made.n_elems() == shape.n_elems());
        made.ok_or_else(|| ArchError::TensorShape {
            name: source.name.clone(),
            found: source.shape,
            expected: format!("as many elements as {dims:?} has"),
        })
    }

    /// The tensor that a rule makes of a source tensor or a part.
    ///
    /// # Errors
    ///
    /// [`ArchError`] if the rule does not fit the shape.
    pub fn one(&self, found: &Found, source: &SourceTensor) -> Result<OutTensor, ArchError> {
        let name = rules::fill(found.rule.gguf, found.bid, found.xid) + found.suffix;
        if let RowRule::Values(values) = found.rule.rows {
            let values = values(self.hparams)?;
            return computed(&name, &[values.len() as u64], values);
        }
        let rule = match found.rule.rows {
            RowRule::AsShape(choose) => choose(self.hparams, &source.shape),
            rule => rule,
        };
        let rows = match rule {
            RowRule::Copy | RowRule::First | RowRule::StackExperts | RowRule::Fuse(_) => RowMap::Concat,
            RowRule::Values(_)
            | RowRule::Combine(_)
            | RowRule::Append(_)
            | RowRule::Extend(_)
            | RowRule::Scalars(_)
            | RowRule::SideBySide
            | RowRule::FuseInLayer(_)
            | RowRule::FusePadded(_)
            | RowRule::FuseRows(..)
            | RowRule::Codebooks(_)
            | RowRule::AsShape(_) => RowMap::Concat,
            RowRule::Integers(rule) => return self.integers_of(rule, name, source),
            RowRule::Scatter(places) => return self.scattered(found, source, places(self.hparams)?),
            RowRule::PermuteQ => RowMap::RopePermute { n_head: self.hparams.n_heads()? },
            RowRule::PermuteK => RowMap::RopePermute { n_head: self.hparams.n_kv_heads()? },
            RowRule::Part(part) => part(self.hparams, &source.shape)?,
            // A bias is a vector, which has no columns and which transposing does not change.
            RowRule::Columns(_) if found.suffix == ".bias" => RowMap::Concat,
            RowRule::Columns(rows) | RowRule::Blocks(rows) => rows,
            RowRule::Transposed(transpose) => transpose(self.hparams, &source.shape)?.columns,
            RowRule::Frame(_) | RowRule::TokenRow(_) => return self.cut(found, source),
            RowRule::Grid(side) => return self.grid(found, source, side(self.hparams)?),
            RowRule::SumSlabs(n_slabs) => return self.slabs(found, source, n_slabs(self.hparams)),
        };
        let wrong =
            |expected| ArchError::TensorShape { name: source.name.clone(), found: source.shape, expected };
        // The shape after transposing, before parts are taken.
        let (whole, matrix) = match rule {
            RowRule::Columns(_) if found.suffix != ".bias" => {
                let (whole, matrix) = transposed::transposed(&source.shape).map_err(wrong)?;
                (whole, Some(matrix))
            }
            RowRule::Transposed(transpose) => {
                let transposed = transpose(self.hparams, &source.shape)?;
                (
                    transposed::transposed_parts(&source.shape, &transposed).map_err(wrong)?,
                    Some(transposed.matrix),
                )
            }
            _ => (source.shape, None),
        };
        let shape = part_shape(&rows, &whole).map_err(wrong)?;
        let shape = self.reshape(found.rule, source, shape)?;
        // Element transforms apply to weights; a bias keeps its values unless the rule examines the suffix
        // itself.
        let element = match found.rule.element_of {
            Some(element_of) => element_of(self.hparams, found.bid, found.suffix)?,
            None if found.suffix == ".bias" => ElementMap::Identity,
            None => found.rule.element,
        };
        let name_of = || source.name.clone();
        let out = OutTensor {
            float: self.float(found, &name, shape.n_dims()),
            stored_dtype: None,
            name,
            shape,
            data: match matrix {
                Some(matrix) => Data::Columns { source: name_of(), matrix, rows, element },
                None => Data::Rows { sources: vec![name_of()], rows, element },
            },
        };
        // A head is permuted as two halves, so each must have an even number of rows.
        let n_head = match rows {
            RowMap::RopePermute { n_head } => n_head,
            RowMap::Groups { n_head, .. } if n_head > 0 => n_head,
            _ => return Ok(out),
        };
        let n_rows = out.row_view().n_rows;
        let n_halves = u128::from(n_head) * 2;
        if n_halves == 0 || !u128::from(n_rows).is_multiple_of(n_halves) {
            return Err(wrong(format!(
                "a number of rows divisible by {n_halves} ({n_head} heads with two halves each)"
            )));
        }
        Ok(out)
    }

    /// The type of a tensor in files of floats.
    pub(super) fn float(&self, found: &Found, name: &str, n_dims: usize) -> FloatType {
        match found.rule.float {
            Some(FloatType::OfFile) => FloatType::OfFile,
            // Row transforms of a weight do not apply to vectors of the same name.
            Some(own) if n_dims > 1 && found.suffix != ".bias" => own,
            _ => drops::float(name, n_dims),
        }
    }

    /// A tensor that is a piece of another shape than its source.
    fn cut(&self, found: &Found, source: &SourceTensor) -> Result<OutTensor, ArchError> {
        let name = rules::fill(found.rule.gguf, found.bid, found.xid) + found.suffix;
        let wrong = |expected: &str| ArchError::TensorShape {
            name: source.name.clone(),
            found: source.shape,
            expected: expected.to_owned(),
        };
        let (dims, rows) = match (found.rule.rows, source.shape.dims(), source.folded) {
            // (out, in, 2, height, width): rows of one frame are `height` of every 2 height.
            (RowRule::Frame(frame), &[width, height, 2, outer], Some(channels))
                if channels > 0 && outer.is_multiple_of(channels) =>
            {
                let rows =
                    RowMap::Groups { group: 2 * height, start: frame * height, rows: height, n_head: 0 };
                (vec![width, height, channels, outer / channels], rows)
            }
            (RowRule::Frame(_), ..) => return Err(wrong("kernels of two frames, in five dimensions")),
            // A vector is counted element by element.
            (RowRule::TokenRow(token), &[width, n_tokens], None) => {
                let token = token(self.hparams);
                if token >= n_tokens {
                    return Err(wrong(&format!("a row for token {token}")));
                }
                (vec![width], RowMap::Slice { start: token * width })
            }
            _ => return Err(wrong("a matrix")),
        };
        let shape = shape_of(&name, &dims)?;
        let data = Data::Rows { sources: vec![source.name.clone()], rows, element: ElementMap::Identity };
        Ok(OutTensor {
            float: self.float(found, &name, shape.n_dims()),
            stored_dtype: None,
            name,
            shape,
            data,
        })
    }

    /// A tensor of integers.
    fn integers_of(
        &self,
        rule: IntegerRule,
        name: String,
        source: &SourceTensor,
    ) -> Result<OutTensor, ArchError> {
        let bad = |reason: String| ArchError::BadIds { name: source.name.clone(), reason };
        let read = self.integers.and_then(|integers| integers.read(&source.name));
        let mut values = read.ok_or_else(|| bad("no tensor of integers".into()))?;
        let mut shape = source.shape;
        if let Some(n_tokens) = rule.distances {
            for (place, value) in values.iter_mut().enumerate() {
                *value = value.saturating_add(place as i64);
            }
            // Each token of the draft is another one of the target.
            let n_tokens = n_tokens(self.hparams)?;
            if let Some(id) = values.iter().find(|id| u64::try_from(**id).is_ok_and(|id| id < n_tokens).not())
            {
                return Err(bad(format!("token {id} of a vocabulary of {n_tokens}")));
            }
            let mut ids = values.clone();
            ids.sort_unstable();
            if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(bad(format!("token {} twice", pair[0])));
            }
            shape = shape_of(&name, &[values.len() as u64])?;
        } else if rule.dtype == DType::I32
            && let Some(id) = values.iter().find(|id| i32::try_from(**id).is_err())
        {
            return Err(bad(format!("{id}, which 32 bits do not hold")));
        }
        let data = Data::Integers { source: source.name.clone(), values };
        Ok(OutTensor { name, shape, data, float: FloatType::OfFile, stored_dtype: Some(rule.dtype) })
    }

    /// Makes the tensors of a layer's experts.
    pub(super) fn emit_stack(
        &self,
        bid: u64,
        n_experts: u64,
        stack: &Stack<'_>,
        tensors: &mut Vec<OutTensor>,
    ) -> Result<(), ArchError> {
        for rule in self.stacked() {
            let name = rules::fill(rule.gguf, bid, 0) + ".weight";
            let parts: Vec<&SourceTensor> =
                (0..n_experts).filter_map(|xid| stack.get(&(rule.gguf, xid)).copied()).collect();
            let Some(first) = parts.first() else { continue };
            if let Some(other) = parts.iter().find(|part| part.shape != first.shape) {
                return Err(ArchError::TensorShape {
                    name: other.name.clone(),
                    found: other.shape,
                    expected: format!("{} as of `{}`", first.shape, first.name),
                });
            }
            let mut dims = first.shape.dims().to_vec();
            dims.push(n_experts);
            tensors.push(OutTensor {
                shape: shape_of(&name, &dims)?,
                float: drops::float(&name, dims.len()),
                stored_dtype: None,
                name,
                data: Data::Rows {
                    sources: parts.iter().map(|part| part.name.clone()).collect(),
                    rows: RowMap::Concat,
                    element: ElementMap::Identity,
                },
            });
        }
        Ok(())
    }
}

/// A tensor of values that are no part of the checkpoint. Dimensions are row length first.
///
/// # Errors
///
/// [`ArchError::Shape`] for dimensions that ggml has no tensor of.
pub fn computed(name: &str, dims: &[u64], values: Vec<f32>) -> Result<OutTensor, ArchError> {
    let (shape, data) = (shape_of(name, dims)?, Data::Computed(values));
    Ok(OutTensor { name: name.to_owned(), shape, data, float: FloatType::F32, stored_dtype: None })
}

/// Shape of the part of a source that a map takes: that of the source, with fewer rows if only some are
/// taken. The error is the expected shape if the source has no such part.
pub(super) fn part_shape(rows: &RowMap, source: &Shape) -> Result<Shape, String> {
    let mut dims = source.dims().to_vec();
    // Rows are the second dimension; a vector's are its only one. Dimensions are row length first.
    let outer = if let RowMap::Elements { .. } = rows { 0 } else { dims.len().saturating_sub(1).min(1) };
    let Some(&dim) = dims.get(outer) else { return Ok(*source) };
    let product = |factors: &[u64]| factors.iter().try_fold(1u64, |all, factor| all.checked_mul(*factor));
    let is_inside = |start: u64, rows: u64, group: u64| {
        rows > 0 && start.checked_add(rows).is_some_and(|end| end <= group)
    };
    let of_groups = |taken: u64, group: u64| (dim / group.max(1)).saturating_mul(taken);
    // Each may be a separate matrix. Kernels of convolutions have a dimension of one before that of the channels.
    let all = || source.dims().iter().skip(outer).try_fold(1, |all: u64, dim| all.checked_mul(*dim));
    let (n_rows, fits, expected) = match *rows {
        RowMap::Concat | RowMap::RopePermute { .. } | RowMap::PadEach { .. } | RowMap::GridCorner { .. } => {
            return Ok(*source);
        }
        RowMap::Groups { group, start, rows, n_head: _ } => (
            of_groups(rows, group),
            is_inside(start, rows, group) && dim.is_multiple_of(group),
            format!("groups of {group} rows, of which {rows} from {start} on are taken"),
        ),
        RowMap::Ungroup { queries, keys } => {
            let group = keys.checked_mul(2).and_then(|keys| keys.checked_add(queries));
            let fits = queries > 0 && keys > 0 && group.is_some_and(|group| dim.is_multiple_of(group));
            (dim, fits, format!("groups of {queries} rows of queries, {keys} of keys and of values"))
        }
        RowMap::Regroup { group, parts } => {
            let taken = parts.iter().fold(0u64, |sum, (_, rows)| sum.saturating_add(*rows));
            let fits = taken <= group && parts.iter().all(|(start, rows)| is_inside(*start, *rows, group));
            let expected = format!("groups of {group} rows with parts {parts:?}");
            (of_groups(taken, group), fits && dim.is_multiple_of(group), expected)
        }
        RowMap::Elements { step, start } => {
            let fits = start < step && dim.is_multiple_of(step);
            (of_groups(1, step), fits, format!("rows of a multiple of {step} elements"))
        }
        RowMap::FirstHead { head } => {
            let fits = head > 0 && head.is_multiple_of(2) && source.n_elems().is_multiple_of(head);
            (dim, fits, format!("heads of {head} elements"))
        }
        RowMap::Pick { rows: [first, second], of: _ } => {
            let fits = first.max(second) < dim && dims.len() > 1;
            (2, fits, format!("rows {first} and {second}, of two tokens"))
        }
        RowMap::Pad { rows, to } => (to, dim == rows && to >= rows, format!("at most {to} rows")),
        RowMap::RopeHalves { head, rotated } => {
            let fits =
                rotated > 0 && rotated.is_multiple_of(2) && rotated <= head && dim.is_multiple_of(head);
            (dim, fits, format!("rows in heads of {head}, of which {rotated} are rotated in pairs"))
        }
        RowMap::TileHeads { start, groups, per_group, rows } => {
            let heads = product(&[groups, per_group, rows]).filter(|heads| *heads > 0);
            let fits = heads.is_some() && all().and_then(|all| all.checked_sub(start)) == heads;
            (dim, fits, format!("{start} rows and {groups} groups of {per_group} heads of {rows} rows"))
        }
        RowMap::PairHalves { n_heads, rows } => {
            let fits = product(&[n_heads, rows]).is_some_and(|heads| heads > 0 && heads <= dim);
            let expected = format!("{n_heads} heads of {rows} rows, in pairs of two kinds");
            (dim, fits && rows.is_multiple_of(4), expected)
        }
        RowMap::HalvesByAxis { head, rows } => {
            let fits = rows > 0 && product(&[rows, 6]).is_some_and(|pieces| pieces <= head);
            let expected = format!("heads of {head} rows with six pieces of {rows} rows");
            (dim, fits && dim.is_multiple_of(head), expected)
        }
        RowMap::TileColumns { groups, per_group, elems } => {
            let columns = product(&[groups, per_group, elems]).filter(|columns| *columns > 0);
            let expected = format!("rows of {groups} groups of {per_group} heads of {elems} elements");
            (dim, columns == Some(source.row_elems()), expected)
        }
        RowMap::PermuteHeads { heads, rows } => {
            let fits = product(&[heads, rows]).is_some_and(|heads| heads > 0 && heads <= dim);
            (dim, fits && rows.is_multiple_of(2), format!("at least {heads} heads of {rows} rows"))
        }
        RowMap::AfterZeros { zeros, head } => return after_zeros(&dims, zeros, head),
        RowMap::Chunks { order } => {
            let fits = all().is_some_and(|all| all.is_multiple_of(order.len() as u64));
            (dim, fits, format!("{} chunks of the same number of rows", order.len()))
        }
        RowMap::Slice { start } => {
            (dim.saturating_sub(start), dim > start, format!("more than {start} rows"))
        }
    };
    match dims.get_mut(outer) {
        Some(dim) if fits => *dim = n_rows,
        _ => return Err(expected),
    }
    Shape::new(&dims).map_err(|error| error.to_string())
}

/// Shape of matrices of adapters, (n, 1, rows, columns) in the checkpoint, with one of zeros before them: (1 + n, rows, columns).
fn after_zeros(dims: &[u64], zeros: u64, head: u64) -> Result<Shape, String> {
    let &[columns, rows, 1, n] = dims else {
        return Err("matrices of adapters, one dimension of 1 between".to_owned());
    };
    if zeros != rows || head > 0 && (!head.is_multiple_of(2) || !rows.is_multiple_of(head)) {
        return Err(format!("{rows} rows in heads of {head}"));
    }
    Shape::new(&[columns, rows, n.saturating_add(1)]).map_err(|error| error.to_string())
}
