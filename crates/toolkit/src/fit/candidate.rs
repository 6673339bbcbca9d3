//! A model whose memory is estimated, and files that are loaded next to it.

use std::path::{Path, PathBuf};

use gguf_container::{Model, TensorInfo, Value};
use gguf_runtime::memory::Demand;
use gguf_tokenizer::keys::CHAT_TEMPLATE;
use gguf_types::{Shape, words};

use crate::{
    container_file::{is_projector, open_model},
    error::Error,
    events::Events,
    file_type::FileType,
    input_kind::{self, Wanted},
    memory::TypeSize,
    text::{file_name, printable},
};

/// A model that may be loaded.
#[derive(Debug)]
pub struct Candidate {
    /// Path of the file, or of the checkpoint that it would be made of.
    pub path: PathBuf,
    /// The type of a file that a checkpoint would become.
    pub file_type: Option<FileType>,
    /// True for a checkpoint.
    pub is_checkpoint: bool,
    /// Its memory.
    pub demand: Demand,
    /// Bytes of weights that are read for each token; `None` if it generates no text.
    pub bytes_per_token: Option<u64>,
    /// True if only the weights are counted.
    pub weights_only: bool,
    /// True if no weights are quantized.
    pub is_float: bool,
    /// True if RoPE is scaled for longer contexts.
    pub is_scaled: bool,
    /// True for a file with a chat template.
    pub has_template: bool,
}

impl Candidate {
    /// The model of a GGUF file.
    ///
    /// # Errors
    /// A file that cannot be read, or one of another kind.
    pub fn open(path: &Path, events: &dyn Events) -> Result<Candidate, Error> {
        let model = open_model(path)?;
        let infos: Vec<TensorInfo> = model.tensors().map(|(_, info)| info.clone()).collect();
        if input_kind::is_image_model(model.metadata(), &infos) {
            let name = file_name(path);
            events.note(format!("{name}: weights only; an image or video takes more, depending on its size"));
            return Ok(Candidate::of_weights(path, model.tensor_bytes()));
        }
        let demand = demand(path, &model, events)?;
        let bytes_per_token = bytes_per_token(
            &demand,
            &model,
            infos.iter().map(|info| Stored::new(&info.name, info.shape, info.n_bytes)),
        );
        Ok(Candidate {
            bytes_per_token,
            weights_only: false,
            is_float: infos.iter().all(|info| !info.dtype.is_quantized()),
            is_scaled: is_scaled(&model),
            has_template: model.get(CHAT_TEMPLATE).is_some(),
            demand,
            ..Candidate::of_weights(path, 0)
        })
    }

    /// A model of which only the weights are counted.
    pub fn of_weights(path: &Path, weights: u64) -> Candidate {
        Candidate {
            path: path.to_owned(),
            file_type: None,
            is_checkpoint: false,
            demand: only(weights),
            bytes_per_token: None,
            weights_only: true,
            is_float: false,
            is_scaled: false,
            has_template: false,
        }
    }

    /// Name in the report.
    pub fn name(&self) -> String {
        self.file_type.map_or_else(|| file_name(&self.path), |file_type| file_type.to_string())
    }
}

/// Models of the input.
#[derive(Default)]
pub struct Found {
    /// One for each file or type.
    pub candidates: Vec<Candidate>,
    /// Sizes of the files that a checkpoint can become.
    pub sizes: Vec<TypeSize>,
}

/// A tensor in its stored form.
#[derive(Debug, Clone, Copy)]
pub struct Stored<'a> {
    name: &'a str,
    shape: Shape,
    n_bytes: u64,
}

