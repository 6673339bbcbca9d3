//! Weights and metadata that the conversion of a recorded model would write.

use std::collections::{HashMap, HashSet};

use gguf_container::{Metadata, Model};
use gguf_layout::{Data, ElementMap, Layout, OutTensor, RowMap, SourceTensor};
use gguf_quant::{split_mix, usual_error};
use gguf_types::{DType, Shape};
use rayon::prelude::*;
use serde_json::Value as Json;

use super::record::{Record, Weight};
use crate::{
    blocks,
    error::Error,
    verify::{Check, Finding, Severity, against},
};

/// Layout that the conversion of a recorded model gives.
#[derive(Debug)]
pub struct Expected {
    layout: Layout,
    /// Index of a recorded tensor by its name in the layout.
    recorded: HashMap<String, usize>,
}

impl Expected {
    /// Resolves config and tensor shapes of a record.
    ///
    /// # Errors
    /// The reason why the model cannot be converted.
    pub fn of(record: &Record) -> Result<Expected, String> {
        let facts = &record.facts;
        let mut config = facts.config.clone().ok_or("the record has no config")?;
        if facts.weights.is_empty() {
            return Err("the record has no tensors".to_owned());
        }
        if let Json::Object(config) = &mut config {
            // The state dict has the values, in whatever form files store them.
            config.remove("quantization_config");
        }
        let mut input = gguf_layout::Input { config, ..gguf_layout::Input::default() };
        let mut order: Vec<usize> = (0..facts.weights.len()).collect();
        order.sort_by_key(|index| &facts.weights[*index].name);
        for Weight { name, shape, .. } in order.iter().map(|index| &facts.weights[*index]) {
            let shape = Shape::from_row_major(shape).map_err(|error| format!("tensor `{name}`: {error}"))?;
            input.tensors.push(SourceTensor { name: name.clone(), shape, folded: None });
        }
        let options = gguf_layout::Options::new(gguf_models::FAMILIES);
        let form = gguf_layout::saved_form(&input, &options);
        if let (Some(class), Json::Object(config)) = (form.class, &mut input.config) {
            config.insert("architectures".to_owned(), vec![class].into());
        }
        let renamed: HashMap<String, String> = form.renamed.into_iter().collect();
        for tensor in &mut input.tensors {
            if let Some(name) = renamed.get(&tensor.name) {
                tensor.name.clone_from(name);
            }
        }
        let recorded = input.tensors.iter().map(|tensor| tensor.name.clone()).zip(order).collect();
        let layout = gguf_layout::resolve_weights(&input, &options).map_err(|error| error.to_string())?;
        Ok(Expected { layout, recorded })
    }

    /// The tensor of the file whose product a linear module computes, by module; the first of a module that the file has
    /// in parts.
    pub fn products(&self) -> HashMap<String, String> {
        let mut products = HashMap::new();
        for tensor in &self.layout.tensors {
            // Stacks and parts of experts see some of the tokens.
            if let [source] = tensor.data.sources()
                && let Some(module) = source.strip_suffix(".weight")
            {
                products.entry(module.to_owned()).or_insert_with(|| tensor.name.clone());
            }
        }
        let has_output = products.values().any(|name| name == "output.weight");
        // A tied output is multiplied with the embedding.
        if !has_output && self.layout.tensors.iter().any(|tensor| tensor.name == "token_embd.weight") {
            products.insert("lm_head".to_owned(), "token_embd.weight".to_owned());
        }
        products
    }

    /// Compares the hyperparameters of a file.
    pub fn keys(&self, metadata: &Metadata) -> Check {
        let architecture = self.layout.architecture;
        let prefix = format!("{architecture}.");
        let own = |metadata: &Metadata| {
            let mut metadata = metadata.clone();
            metadata.retain(|key, _| key == "general.architecture" || key.starts_with(&prefix));
            metadata
        };
        let mut check = against::keys(&own(metadata), &own(&self.layout.metadata));
        check.name = "hyperparameters";
        for finding in &mut check.findings {
            // Converters differ in the keys that they leave out, so only a wrong value is certain.
            if finding.code == "missing_key" {
                finding.severity = Severity::Warning;
            }
        }
        check
    }

