//! Results of probes, stored in the folder of statistics. They hold for every file size, so that the next
//! file needs no probes and an interrupted run continues.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use gguf_container::Output;
use gguf_types::DType;
use serde::{Deserialize, Serialize};

/// Divergences, in nats, of models in which one matrix is replaced.
#[derive(Debug)]
pub struct Probed {
    path: PathBuf,
    found: Found,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Found {
    /// Model, texts and method of the probes.
    of: String,
    /// By tensor and type.
    nats: BTreeMap<String, BTreeMap<String, f64>>,
}

impl Probed {
    /// Opens the results in `folder`. They are empty if the folder has none, or those of another `of`.
    pub fn open(folder: &Path, of: String) -> Probed {
        let path = folder.join("probes.json");
        let read = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Found>(&bytes).ok());
        let found = read.filter(|found| found.of == of).unwrap_or_else(|| Found { of, ..Found::default() });
        Probed { path, found }
    }

    /// Cost of replacing a tensor by this type, if known.
    pub fn cost(&self, tensor: &str, dtype: DType) -> Option<f64> {
        self.found
            .nats
            .get(tensor)?
            .get(dtype.name())
            .copied()
            .filter(|nats| nats.is_finite() && *nats >= 0.0)
    }

    /// Stores the result for each tensor of a probe.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn note(&mut self, tensors: &[(&str, DType)], nats: f64) -> Result<(), gguf_container::Error> {
        for (tensor, dtype) in tensors {
            let of_tensor = self.found.nats.entry((*tensor).to_owned()).or_default();
            of_tensor.insert(dtype.name().to_owned(), nats);
        }
        let text = serde_json::to_vec(&self.found).map_err(std::io::Error::from);
        let text = text.map_err(|source| gguf_container::Error::Io {
            action: "write",
            path: self.path.clone(),
            offset: None,
            source,
        })?;
        Output::write_whole(&self.path, &text, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_results_apply_only_to_same_input() {
        let folder = tempfile::tempdir().unwrap();
        let open = |of: &str| Probed::open(folder.path(), of.to_owned());
        let mut probed = open("this");
        assert_eq!(probed.cost("a", DType::Q4_K), None);
        // No decimal of a few digits.
        probed.note(&[("a", DType::Q4_K)], 0.1 + 0.2).unwrap();
        probed.note(&[("a", DType::Q4_0)], 2.0).unwrap();
        let again = open("this");
        assert_eq!(again.cost("a", DType::Q4_K), Some(0.1 + 0.2));
        assert_eq!((again.cost("a", DType::Q4_0), again.cost("a", DType::Q5_0)), (Some(2.0), None));
        assert_eq!(open("that").cost("a", DType::Q4_K), None);
        probed.note(&[("b", DType::Q4_K)], -1.0).unwrap();
        assert_eq!(open("this").cost("b", DType::Q4_K), None);
        fs::write(folder.path().join("probes.json"), "{\"of\":\"this\"").unwrap();
        assert_eq!(open("this").cost("a", DType::Q4_K), None);
    }
}
