//! Compares the tensors of two files without running them.

use rayon::prelude::*;
use serde::Serialize;

use gguf_container::{File, TensorInfo};
use gguf_quant::Level;
use gguf_types::DType;

use crate::Error;

/// The error of one tensor.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TensorError {
    /// The tensor.
    pub name: String,
    /// Its type in the base.
    pub base_dtype: String,
    /// Its type in the other.
    pub dtype: String,
    /// The errors of its elements.
    #[serde(flatten)]
    pub error: ElementError,
}

/// Errors of elements added up.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[serde(into = "Metrics")]
pub struct ElementError {
    n_elems: u64,
    /// Sums of the squares of the base, the other, their difference, and of their product.
    base: f64,
    other: f64,
    difference: f64,
    product: f64,
    max: f64,
}

/// Reported metrics.
#[derive(Serialize)]
struct Metrics {
    elements: u64,
    rmse: f64,
    base_rms: f64,
    /// None if there is no error at all.
    snr_db: Option<f64>,
    cosine: f64,
    max_error: f64,
}

impl From<ElementError> for Metrics {
    fn from(error: ElementError) -> Metrics {
        Metrics {
            elements: error.n_elems,
            rmse: error.rmse(),
            base_rms: error.base_rms(),
            snr_db: error.snr_db(),
            cosine: error.cosine(),
            max_error: error.max,
        }
    }
}

impl ElementError {
    /// Elements compared.
    pub fn n_elems(&self) -> u64 {
        self.n_elems
    }

    /// Root of the mean square of the difference.
    pub fn rmse(&self) -> f64 {
        (self.difference / self.n_elems.max(1) as f64).sqrt()
    }

    /// Root of the mean square of the base.
    pub fn base_rms(&self) -> f64 {
        (self.base / self.n_elems.max(1) as f64).sqrt()
    }

    /// Signal-to-noise ratio in decibels: the energy of the base relative to that of the difference; `None`
    /// without a difference or a base.
    pub fn snr_db(&self) -> Option<f64> {
        (self.difference > 0.0 && self.base > 0.0).then(|| 10.0 * (self.base / self.difference).log10())
    }

    /// Cosine of the angle between the two; 1 for two zeros.
    pub fn cosine(&self) -> f64 {
        let norms = (self.base * self.other).sqrt();
        if norms > 0.0 { self.product / norms } else { f64::from(self.base == self.other) }
    }

    /// The largest difference.
    pub fn max(&self) -> f64 {
        self.max
    }

    /// Adds the elements of two rows of equal length.
    fn add_rows(&mut self, base: &[f32], other: &[f32]) {
        // Eight sums side by side, so that additions need not wait for each other.
        const LANES: usize = 8;
        let mut lanes = [[0.0f64; LANES]; 4];
        let mut max = [0.0f32; LANES];
        let (a, a_rest) = base.as_chunks::<LANES>();
        let (b, b_rest) = other.as_chunks::<LANES>();
        for (a, b) in a.iter().zip(b) {
            for lane in 0..LANES {
                let (x, y) = (f64::from(a[lane]), f64::from(b[lane]));
                let d = x - y;
                lanes[0][lane] += x * x;
                lanes[1][lane] += y * y;
                lanes[2][lane] += d * d;
                lanes[3][lane] += x * y;
                max[lane] = max[lane].max((a[lane] - b[lane]).abs());
            }
        }
        for (&x, &y) in a_rest.iter().zip(b_rest) {
            let (x, y) = (f64::from(x), f64::from(y));
            lanes[0][0] += x * x;
            lanes[1][0] += y * y;
            lanes[2][0] += (x - y) * (x - y);
            lanes[3][0] += x * y;
            max[0] = max[0].max((x - y).abs() as f32);
        }
        let sum = |lanes: [f64; LANES]| lanes.iter().sum::<f64>();
        self.merge(&ElementError {
            n_elems: base.len() as u64,
            base: sum(lanes[0]),
            other: sum(lanes[1]),
            difference: sum(lanes[2]),
            product: sum(lanes[3]),
            max: max.into_iter().fold(0.0, |a, b| a.max(f64::from(b))),
        });
    }

    /// Adds other elements.
    pub fn merge(&mut self, other: &ElementError) {
        self.n_elems += other.n_elems;
        self.base += other.base;
        self.other += other.other;
        self.difference += other.difference;
        self.product += other.product;
        self.max = self.max.max(other.max);
    }
}

/// Result of comparing two files.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct FileError {
    /// The tensors of both, in the order of the base.
    pub tensors: Vec<TensorError>,
    /// Tensors that only the base has.
    pub only_in_base: Vec<String>,
    /// Tensors that only the other has.
    pub only_in_other: Vec<String>,
}

impl FileError {
    /// Errors of all tensors of each type of the other file, by its name.
    pub fn by_dtype(&self) -> Vec<(String, usize, ElementError)> {
        let mut all: Vec<(String, usize, ElementError)> = Vec::new();
        for tensor in &self.tensors {
            match all.iter_mut().find(|(dtype, ..)| *dtype == tensor.dtype) {
                Some((_, n, error)) => {
                    *n += 1;
                    error.merge(&tensor.error);
                }
                None => all.push((tensor.dtype.clone(), 1, tensor.error)),
            }
        }
        // The type that most of the model is stored as comes first.
        all.sort_by_key(|(_, _, error)| std::cmp::Reverse(error.n_elems));
        all
    }
}

