//! Adapters of PEFT merged into their base model while it is read.
//!
//! Changed tensors of a checkpoint with adapters compute their values when read
//! ([`gguf_checkpoint::Stored`]): there is no merged copy, memory is that of a tile, and readers of rows
//! (maps, transposes, stacks of experts, any form of the base) are unaffected. Values equal those of PEFT's
//! `merge_and_unload` for a model loaded in f32, however the base model is stored; they are first rounded to
//! the target type. `low_rank.rs` states the arithmetic.
//!
//! Source: `LoraModel` in `tuners/lora/`, `get_peft_model_state_dict` in `utils/save_and_load.py` of peft 0.21.2.

pub(crate) mod config;
mod diffusion;
mod error;
mod keys;
mod low_rank;
mod modules;
mod parameters;
mod vocabulary;

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use gguf_checkpoint::{Checkpoint, Dtype, Folder, Tensor, Tensors};
use serde_json::Value as Json;

use self::{
    config::{Config, Target},
    low_rank::{Change, Dora, Factor, Merged},
    modules::{Module, Names, Sorted},
    vocabulary::{OUTPUT, Vocabulary, without_tied_copy},
};
pub(crate) use self::{
    keys::{add_adapter_list, add_merged_keys},
    low_rank::{Tile, transposed},
};
pub use diffusion::{DiffusionWeights, ModuleNames, merge_diffusion};
pub use error::MergeError;
use error::shape_error;
pub use keys::{MERGED_ADAPTERS, adapter_name, merged_adapters};

/// An adapter to be merged.
#[derive(Debug, Clone)]
pub struct LoraAdapter {
    /// Folder of the adapter.
    pub folder: Folder,
    /// Name for messages: a path or an address.
    pub name: PathBuf,
    /// Weight of the adapter: 1 as trained. Full tensors and token rows are not scaled.
    pub scale: f64,
    /// True if the result takes the adapter's tokenizer and chat template. Full embeddings may then have
    /// another vocabulary size, like after `resize_token_embeddings` of transformers.
    pub takes_tokenizer: bool,
}

/// Merges adapters into a checkpoint, in order. No weight is read; every shape is checked.
///
/// For magnitudes (DoRA), the norm is that of the base model's weights with only this adapter, like in PEFT
/// when several are merged.
///
/// # Errors
/// The name of an adapter that does not fit, and the reason.
pub fn merge(
    checkpoint: Checkpoint,
    adapters: &[LoraAdapter],
) -> Result<Checkpoint, (PathBuf, Box<MergeError>)> {
    let mut merging = Merging {
        unmerged: HashMap::new(),
        changed: HashSet::new(),
        tokens: HashMap::new(),
        vocabulary: Vocabulary::default(),
        tensors: checkpoint.tensors.to_vec(),
        checkpoint,
    };
    for adapter in adapters {
        let taken = merging
            .take(adapter)
            .and_then(|()| merging.vocabulary.write_size(&merging.tensors, &mut merging.checkpoint.config));
        taken.map_err(|error| (adapter.name.clone(), Box::new(error)))?;
    }
    let Merging { mut checkpoint, tensors, .. } = merging;
    checkpoint.tensors = Tensors::from(tensors);
    Ok(checkpoint)
}

struct Merging {
    checkpoint: Checkpoint,
    /// Tensors with the changes so far, in order.
    tensors: Vec<Tensor>,
    /// Tensors before any pair changed them.
    unmerged: HashMap<String, Tensor>,
    /// Names of tensors that an adapter has changed or replaced.
    changed: HashSet<String>,
    /// Tokens that an adapter has trained, by the name of the embedding.
    tokens: HashMap<String, HashSet<u64>>,
    /// Embeddings that an adapter has resized.
    vocabulary: Vocabulary,
}

/// Names of layers that may be transformers' `Conv1D`, whose rows are inputs.
const CONV1D_LAYERS: &[&str] = &["c_attn", "q_attn", "c_proj", "c_fc"];

