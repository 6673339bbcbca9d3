//! Files of LoRA adapters: pairs of small matrices by the tensor that they change.
//!
//! For a matrix W (n_out, n_in), or a stack, the tensors `NAME.lora_a` and `NAME.lora_b` are A (r, n_in) and
//! B (n_out, r), and with the caller's scale c
//!
//! ```text
//! W' = W + s (B @ A),   s = c alpha / r, or c if alpha is 0
//! ```
//!
//! For an embedding, A has a row for each token, (n_vocab, r), B is (n_embd, r), and `W' = W + s (A @ B^T)`.
//!
//! Source: `llama_adapter_lora_init_impl` in `src/llama-adapter.cpp` and `get_scale` in `src/llama-adapter.h` of llama.cpp, as
//! vendored in llama-cpp-python 0.3.36.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use gguf_types::Shape;

use crate::{Error, File, Model, TensorInfo};

const A: &str = ".lora_a";
const B: &str = ".lora_b";
const ARCHITECTURE: &str = "general.architecture";
const INVOCATION: &str = "adapter.alora.invocation_tokens";

/// An open adapter file.
#[derive(Debug)]
pub struct Adapter {
    path: PathBuf,
    model: Model,
    alpha: f32,
    /// Names of the changed tensors, with the rank of the pair.
    targets: BTreeMap<String, u64>,
    norms: Vec<String>,
}

/// A pair of an adapter.
#[derive(Debug, Clone, Copy)]
pub struct AdapterPair<'a> {
    /// File and header of A.
    pub a: (&'a File, &'a TensorInfo),
    /// File and header of B.
    pub b: (&'a File, &'a TensorInfo),
    /// r.
    pub rank: u64,
    /// s for c = 1.
    pub scale: f64,
    /// True if A has a row for each token.
    pub is_embedding: bool,
}

impl Adapter {
    /// Opens an adapter file. Every tensor must be half of a pair or the weight of a norm, which llama.cpp ignores.
    ///
    /// # Errors
    /// A file that cannot be read, [`Error::NotAnAdapter`], [`Error::AdapterTensor`].
    pub fn open(path: &Path) -> Result<Adapter, Error> {
        let model = Model::open(path)?;
        let metadata = model.metadata();
        let text = |key: &str| metadata.get(key).and_then(|value| value.as_str());
        for (key, expected) in [("general.type", "adapter"), ("adapter.type", "lora")] {
            if text(key) != Some(expected) {
                let found = text(key).map_or_else(|| "no such key".to_owned(), |found| format!("`{found}`"));
                return Err(Error::NotAnAdapter { key, expected, found });
            }
        }
        if metadata.contains(INVOCATION) {
            let (expected, found) = ("no such key", "an activated LoRA".to_owned());
            return Err(Error::NotAnAdapter { key: INVOCATION, expected, found });
        }
        let alpha = metadata.get("adapter.lora.alpha").and_then(|value| value.as_f64()).unwrap_or(0.0) as f32;
        if !alpha.is_finite() {
            let (expected, found) = ("a finite number", alpha.to_string());
            return Err(Error::NotAnAdapter { key: "adapter.lora.alpha", expected, found });
        }
        let (mut targets, mut norms) = (BTreeMap::new(), Vec::new());
        for (_, tensor) in model.tensors() {
            let problem = |problem| Err(Error::AdapterTensor { tensor: tensor.name.clone(), problem });
            if let Some(target) = tensor.name.strip_suffix(A) {
                let other = format!("{target}{B}");
                let Some((_, other)) = model.tensor(&other) else {
                    return problem("missing `.lora_b` of the pair");
                };
                let rank_of_a = tensor.shape.dim(if is_embedding(target) { 0 } else { 1 });
                let rank = other.shape.dim(0);
                if rank == 0 || rank_of_a != rank {
                    return problem("the two tensors of the pair have different ranks");
                }
                targets.insert(target.to_owned(), rank);
            } else if let Some(target) = tensor.name.strip_suffix(B) {
                if model.tensor(&format!("{target}{A}")).is_none() {
                    return problem("missing `.lora_a` of the pair");
                }
            } else if tensor.name.ends_with("_norm.weight") {
                norms.push(tensor.name.clone());
            } else {
                return problem("expected a name that ends with `.lora_a` or `.lora_b`");
            }
        }
        Ok(Adapter { path: path.to_owned(), alpha, targets, norms, model })
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file as a model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Weights of norms in the file. llama.cpp ignores them.
    pub fn norms(&self) -> &[String] {
        &self.norms
    }

    /// Names of the tensors that the adapter changes.
    pub fn targets(&self) -> impl Iterator<Item = &str> {
        self.targets.keys().map(String::as_str)
    }

    /// True if the adapter changes a tensor.
    pub fn changes(&self, tensor: &str) -> bool {
        self.targets.contains_key(tensor)
    }

    /// Checks that the adapter belongs to a model: same architecture, and a tensor of the model for every
    /// pair.
    ///
    /// # Errors
    /// [`Error::AdapterArchitecture`], [`Error::AdapterTargets`], and those of [`Adapter::pair`].
    pub fn check(&self, model: &Model) -> Result<(), Error> {
        let [expected, found] = [model, &self.model].map(|model| {
            model.get(ARCHITECTURE).and_then(|value| value.as_str()).unwrap_or_default().to_owned()
        });
        if found != expected {
            return Err(Error::AdapterArchitecture { expected, found });
        }
        let missing = self.targets().filter(|name| model.tensor(name).is_none());
        let names: Vec<String> = missing.map(str::to_owned).collect();
        if !names.is_empty() {
            return Err(Error::AdapterTargets { names });
        }
        for (_, tensor) in self.targets().filter_map(|name| model.tensor(name)) {
            self.pair(&tensor.name, tensor.shape)?;
        }
        Ok(())
    }

    /// The pair that changes a tensor of this shape; `None` if the adapter does not change the tensor.
    ///
    /// # Errors
    /// [`Error::AdapterShape`] for a pair of another shape.
    pub fn pair(&self, name: &str, shape: Shape) -> Result<Option<AdapterPair<'_>>, Error> {
        let half = |suffix| self.model.tensor(&format!("{name}{suffix}"));
        let (Some(&rank), Some(a), Some(b)) = (self.targets.get(name), half(A), half(B)) else {
            return Ok(None);
        };
        let is_embedding = is_embedding(name);
        let [n_in, n_out, n_stack, n_last] = [0, 1, 2, 3].map(|i| shape.dim(i));
        let expected = if is_embedding {
            [[rank, n_out, 1, 1], [rank, n_in, 1, 1]]
        } else {
            [[n_in, rank, n_stack, 1], [rank, n_out, n_stack, 1]]
        };
        for ((_, half), expected) in [a, b].into_iter().zip(expected) {
            if n_last != 1 || !half.shape.matches(&expected) {
                let (tensor, found) = (half.name.clone(), half.shape);
                return Err(Error::AdapterShape {
                    tensor,
                    found: Box::new(found),
                    target: name.to_owned(),
                    shape: Box::new(shape),
                });
            }
        }
        let scale = if self.alpha == 0.0 { 1.0 } else { f64::from(self.alpha) / rank as f64 };
        Ok(Some(AdapterPair { a, b, rank, scale, is_embedding }))
    }
}

/// True for a tensor whose rows are looked up by token.
fn is_embedding(name: &str) -> bool {
    name.ends_with("token_embd.weight")
}