    /// Compares the rows of a file with those that the record describes.
    ///
    /// # Errors
    /// A tensor that cannot be decoded.
    pub fn tensors(&self, record: &Record, model: &Model) -> Result<Check, Error> {
        let mut check = Check::new("weights");
        if record.facts.weights.iter().all(|weight| weight.rows.is_none()) {
            return Ok(
                check.skipped("the record has no rows of weights; pass the checkpoint to compare them")
            );
        }
        let types: HashSet<DType> = model.tensors().map(|(_, info)| info.dtype).collect();
        let own: HashMap<DType, f64> =
            types.into_iter().filter_map(|dtype| Some((dtype, own_error(dtype)?))).collect();
        let compared: Vec<Result<Option<Compared>, Error>> =
            self.layout.tensors.par_iter().map(|tensor| self.compare(tensor, record, model, &own)).collect();
        let (mut n_near, mut n_skipped) = (0, 0);
        for (tensor, compared) in self.layout.tensors.iter().zip(compared) {
            let name = &tensor.name;
            match compared? {
                None => n_skipped += 1,
                Some(Compared::Near) => n_near += 1,
                Some(Compared::Missing) => {
                    check.push(Finding::error("missing_tensor", format!("missing tensor `{name}`")));
                }
                Some(Compared::Shape) => {
                    check.push(Finding::error("tensor_shape", format!("tensor `{name}` has another shape")));
                }
                Some(Compared::Permuted) => check.push(Finding::error(
                    "permuted",
                    format!("tensor `{name}` has the rows of the original in another order"),
                )),
                Some(Compared::Differs(distance)) => check.push(Finding::error(
                    "differs",
                    format!(
                        "tensor `{name}`: relative error {:.4}, expected at most {:.4}; {} of {} rows differ",
                        distance.error, distance.bound, distance.n_distant, distance.n_rows
                    ),
                )),
            }
        }
        check.summary = format!("{n_near} equal within rounding, {n_skipped} not compared");
        Ok(check)
    }

    /// Compares a tensor; `None` if the record does not describe its rows.
    fn compare(
        &self,
        tensor: &OutTensor,
        record: &Record,
        model: &Model,
        own: &HashMap<DType, f64>,
    ) -> Result<Option<Compared>, Error> {
        let Some((file, info)) = model.tensor(&tensor.name) else { return Ok(Some(Compared::Missing)) };
        let Data::Rows { sources, rows: map, element } = &tensor.data else { return Ok(None) };
        let Some(own) = own.get(&info.dtype) else { return Ok(None) };
        if info.shape.without_trailing_ones() != tensor.shape.without_trailing_ones() {
            return Ok(Some(Compared::Shape));
        }
        if matches!(map, RowMap::Pad { .. } | RowMap::AfterZeros { .. }) || map.pieces() > 1 {
            return Ok(None);
        }
        let is_vector = tensor.shape.n_dims_effective() <= 1;
        let row_elems = if is_vector { 1 } else { tensor.shape.row_elems() };
        let n_rows = tensor.shape.n_elems() / row_elems.max(1);
        if !is_vector && tensor.row_view().row_elems != row_elems {
            return Ok(None);
        }
        let mut expected = Vec::new();
        for source in sources {
            let Some(rows) = self.source_rows(record, source, row_elems, is_vector) else { return Ok(None) };
            expected.extend(rows);
        }
        let is_concat = *map == RowMap::Concat;
        if expected.is_empty() || (!is_concat && sources.len() != 1) {
            return Ok(None);
        }
        let found = projections(file.endian(), info.dtype, file.data(info)?, row_elems)?;
        let map = map.source_rows(n_rows);
        let mut rows = Vec::with_capacity(found.len());
        for (row, found) in (0..n_rows).zip(found) {
            let source = if is_concat { row } else { map.source_row(row) };
            let source = usize::try_from(source).ok().and_then(|source| expected.get(source));
            let Some([product, length]) = source.copied() else { return Ok(None) };
            let Some((product, length)) = mapped(*element, row, product, length, is_vector) else {
                return Ok(None);
            };
            rows.push(Row { expected: product, found, length });
        }
        Ok(Some(judge(&rows, *own)))
    }