/// Changes of parameters by `wanted`. Modules without such a parameter are added to `others`: a target such as `down_proj` is a
/// parameter of the experts only, and other modules have a plain pair.
fn parameter_changes<'a>(
    names: &mut Names<'_>,
    wanted: Vec<Module<'a>>,
    others: &mut Vec<Module<'a>>,
    config: &Config,
    scale: f64,
) -> Result<Vec<parameters::Place>, MergeError> {
    let mut changes = Vec::new();
    for module in wanted {
        let targets = config.parameters_of(parameters::unwrapped(&module.name));
        let places = parameters::places(names, &module, &targets, config, scale)?;
        if places.is_empty() {
            others.push(module);
        } else {
            changes.extend(places);
        }
    }
    Ok(changes)
}

impl Merging {
    fn take(&mut self, adapter: &LoraAdapter) -> Result<(), MergeError> {
        let LoraAdapter { folder, scale, .. } = adapter;
        if !scale.is_finite() {
            return Err(MergeError::Scale { scale: *scale });
        }
        let (opened, mark) =
            gguf_checkpoint::open_adapter_for(folder, &self.checkpoint.config).map_err(MergeError::Source)?;
        let config = Config::new(&opened.config, Target::Merged)?;
        let first_part = self.checkpoint.parts.len();
        // The adapter's weights files become files of the checkpoint.
        let own: Vec<Tensor> =
            opened.tensors.iter().map(|tensor| tensor.clone().after_parts(first_part)).collect();
        let Sorted { modules, whole, tokens } = modules::classify(&own)?;
        let whole = without_tied_copy(whole, &opened, self.is_tied());
        let has_output =
            |module: &Module<'_>| module.a.is_some() && format!("{}.weight", module.name) == OUTPUT;
        if self.is_tied() && modules.iter().any(has_output) {
            self.untie_copy(adapter);
        }
        // Find all places before changing anything, so that missing ones are one error.
        let tensors = Tensors::from(self.tensors.clone());
        let index: HashMap<&str, usize> =
            tensors.iter().enumerate().map(|(at, tensor)| (tensor.name.as_str(), at)).collect();
        let mut names = Names::new(&tensors);
        let mut without_place = Vec::new();
        let (parameter_modules, mut modules): (Vec<_>, Vec<_>) = modules
            .into_iter()
            .partition(|module| !config.parameters_of(parameters::unwrapped(&module.name)).is_empty());
        let parts = parameter_changes(&mut names, parameter_modules, &mut modules, &config, *scale)?;
        let parts: Vec<_> =
            parts.into_iter().map(|place| (index[place.target.as_str()], place.change)).collect();
        let mut find = |module: &str, last: &str, tensor: &Tensor| {
            let found = names.find(module, last).map(|target| index[target.name.as_str()]);
            if found.is_none() {
                without_place.push((format!("{module}.{last}"), tensor.name.clone()));
            }
            found
        };
        // A separate output matrix, for a base model with tied embeddings.
        let is_new = self.is_tied() && tensors.get(OUTPUT).is_none();
        let (outputs, whole): (Vec<_>, Vec<_>) =
            whole.into_iter().partition(|(module, last, _)| is_new && format!("{module}.{last}") == OUTPUT);
        let whole: Vec<(usize, &Tensor)> = whole
            .iter()
            .filter_map(|(module, last, tensor)| Some((find(module, last, tensor)?, *tensor)))
            .collect();
        let places: Vec<_> = modules
            .iter()
            .filter_map(|module| {
                let weight = find(&module.name, "weight", module.a?);
                let bias = module.bias.map(|bias| find(&module.name, "bias", bias));
                Some((module, weight, bias.flatten()))
            })
            .collect();
        let tokens: Vec<_> = tokens
            .iter()
            .filter_map(|(module, tensor)| Some((find(module, "weight", tensor)?, module, *tensor)))
            .collect();
        if !without_place.is_empty() {
            return Err(self.no_place(without_place));
        }
        self.check_targets(places.iter().map(|(module, weight, _)| (*module, *weight)), &tokens)?;

        let tied = self.output_twin(&index);
        let mut counts = Counts { replaced: whole.len() + outputs.len(), ..Counts::default() };
        for (at, tensor) in whole {
            self.replace(at, tensor, adapter.takes_tokenizer)?;
        }
        counts.merged = self.change_modules(&places, &config, *scale)? + parts.len();
        for (at, change) in parts {
            self.put(at, change, None);
        }
        for (at, module, tensor) in tokens {
            counts.tokens += self.take_tokens(at, tensor, config.tokens_of(module))?;
        }
        if let Some((embedding, output)) = tied {
            self.keep_tied(embedding, output);
        }
        for (_, _, tensor) in outputs {
            self.untie(tensor)?;
        }
        let of_adapter = |text: String| format!("adapter `{}`: {text}", adapter.name.display());
        self.checkpoint.notes.extend(opened.notes.into_iter().map(of_adapter));
        self.checkpoint.warnings.extend(opened.warnings.into_iter().map(of_adapter));
        self.checkpoint.parts.extend(opened.parts);
        if let Some(mark) = mark {
            mark.add_config(folder, &mut self.checkpoint.config).map_err(MergeError::Source)?;
        }
        self.checkpoint.notes.push(counts.note(adapter, &config));
        self.take_tokenizer(adapter)
    }

