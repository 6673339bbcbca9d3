//! Statistics of an importance matrix for people and as JSON.

use std::collections::BTreeMap;

use gguf_imatrix::{EntryStatistics, Sums};
use gguf_types::layer_and_part;
use serde::Serialize;

use crate::{
    table::{narrow_table, table},
    text::{printable, shortened},
};

/// Maximum number of characters of a name.
const KIND_CHARS: usize = 32;
/// Number of layers in a comparison.
const MAX_LAYERS: usize = 5;

/// Explanation of the columns.
const LEGEND: &str = "
sum: mean squares of the columns, added; zero: share of columns that are zero
evenness: entropy of the mean squares, 100 % if all columns are equal
outliers: share of columns more than a standard deviation above the mean
similarity: cosine with the same tensor of the layer before
";

/// Statistics of an importance matrix.
#[derive(Debug, Clone, Serialize)]
pub struct Importance {
    /// Statistics of each tensor: by kind, and of each kind the largest sum first.
    pub tensors: Vec<TensorImportance>,
    /// Means over the tensors of each layer, weighted by their numbers of columns.
    pub layers: Vec<LayerImportance>,
}

/// Statistics of the inputs of a tensor: mean squares of its columns.
#[derive(Debug, Clone, Serialize)]
pub struct TensorImportance {
    /// Name of the tensor.
    pub tensor: String,
    /// Number of columns with data.
    pub values: usize,
    /// Matrices of the tensor: 1, or the number of experts.
    pub matrices: usize,
    /// Matrices with data.
    pub used: usize,
    /// Fewest tokens of a matrix; calls for a file in the older format.
    pub fewest: i64,
    /// Most tokens of a matrix.
    pub most: i64,
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
    /// Share of columns that are zero.
    pub zero: f64,
    /// Share of columns above 1e-5.
    pub active: f64,
    /// Entropy of the distribution over the columns, in bits.
    pub entropy: f64,
    /// The same by that of equal columns.
    pub evenness: f64,
    /// Share of columns more than a standard deviation above the mean.
    pub outliers: f64,
    /// Cosine similarity with the same tensor of the layer before.
    pub similarity: Option<f64>,
}

/// Means over the tensors of a layer.
#[derive(Debug, Clone, Serialize)]
pub struct LayerImportance {
    /// Number of the layer.
    pub layer: u32,
    /// Sum of the mean squares.
    pub sum: f64,
    /// Share of columns more than a standard deviation above the mean.
    pub outliers: f64,
    /// Cosine similarity with the layer before, 0 for tensors without one.
    pub similarity: f64,
}

impl Importance {
    /// The statistics of a matrix.
    ///
    /// # Examples
    /// ```no_run
    /// use gguf_toolkit::importance_table::Importance;
    ///
    /// # fn main() -> Result<(), gguf_imatrix::Error> {
    /// let sums = gguf_imatrix::Sums::open("imatrix.gguf".as_ref())?;
    /// print!("{}", Importance::of(&sums).text());
    /// # Ok(())
    /// # }
    /// ```
    pub fn of(sums: &Sums) -> Importance {
        let mut tensors: Vec<_> = sums.statistics().into_iter().map(TensorImportance::from).collect();
        tensors.sort_by(|a, b| kind(&a.tensor).cmp(kind(&b.tensor)).then(b.sum.total_cmp(&a.sum)));
        let mut numbers: Vec<u32> = tensors.iter().filter_map(TensorImportance::layer).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let layer = |layer: u32| {
            let tensors = tensors.iter().filter(|tensor| tensor.layer() == Some(layer));
            let n: f64 = tensors.clone().map(|tensor| tensor.values as f64).sum();
            let mean = |value: fn(&TensorImportance) -> f64| {
                tensors.clone().map(|tensor| tensor.values as f64 * value(tensor)).sum::<f64>() / n
            };
            LayerImportance {
                layer,
                sum: mean(|tensor| tensor.sum),
                outliers: mean(|tensor| tensor.outliers),
                similarity: mean(|tensor| tensor.similarity.unwrap_or(0.0)),
            }
        };
        Importance { layers: numbers.into_iter().map(layer).collect(), tensors }
    }