/// Elements that are decoded at once, of both files.
const CHUNK_ELEMS: usize = 1 << 16;

/// Compares the tensors of two models by name. Rows are decoded a few at a time on the threads of the current
/// pool; `done` receives the bytes of the base's finished tensors.
///
/// # Errors
/// [`Error::TensorShape`] if the shapes of a tensor differ, [`Error::TensorType`] if its type has no decoder.
pub fn compare(
    base: &gguf_container::Model,
    other: &gguf_container::Model,
    done: &(dyn Fn(u64) + Sync),
) -> Result<FileError, Error> {
    let mut found = FileError::default();
    for (file, info) in base.tensors() {
        let Some((other_file, other_info)) = other.tensor(&info.name) else {
            found.only_in_base.push(info.name.clone());
            continue;
        };
        // Absent dimensions are 1: some programs write trailing ones, others leave them out.
        if !info.shape.matches(other_info.shape.dims()) {
            return Err(Error::TensorShape {
                name: info.name.clone(),
                expected: info.shape.to_string(),
                found: other_info.shape,
            });
        }
        let error = compare_tensor((file, info), (other_file, other_info))?;
        found.tensors.push(TensorError {
            name: info.name.clone(),
            base_dtype: info.dtype.name().to_owned(),
            dtype: other_info.dtype.name().to_owned(),
            error,
        });
        done(info.n_bytes);
    }
    let alone = other.tensors().filter(|(_, info)| base.tensor(&info.name).is_none());
    found.only_in_other = alone.map(|(_, info)| info.name.clone()).collect();
    Ok(found)
}

fn compare_tensor(a: (&File, &TensorInfo), b: (&File, &TensorInfo)) -> Result<ElementError, Error> {
    let row_elems = a.1.shape.row_elems() as usize;
    if row_elems == 0 {
        return Ok(ElementError::default());
    }
    let n_rows = (a.1.shape.n_elems() / row_elems as u64) as usize;
    let rows_at_once = (CHUNK_ELEMS / row_elems).max(1);
    let level = Level::detect();
    let (bytes_a, bytes_b) = (a.0.data(a.1)?, b.0.data(b.1)?);
    type Of<'a> = (&'a File, &'a TensorInfo);
    let decode = |(file, info): Of<'_>, bytes: &[u8], rows: std::ops::Range<usize>, out: &mut Vec<f32>| {
        let row_bytes = bytes.len() / n_rows;
        out.resize(rows.len() * row_elems, 0.0);
        let blocks = &bytes[rows.start * row_bytes..rows.end * row_bytes];
        let blocks = file.endian().to_little(info.dtype, blocks);
        let not_decodable = |dtype: DType| Error::TensorType { name: info.name.clone(), dtype };
        gguf_quant::decode(info.dtype, level, &blocks, out).map_err(|_| not_decodable(info.dtype))
    };
    // Threads take chunks of rows; each decodes into its own two buffers, which live as long as the thread
    // works.
    let chunks = (0..n_rows.div_ceil(rows_at_once)).into_par_iter();
    let errors = chunks.map_init(
        || (Vec::new(), Vec::new()),
        |(x, y), chunk| {
            let rows = chunk * rows_at_once..((chunk + 1) * rows_at_once).min(n_rows);
            decode(a, bytes_a, rows.clone(), x)?;
            decode(b, bytes_b, rows, y)?;
            let mut error = ElementError::default();
            error.add_rows(x, y);
            Ok(error)
        },
    );
    // In order, so that the same files give the same digits whatever the threads do.
    let errors: Vec<ElementError> = errors.collect::<Result<_, Error>>()?;
    let mut all = ElementError::default();
    errors.iter().for_each(|error| all.merge(error));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_match_hand_computed() {
        let (mut base, mut other) = ([0.0f32; 11], [0.0f32; 11]);
        (base[0], base[10]) = (3.0, 4.0);
        (other[0], other[10]) = (3.0, 3.0);
        let mut error = ElementError::default();
        error.add_rows(&base, &other);
        assert_eq!((error.n_elems(), error.max()), (11, 1.0));
        assert!((error.rmse() - (1.0f64 / 11.0).sqrt()).abs() < 1e-15);
        assert!((error.snr_db().unwrap() - 10.0 * 25f64.log10()).abs() < 1e-12);
        assert!((error.cosine() - 21.0 / (5.0 * 18f64.sqrt())).abs() < 1e-15);
    }

    #[test]
    fn equal_tensors_have_no_error() {
        let mut error = ElementError::default();
        error.add_rows(&[1.0, -2.0], &[1.0, -2.0]);
        assert_eq!((error.rmse(), error.snr_db()), (0.0, None));
        assert!((error.cosine() - 1.0).abs() < 1e-15);
        assert_eq!(ElementError::default().cosine(), 1.0);
    }
}