    /// Changes weights and biases at their places. Returns the number of modules.
    fn change_modules(
        &mut self,
        places: &[(&Module<'_>, Option<usize>, Option<usize>)],
        config: &Config,
        scale: f64,
    ) -> Result<usize, MergeError> {
        let mut n_changed = 0;
        for (module, weight, bias) in places {
            let Some(weight) = weight else { continue };
            self.change(*weight, module, config, scale)?;
            n_changed += 1;
            if let (Some(at), Some(values)) = (bias, module.bias) {
                self.change_bias(*at, values, config.scaling_of(&module.name, scale))?;
            }
        }
        Ok(n_changed)
    }

    /// Takes the adapter's tokenizer if it is wanted; otherwise notes one that is ignored.
    fn take_tokenizer(&mut self, adapter: &LoraAdapter) -> Result<(), MergeError> {
        let folder = &adapter.folder;
        let own =
            gguf_checkpoint::own_tokenizer(folder, &self.checkpoint.files).map_err(MergeError::Source)?;
        let name = adapter.name.display();
        if adapter.takes_tokenizer {
            let files = gguf_checkpoint::tokenizer_of(folder).map_err(MergeError::Source)?;
            if files.is_empty() {
                return Err(MergeError::NoTokenizer);
            }
            vocabulary::take_files(&mut self.checkpoint.files, files);
            if !own.is_empty() {
                let own = gguf_types::list_names(&own);
                self.checkpoint
                    .notes
                    .push(format!("adapter `{name}`: its tokenizer and chat template are used: {own}"));
            }
        } else if !own.is_empty() {
            let own = gguf_types::list_names(&own);
            let note = format!("adapter `{name}`: its own tokenizer or chat template is ignored: {own}");
            self.checkpoint.notes.push(note);
        }
        Ok(())
    }

    /// Checks that each tensor of the base model has at most one pair, and no pair if the adapter replaces some of its tokens.
    fn check_targets<'a>(
        &self,
        places: impl Iterator<Item = (&'a Module<'a>, Option<usize>)>,
        tokens: &[(usize, &String, &Tensor)],
    ) -> Result<(), MergeError> {
        let mut pairs: HashMap<usize, &Tensor> = HashMap::new();
        for (module, at) in places {
            let (Some(at), Some(half)) = (at, module.a) else { continue };
            if let Some(first) = pairs.insert(at, half) {
                return Err(MergeError::SameTarget {
                    first: first.name.clone(),
                    second: half.name.clone(),
                    target: self.tensors[at].name.clone(),
                });
            }
        }
        if let Some((_, module, _)) = tokens.iter().find(|(at, ..)| pairs.contains_key(at)) {
            let (found, reason) = ((*module).clone(), "its matrix has a pair as well");
            return Err(MergeError::Unsupported { key: "trainable_token_indices", found, reason });
        }
        Ok(())
    }

    /// Error for tensors without a counterpart in the base model.
    fn no_place(&self, without_place: Vec<(String, String)>) -> MergeError {
        let output = without_place.iter().find(|(target, _)| target == OUTPUT);
        if let (Some((target, tensor)), true) = (output, self.is_tied()) {
            return MergeError::Tied { tensor: tensor.clone(), target: target.clone() };
        }
        MergeError::NoPlace { names: without_place.into_iter().map(|(_, name)| name).collect() }
    }

    /// Embedding and output, if a base model with tied embeddings has both in its files.
    fn output_twin(&self, index: &HashMap<&str, usize>) -> Option<(usize, usize)> {
        let output = *index.get(OUTPUT).filter(|_| self.is_tied())?;
        Some((self.embedding()?, output))
    }

    /// True if the base model ties its output to its embedding.
    fn is_tied(&self) -> bool {
        self.checkpoint.config.get("tie_word_embeddings").and_then(Json::as_bool) == Some(true)
    }

    fn embedding(&self) -> Option<usize> {
        self.tensors.iter().position(|tensor| vocabulary::is_embedding(&tensor.name))
    }

    /// Adds an output matrix trained separately from the embedding and updates the config.
    fn untie(&mut self, tensor: &Tensor) -> Result<(), MergeError> {
        let Some(embedding) = self.embedding().map(|at| &self.tensors[at]) else {
            return Err(MergeError::NoPlace { names: vec![tensor.name.clone()] });
        };
        if tensor.shape != embedding.shape {
            return Err(shape_error(tensor, "the same shape", embedding));
        }
        self.insert_output(tensor.clone());
        self.checkpoint.config["tie_word_embeddings"] = Json::Bool(false);
        Ok(())
    }

    /// Adds a copy of the embedding as the output, for an adapter that changes it separately.
    fn untie_copy(&mut self, adapter: &LoraAdapter) {
        if !self.tensors.iter().any(|tensor| tensor.name == OUTPUT) {
            let Some(embedding) = self.embedding().map(|at| self.tensors[at].clone()) else { return };
            self.insert_output(embedding);
        }
        self.checkpoint.config["tie_word_embeddings"] = Json::Bool(false);
        self.checkpoint.notes.push(format!(
            "adapter `{}`: the output of the base model is tied to its embedding; the adapter changes only the output, which is \
                written as a separate matrix",
            adapter.name.display()
        ));
    }

    /// Adds an output matrix in name order, the order of files.
    fn insert_output(&mut self, mut output: Tensor) {
        output.name = OUTPUT.to_owned();
        let at =
            self.tensors.iter().position(|other| other.name.as_str() > OUTPUT).unwrap_or(self.tensors.len());
        self.tensors.insert(at, output);
    }

    /// Keeps parameters tied: a change of the embedding also changes the output.
    fn keep_tied(&mut self, embedding: usize, output: usize) {
        let [is_new_embedding, is_new_output] =
            [embedding, output].map(|at| self.changed.contains(&self.tensors[at].name));
        if is_new_embedding && !is_new_output {
            let mut tied = self.tensors[embedding].clone();
            tied.name.clone_from(&self.tensors[output].name);
            self.tensors[output] = tied;
        }
    }

    /// Replaces a tensor of the base model with a full tensor of the adapter.
    fn replace(&mut self, at: usize, tensor: &Tensor, may_resize: bool) -> Result<(), MergeError> {
        let target = &self.tensors[at];
        if tensor.shape != target.shape {
            if !vocabulary::is_resized(tensor, target) {
                return Err(shape_error(tensor, "the same shape", target));
            }
            if !may_resize {
                return Err(MergeError::Vocabulary {
                    tensor: tensor.name.clone(),
                    found: tensor.n_rows(),
                    target: target.name.clone(),
                    expected: target.n_rows(),
                });
            }
            self.vocabulary.resized.insert(target.n_rows());
        }
        if !self.changed.insert(target.name.clone()) {
            return Err(MergeError::Replaced { tensor: tensor.name.clone(), target: target.name.clone() });
        }
        let mut replacement = tensor.clone();
        replacement.name.clone_from(&target.name);
        self.tensors[at] = replacement;
        Ok(())
    }

    /// Adds a module's pair to its weight.
    fn change(
        &mut self,
        at: usize,
        module: &Module<'_>,
        config: &Config,
        scale: f64,
    ) -> Result<(), MergeError> {
        let (Some(a), Some(b)) = (module.a, module.b) else { return Ok(()) };
        let target = self.tensors[at].clone();
        let rank = config.rank_of(&module.name);
        let ([a_rank, n_inputs], [n_outputs, b_rank]) = (pair_shape(a, &target)?, pair_shape(b, &target)?);
        for (tensor, found) in [(a, a_rank), (b, b_rank)] {
            if found != rank {
                return Err(MergeError::Rank { tensor: tensor.name.clone(), found, expected: rank });
            }
        }
        let outputs_are_rows = self.outputs_are_rows(module, config, [n_outputs, n_inputs], &target);
        let (shape, tensor) = if outputs_are_rows {
            ([n_outputs, n_inputs], if target.shape.first() == Some(&n_outputs) { a } else { b })
        } else {
            ([n_inputs, n_outputs], if target.shape.first() == Some(&n_inputs) { b } else { a })
        };
        if target.shape != shape {
            return Err(shape_error(
                tensor,
                &format!("a pair for a matrix of {shape:?} in its place"),
                &target,
            ));
        }
        let (a, b) = (Factor::whole(a, true), Factor::whole(b, false));
        let (left, right) = if outputs_are_rows { (b, a) } else { (a, b) };
        // Fits in usize: a rank is at most as long as a tensor of the file.
        let (rank, scale) = (rank as usize, config.scaling_of(&module.name, scale));
        let change = Change::LowRank { left, right, rank, scale, matrix_rows: target.n_rows() };
        let dora = self.dora(module, config, &target, outputs_are_rows)?;
        self.put(at, change, dora);
        Ok(())
    }

    /// True if the rows of a matrix are outputs. PEFT uses the class of the layer. Here the shape decides,
    /// or, for a square matrix, other matrices of the model.
    fn outputs_are_rows(
        &self,
        module: &Module<'_>,
        config: &Config,
        [n_outputs, n_inputs]: [u64; 2],
        target: &Tensor,
    ) -> bool {
        if module.is_embedding {
            return false;
        }
        if n_outputs != n_inputs {
            return target.shape != [n_inputs, n_outputs];
        }
        match self.checkpoint.config.get("model_type") {
            Some(_) => !(is_conv1d_layer(&module.name) && self.has_conv1d()),
            None => !config.fan_in_fan_out,
        }
    }

    /// True if the model has layers of the class `Conv1D`: a matrix with rows as long as its bias.
    fn has_conv1d(&self) -> bool {
        let biases: HashMap<&str, &[u64]> = self
            .tensors
            .iter()
            .filter_map(|tensor| Some((tensor.name.strip_suffix(".bias")?, &tensor.shape[..])))
            .collect();
        self.tensors.iter().any(|tensor| {
            let layer = tensor.name.strip_suffix(".weight").filter(|name| is_conv1d_layer(name));
            let ([n_rows, n_columns], Some(bias)) =
                (&tensor.shape[..], layer.and_then(|layer| biases.get(layer)))
            else {
                return false;
            };
            n_rows != n_columns && *bias == [*n_columns]
        })
    }

    /// Magnitudes of a module, if its adapter has some.
    fn dora(
        &self,
        module: &Module<'_>,
        config: &Config,
        target: &Tensor,
        outputs_are_rows: bool,
    ) -> Result<Option<Dora>, MergeError> {
        let magnitude = match (config.use_dora, module.magnitude) {
            (false, None) => return Ok(None),
            (true, Some(magnitude)) => magnitude,
            (true, None) => {
                let name = format!("base_model.model.{}.lora_magnitude_vector", module.name);
                return Err(MergeError::Missing { names: vec![name] });
            }
            (false, Some(magnitude)) => {
                return Err(MergeError::Unknown { names: vec![magnitude.name.clone()] });
            }
        };
        let n_outputs = if outputs_are_rows { target.n_rows() } else { target.row_elems() };
        if magnitude.shape != [n_outputs] {
            return Err(shape_error(magnitude, &format!("[{n_outputs}]"), target));
        }
        let unmerged = self.unmerged.get(&target.name);
        Ok(Some(Dora {
            magnitude: magnitude.clone(),
            outputs_are_rows,
            unmerged: unmerged.unwrap_or(target).clone(),
            is_first: unmerged.is_none(),
            factors: OnceLock::new(),
        }))
    }

    /// Adds the bias of a module's pair to its bias.
    fn change_bias(&mut self, at: usize, values: &Tensor, scale: f32) -> Result<(), MergeError> {
        let target = &self.tensors[at];
        if values.shape != target.shape || values.shape.len() != 1 {
            return Err(shape_error(values, "the same shape", target));
        }
        self.put(at, Change::Vector { values: values.clone(), scale }, None);
        Ok(())
    }

    /// Replaces rows of the embedding with trained token rows; returns their number. The rows are values, not
    /// changes, so they are not scaled.
    ///
    /// Source: `TrainableTokensLayer.merge` in `tuners/trainable_tokens/layer.py`.
    fn take_tokens(
        &mut self,
        at: usize,
        values: &Tensor,
        tokens: Option<&[u64]>,
    ) -> Result<usize, MergeError> {
        let target = &self.tensors[at];
        let tokens = tokens.ok_or(MergeError::MissingKey { key: "trainable_token_indices" })?;
        if target.shape.len() != 2 || values.shape != [tokens.len() as u64, target.row_elems()] {
            let expected =
                format!("{} rows of {}, as adapter_config.json has", tokens.len(), target.row_elems());
            return Err(shape_error(values, &expected, target));
        }
        let wrong =
            |token: u64, problem| Err(MergeError::Token { tensor: values.name.clone(), token, problem });
        let mut places: Vec<[u64; 2]> =
            tokens.iter().copied().zip(0..).map(|(row, place)| [row, place]).collect();
        places.sort_unstable();
        if let Some(two) = places.windows(2).find(|two| two[0][0] == two[1][0]) {
            return wrong(two[0][0], "is a duplicate");
        }
        if let Some([token, _]) = places.last().filter(|[row, _]| *row >= target.n_rows()) {
            return wrong(*token, "is out of range for the base model's vocabulary");
        }
        // An adapter must not overwrite a token of another.
        let taken = self.tokens.entry(target.name.clone()).or_default();
        if let Some(token) = tokens.iter().find(|token| !taken.insert(**token)) {
            return wrong(*token, "was also trained by an earlier adapter");
        }
        self.put(at, Change::Rows { values: values.clone(), places }, None);
        Ok(tokens.len())
    }

    fn put(&mut self, at: usize, change: Change, dora: Option<Dora>) {
        let base = self.tensors[at].clone();
        self.unmerged.entry(base.name.clone()).or_insert_with(|| base.clone());
        self.changed.insert(base.name.clone());
        let mut merged = base.clone();
        merged.dtype = Dtype::F32;
        merged.stored = Some(Arc::new(Merged { base, change, dora }));
        self.tensors[at] = merged;
    }
}

/// True for the name of a layer that may be a `Conv1D`.
fn is_conv1d_layer(name: &str) -> bool {
    CONV1D_LAYERS.contains(&name.rsplit('.').next().unwrap_or_default())
}

/// The two dimensions of half a pair.
fn pair_shape(tensor: &Tensor, target: &Tensor) -> Result<[u64; 2], MergeError> {
    let two = <[u64; 2]>::try_from(tensor.shape.as_slice());
    two.map_err(|_| shape_error(tensor, "two dimensions", target))
}

#[derive(Default)]
struct Counts {
    merged: usize,
    replaced: usize,
    tokens: usize,
}

impl Counts {
    fn note(&self, adapter: &LoraAdapter, config: &Config) -> String {
        let LoraAdapter { name, scale, .. } = adapter;
        let kind = if config.use_dora { "DoRA" } else { "LoRA" };
        let times = if *scale == 1.0 { String::new() } else { format!(" {scale} times") };
        let mut note =
            format!("adapter `{}`: {kind} merged{times} into {} tensors", name.display(), self.merged);
        if self.tokens > 0 {
            note += &format!(", {} embedding rows replaced by trained tokens", self.tokens);
        }
        if self.replaced > 0 {
            note += &format!(", {} whole tensors replaced", self.replaced);
        }
        note
    }
}