impl<'a> Stored<'a> {
    /// The tensor `name`.
    pub fn new(name: &'a str, shape: Shape, n_bytes: u64) -> Stored<'a> {
        Stored { name, shape, n_bytes }
    }
}

/// Bytes of weights that are read for each token: the experts that are used of each stack, and one row of an embedding that is not
/// also the output matrix.
pub fn bytes_per_token<'a>(
    demand: &Demand,
    model: &Model,
    tensors: impl Iterator<Item = Stored<'a>>,
) -> Option<u64> {
    if demand.n_vocab == 0 {
        return None;
    }
    let architecture = model.get("general.architecture").and_then(Value::as_str).unwrap_or_default();
    let n_used = model.get(&format!("{architecture}.expert_used_count")).and_then(Value::as_u64);
    let has_output = model.tensor("output.weight").is_some();
    let read = |Stored { name, shape, n_bytes }: Stored<'_>| match (name, n_used) {
        ("token_embd.weight", _) if !has_output => n_bytes,
        (name, _) if name.ends_with("token_embd.weight") => n_bytes / shape.dim(1).max(1),
        (name, Some(n_used)) if name.contains("_exps.") && shape.dim(2) > 1 => {
            let n_experts = shape.dim(2);
            n_bytes / n_experts * n_used.min(n_experts)
        }
        _ => n_bytes,
    };
    Some(tensors.map(read).fold(0, u64::saturating_add)).filter(|bytes| *bytes > 0)
}

/// Memory of a file that is loaded next to a model: a draft model as a whole, of a projector or an adapter the weights.
///
/// # Errors
/// A file that cannot be read or is never loaded.
pub fn companion(path: &Path, events: &dyn Events) -> Result<Demand, Error> {
    let model = open_model(path)?;
    match Kind::of(&model) {
        Kind::Model => demand(path, &model, events),
        Kind::Projector => {
            let name = file_name(path);
            events
                .note(format!("{name}: weights only; buffers of the encoder depend on the picture or sound"));
            Ok(only(model.tensor_bytes()))
        }
        Kind::Adapter => Ok(only(model.tensor_bytes())),
        Kind::NeverLoaded(what) => {
            let message = format!("expected a projector, draft model or adapter, found {what}");
            Err(Error::at(path, message).hint(["no program loads this file together with a model"]))
        }
    }
}

fn only(weights: u64) -> Demand {
    Demand { weights, layers: Vec::new(), n_embd: 0, n_vocab: 0, context_length: 0 }
}

/// Use of a file when a model runs.
pub enum Kind {
    Model,
    Projector,
    Adapter,
    NeverLoaded(String),
}

impl Kind {
    pub fn of(model: &Model) -> Kind {
        let text = |key: &str| model.get(key).and_then(Value::as_str).unwrap_or_default();
        match (text("general.type"), text("general.architecture")) {
            _ if is_projector(model.metadata()) => Kind::Projector,
            _ if model.get("imatrix.datasets").is_some() => {
                Kind::NeverLoaded("an importance matrix".to_owned())
            }
            ("adapter", _) | (_, "controlvector") => Kind::Adapter,
            ("" | "model", _) if model.tensors().count() == 0 => {
                Kind::NeverLoaded("a vocabulary without weights".to_owned())
            }
            ("" | "model", _) => Kind::Model,
            (kind, _) => Kind::NeverLoaded(format!("a file of kind `{}`", printable(kind))),
        }
    }
}

/// Memory of a model. Architectures without a graph are estimated by their keys.
///
/// # Errors
/// A file that is not a model, or whose keys are invalid.
pub fn demand(path: &Path, model: &Model, events: &dyn Events) -> Result<Demand, Error> {
    use gguf_runtime::Error as E;
    let is_model = matches!(Kind::of(model), Kind::Model);
    match Demand::of(&gguf_models::GRAPHS, model) {
        Err(E::UnknownArchitecture { name } | E::DraftAlone { architecture: name }) if is_model => {
            let demand = Demand::by_keys(model).map_err(|error| Error::at(path, error))?;
            let what = if demand.layers.is_empty() {
                "only the weights are counted"
            } else {
                "the KV cache is estimated from the keys of attention"
            };
            let file = file_name(path);
            events.warning(words!("{}: unknown memory layout of `{}`: {}", file, printable(&name), what));
            Ok(demand)
        }
        found => found.map_err(|error| input_kind::explained(path, Wanted::Gguf, Error::at(path, error))),
    }
}

/// True if RoPE is scaled for longer contexts.
pub fn is_scaled(model: &Model) -> bool {
    let architecture = model.get("general.architecture").and_then(Value::as_str).unwrap_or_default();
    let kind = model.get(&format!("{architecture}.rope.scaling.type")).and_then(Value::as_str);
    kind.is_some_and(|kind| kind != "none")
}
