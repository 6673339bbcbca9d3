//! Statistics of an importance matrix for people and as JSON.

use gguf_imatrix::{EntryStatistics, Sums};
use gguf_types::layer_and_part;
use serde::Serialize;

use crate::{table::table, text::printable};

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

    /// A table of the tensors and one of the layers.
    pub fn text(&self) -> String {
        let percent = |share: f64| format!("{:.2} %", 100.0 * share);
        let similarity = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.4}"));
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
                similarity(tensor.similarity),
            ]);
        }
        let columns: Vec<usize> = (1..header.len()).collect();
        let mut text = table(&rows, &columns);
        let mut rows = vec![["layer", "sum", "outliers", "similarity"].map(str::to_owned).to_vec()];
        for layer in &self.layers {
            rows.push(vec![
                layer.layer.to_string(),
                format!("{:.4}", layer.sum),
                percent(layer.outliers),
                similarity(Some(layer.similarity)),
            ]);
        }
        if rows.len() > 1 {
            text = text + "\n" + &table(&rows, &[0, 1, 2, 3]);
        }
        text
    }
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