    /// Product and length of the rows of a source; `None` if the record lacks them or has rows of another length.
    fn source_rows(
        &self,
        record: &Record,
        source: &str,
        row_elems: u64,
        is_vector: bool,
    ) -> Option<Vec<[f64; 2]>> {
        let weight = record.facts.weights.get(*self.recorded.get(source)?)?;
        let rows = weight.rows.as_ref()?;
        let is_matrix = weight.shape.len() > 1;
        if is_matrix == is_vector || (is_matrix && weight.shape.last() != Some(&row_elems)) {
            return None;
        }
        let values = record.values(rows);
        Some(values.as_chunks::<2>().0.iter().map(|[a, b]| [f64::from(*a), f64::from(*b)]).collect())
    }
}

/// Result of the comparison of a tensor.
enum Compared {
    Near,
    Missing,
    Shape,
    /// The rows are the same in another order.
    Permuted,
    Differs(Distance),
}

/// Difference of a tensor.
struct Distance {
    /// Estimate of `|file - original| / |original|`.
    error: f64,
    bound: f64,
    n_rows: usize,
    n_distant: usize,
}

/// A row: its product with the vector of signs in the original and in the file, and its length in the original.
struct Row {
    expected: f64,
    found: f64,
    length: f64,
}

/// Product and length of an output row, from those of its source row. `None` for a function whose effect on a sum of
/// elements is unknown.
fn mapped(element: ElementMap, row: u64, product: f64, length: f64, is_vector: bool) -> Option<(f64, f64)> {
    match element {
        ElementMap::Identity => Some((product, length)),
        element if is_vector => {
            // The only element, without its sign.
            let value = f64::from(element.apply(row, (product * sign(0)) as f32, |value| value));
            Some((value * sign(0), value.abs()))
        }
        ElementMap::Scale([first, second]) => {
            let factor = f64::from(first) * f64::from(second);
            Some((product * factor, length * factor.abs()))
        }
        _ => None,
    }
}

/// Factor between the error of a type on normally distributed numbers and the bound for a tensor.
const TENSOR_FACTOR: f64 = 4.0;
/// The same for a row, in standard deviations of its product with signs.
const ROW_FACTOR: f64 = 8.0;
/// Part of the difference between sorted products of unrelated rows below which rows count as the same.
const PERMUTED_SHARE: f64 = 0.3;
/// Part of the typical row length below which a row counts as longer.
const SHORT_ROW: f64 = 0.1;