    /// A table of the kinds of tensors and one of the layers.
    pub fn text(&self) -> String {
        let mut kinds: BTreeMap<&str, Vec<&TensorImportance>> = BTreeMap::new();
        for tensor in &self.tensors {
            kinds.entry(kind(&tensor.tensor)).or_default().push(tensor);
        }
        let header = ["kind", "tensors", "sum", "zero", "evenness", "outliers", "similarity"];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        for (kind, tensors) in kinds {
            let mean = |value: &dyn Fn(&TensorImportance) -> Option<f64>| {
                let values: Vec<f64> = tensors.iter().filter_map(|tensor| value(tensor)).collect();
                (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
            };
            let share = |value: fn(&TensorImportance) -> f64| {
                mean(&|tensor| Some(value(tensor))).map_or_else(String::new, percent)
            };
            rows.push(vec![
                shortened(kind, KIND_CHARS),
                tensors.len().to_string(),
                four_digits(mean(&|tensor| Some(tensor.sum))),
                share(|tensor| tensor.zero),
                share(|tensor| tensor.evenness),
                share(|tensor| tensor.outliers),
                four_digits(mean(&|tensor| tensor.similarity)),
            ]);
        }
        narrow_table(&rows, &[1, 2, 3, 4, 5, 6]) + &self.layer_table() + LEGEND
    }

    /// A table of the tensors and one of the layers.
    pub fn full_text(&self) -> String {
        let header = [
            "tensor",
            "values",
            "count",
            "sum",
            "mean",
            "deviation",
            "max",
            "zero",
            "active",
            "evenness",
            "outliers",
            "similarity",
        ];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        for tensor in &self.tensors {
            let TensorImportance { values, matrices, used, fewest, most, .. } = *tensor;
            rows.push(vec![
                printable(&tensor.tensor),
                if used == matrices { values.to_string() } else { format!("{values} ({used}/{matrices})") },
                if fewest == most { most.to_string() } else { format!("{fewest}-{most}") },
                format!("{:.4}", tensor.sum),
                format!("{:.4}", tensor.mean),
                format!("{:.4}", tensor.deviation),
                format!("{:.4}", tensor.max),
                percent(tensor.zero),
                percent(tensor.active),
                percent(tensor.evenness),
                percent(tensor.outliers),
                four_digits(tensor.similarity),
            ]);
        }
        let columns: Vec<usize> = (1..header.len()).collect();
        table(&rows, &columns) + &self.layer_table() + LEGEND
    }

    /// The table of the layers after an empty line, if there are any.
    fn layer_table(&self) -> String {
        let mut rows = vec![["layer", "sum", "outliers", "similarity"].map(str::to_owned).to_vec()];
        for layer in &self.layers {
            rows.push(vec![
                layer.layer.to_string(),
                format!("{:.4}", layer.sum),
                percent(layer.outliers),
                four_digits(Some(layer.similarity)),
            ]);
        }
        if rows.len() > 1 { "\n".to_owned() + &table(&rows, &[0, 1, 2, 3]) } else { String::new() }
    }
}

/// Cosine similarities of two matrices: means over the tensors of each kind and of each layer.
#[derive(Debug, Clone, Serialize)]
pub struct Similarities {
    kinds: BTreeMap<String, f64>,
    layers: BTreeMap<u32, f64>,
}

impl Similarities {
    /// The similarities of the tensors that both have.
    pub fn of(a: &Sums, b: &Sums) -> Similarities {
        let tensors: Vec<(&str, f64)> = a.similarities(b).collect();
        let of_kind = tensors.iter().map(|(name, value)| (kind(name).to_owned(), *value));
        let of_layer = tensors.iter().filter_map(|(name, value)| Some((layer_and_part(name)?.0, *value)));
        Similarities { kinds: means(of_kind), layers: means(of_layer) }
    }

    /// A table of the kinds, and one of the layers that differ most.
    pub fn text(&self) -> String {
        let row = |name: String, value: f64| vec![shortened(&name, KIND_CHARS), four_digits(Some(value))];
        let mut kinds = vec![["kind", "similarity"].map(str::to_owned).to_vec()];
        kinds.extend(self.kinds.iter().map(|(kind, value)| row(kind.clone(), *value)));
        let mut by_value: Vec<_> = self.layers.iter().collect();
        by_value.sort_by(|a, b| a.1.total_cmp(b.1));
        let mut layers = vec![["layer", "similarity"].map(str::to_owned).to_vec()];
        layers.extend(
            by_value.into_iter().take(MAX_LAYERS).map(|(layer, value)| row(layer.to_string(), *value)),
        );
        format!("{}\n{}\n", table(&kinds, &[1]), table(&layers, &[1]))
    }
}

/// Mean of the values of each key.
fn means<K: Ord>(values: impl Iterator<Item = (K, f64)>) -> BTreeMap<K, f64> {
    let mut all: BTreeMap<K, Vec<f64>> = BTreeMap::new();
    values.for_each(|(key, value)| all.entry(key).or_default().push(value));
    all.into_iter().map(|(key, values)| (key, values.iter().sum::<f64>() / values.len() as f64)).collect()
}

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

fn four_digits(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:.4}"))
}

impl TensorImportance {
    fn layer(&self) -> Option<u32> {
        layer_and_part(&self.tensor).map(|(layer, _)| layer)
    }
}

impl From<EntryStatistics> for TensorImportance {
    fn from(found: EntryStatistics) -> TensorImportance {
        TensorImportance {
            evenness: found.evenness(),
            tensor: found.name,
            values: found.n_values,
            matrices: found.n_matrices,
            used: found.n_used,
            fewest: found.counts.0,
            most: found.counts.1,
            sum: found.sum,
            mean: found.mean,
            deviation: found.deviation,
            min: found.min,
            max: found.max,
            zero: found.zero,
            active: found.active,
            entropy: found.entropy,
            outliers: found.outliers,
            similarity: found.similarity,
        }
    }
}

/// Kind of a tensor: its name without the layer.
fn kind(tensor: &str) -> &str {
    layer_and_part(tensor).map_or(tensor, |(_, part)| part)
}