/// Judges the rows of a tensor whose type has the error `own`.
///
/// The signs are random, so the square of the product of an error vector with them is on average its squared length. That makes
/// the sum over rows an estimate of the squared error of the tensor.
fn judge(rows: &[Row], own: f64) -> Compared {
    let squared: f64 = rows.iter().map(|row| row.length.powi(2)).sum();
    let typical = (squared / rows.len().max(1) as f64).sqrt();
    let bound = TENSOR_FACTOR * own;
    let length = |row: &Row| row.length.max(SHORT_ROW * typical).max(f64::MIN_POSITIVE);
    let relative = |row: &Row| (row.expected - row.found).abs() / length(row);
    // NaN is distant.
    let is_near = |row: &Row| relative(row) <= ROW_FACTOR * own;
    let n_distant = rows.iter().filter(|row| !is_near(row)).count();
    let difference: f64 = rows.iter().map(|row| (row.expected - row.found).powi(2)).sum();
    let error = if difference == 0.0 { 0.0 } else { (difference / squared).sqrt() };
    if n_distant == 0 && error <= bound {
        return Compared::Near;
    }
    let sorted = |value: fn(&Row) -> f64| {
        let mut values: Vec<f64> = rows.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let (expected, found) = (sorted(|row| row.expected), sorted(|row| row.found));
    let left: f64 = expected.iter().zip(&found).map(|(a, b)| (a - b).powi(2)).sum();
    // Sorted products of unrelated rows differ by about one part in the square root of their number.
    let chance = PERMUTED_SHARE / (rows.len().max(1) as f64).sqrt();
    let is_permuted =
        rows.len() > 1 && left.is_finite() && (left / squared).sqrt() <= chance.min(error / 10.0);
    if is_permuted {
        Compared::Permuted
    } else {
        Compared::Differs(Distance { error, bound, n_rows: rows.len(), n_distant })
    }
}

/// Product of each row of blocks with the vector of signs.
fn projections(
    endian: gguf_container::Endian,
    dtype: DType,
    bytes: &[u8],
    row_elems: u64,
) -> Result<Vec<f64>, Error> {
    let row_elems = usize::try_from(row_elems).unwrap_or(usize::MAX).max(1);
    // Elements of a vector are stored as one row.
    let stored_row = row_elems.next_multiple_of(dtype.block_elems() as usize);
    let row_bytes = stored_row / dtype.block_elems() as usize * dtype.block_bytes() as usize;
    let signs: Vec<f64> = (0..row_elems as u64).map(sign).collect();
    let rows_at_once = (ELEMS_AT_ONCE / stored_row).max(1);
    let mut products = Vec::new();
    let mut values = Vec::new();
    for part in bytes.chunks(rows_at_once.saturating_mul(row_bytes).max(1)) {
        let blocks = endian.to_little(dtype, part);
        values.clear();
        values.resize(part.len() / row_bytes.max(1) * stored_row, 0.0);
        blocks::decode_rows(dtype, &blocks, stored_row, &mut values)?;
        let product = |row: &[f32]| row.iter().zip(&signs).map(|(x, sign)| f64::from(*x) * sign).sum::<f64>();
        products.extend(values.chunks_exact(row_elems).map(product));
    }
    Ok(products)
}

/// Elements that are decoded at once.
const ELEMS_AT_ONCE: usize = 1 << 20;

/// Sign `index` of the vector: the upper bit of an output of SplitMix64 with seed 0.
pub fn sign(index: u64) -> f64 {
    match split_mix(index) >> 63 {
        0 => 1.0,
        _ => -1.0,
    }
}

/// Error of a type on ordinary weights, at least that of bf16, to which checkpoints are rounded; `None` for types that
/// cannot be encoded.
fn own_error(dtype: DType) -> Option<f64> {
    Some(usual_error(dtype)?.max(usual_error(DType::BF16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_match_split_mix() {
        // The first outputs of the generator with seed 0.
        assert_eq!([split_mix(0), split_mix(1)], [0xE220_A839_7B1D_CDAF, 0x6E78_9E6A_A1B9_65F4]);
        assert_eq!([sign(0), sign(1)], [-1.0, 1.0]);
    }

    #[test]
    fn types_have_errors() {
        let of = |dtype| own_error(dtype).unwrap_or(f64::NAN);
        assert!(of(DType::F32) > 1e-4 && of(DType::F32) < 4e-3);
        assert!(
            of(DType::Q8_0) < of(DType::Q4_K) && of(DType::Q4_K) < of(DType::Q2_K) && of(DType::Q2_K) < 0.5
        );
        assert_eq!(own_error(DType::I32), None);
    }

    #[test]
    fn rows_in_another_order_are_recognized() {
        let row = |expected: usize, found: usize| {
            let product = |index| sign(index as u64) * (index as f64 + 1.0);
            Row { expected: product(expected), found: product(found), length: 12.0 }
        };
        let same: Vec<Row> = (0..16).map(|i| row(i, i)).collect();
        assert!(matches!(judge(&same, 1e-3), Compared::Near));
        let rotated: Vec<Row> = (0..16).map(|i| row(i, (i + 5) % 16)).collect();
        assert!(matches!(judge(&rotated, 1e-3), Compared::Permuted));
        let other: Vec<Row> = (0..16).map(|i| row(i, i + 16)).collect();
        assert!(matches!(judge(&other, 1e-3), Compared::Differs(_)));
    }
}
