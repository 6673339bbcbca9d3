//! From a model of llama.cpp before GGUF (ggml, ggmf, ggjt) to planned files.

use std::{collections::BTreeMap, path::Path};

use gguf_checkpoint::{Blocks, LegacyModel};
use gguf_container::Mapped;
use gguf_layout::{Data, Families, FloatType, Layout, LegacyHeader, LegacyOptions, OutTensor, SourceTensor};
use gguf_types::{DType, Shape};

use crate::{
    Error,
    files::{self, Base},
    input::Input,
    job::TensorTask,
    output::check_output_file,
    planned::PlannedFile,
    recipes::{Recipe, TensorFacts, ZeroBytes, quantized_metadata, reference_order},
    request::{OutputRequest, Request},
    rows::LegacyRows,
};

/// A model from before GGUF and its layout.
#[derive(Debug)]
pub struct LegacyInput {
    families: Families,
    model: LegacyModel,
    layout: Layout,
    /// Index in the model of each tensor of the layout.
    sources: Vec<usize>,
}

impl LegacyInput {
    /// Opens the model whose first file is `path`; `config` is the layout of its config, if any.
    ///
    /// # Errors
    /// [`Error::Legacy`], [`Error::Arch`], [`Error::Shape`].
    pub fn open(
        families: Families,
        path: &Path,
        options: &LegacyOptions,
        config: Option<&Layout>,
    ) -> Result<LegacyInput, Error> {
        LegacyInput::new(families, gguf_checkpoint::open_legacy(path)?, options, config)
    }

    /// Resolves an open model.
    ///
    /// # Errors
    /// [`Error::Arch`], [`Error::Shape`].
    pub fn new(
        families: Families,
        model: LegacyModel,
        options: &LegacyOptions,
        config: Option<&Layout>,
    ) -> Result<LegacyInput, Error> {
        let mut layout = gguf_layout::resolve_legacy(&header(&model)?, options, config)?;
        layout.notes.extend(decoded_note(&model));
        // Names are unique, and the layout only has tensors of the model.
        let indices: BTreeMap<&str, usize> =
            model.tensors.iter().enumerate().map(|(index, tensor)| (tensor.name.as_str(), index)).collect();
        let index = |tensor: &OutTensor| {
            let Data::Rows { sources, .. } = &tensor.data else { return None };
            indices.get(sources.first()?.as_str()).copied()
        };
        let find = |tensor| index(tensor).ok_or_else(|| no_source(tensor));
        let sources = layout.tensors.iter().map(find).collect::<Result<_, Error>>()?;
        Ok(LegacyInput { families, model, layout, sources })
    }

    /// The model.
    pub fn model(&self) -> &LegacyModel {
        &self.model
    }

    /// The layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Storage type of each tensor of the layout, for display.
    pub fn stored_as(&self) -> Vec<String> {
        let stored = |index: &usize| {
            let tensor = &self.model.tensors[*index];
            match tensor.blocks {
                Blocks::Today(dtype) => dtype.name().to_owned(),
                Blocks::Old(_) => format!("{} of {}", tensor.blocks.name(), self.model.container),
            }
        };
        self.sources.iter().map(stored).collect()
    }

    /// True if a tensor has a type that ggml no longer supports.
    fn has_decoded(&self) -> bool {
        self.model.tensors.iter().any(|tensor| tensor.current_dtype.is_none())
    }
}

fn no_source(tensor: &OutTensor) -> Error {
    Error::NoSuchTensor { name: String::new(), wanted_by: tensor.name.clone() }
}

fn header(model: &LegacyModel) -> Result<LegacyHeader<'_>, Error> {
    let tensor = |tensor: &gguf_checkpoint::LegacyTensor| {
        let dims = [tensor.row_elems, tensor.n_rows.unwrap_or(1)];
        match Shape::new(&dims[..1 + usize::from(tensor.n_rows.is_some())]) {
            Ok(shape) => Ok(SourceTensor { name: tensor.name.clone(), shape, folded: None }),
            Err(source) => Err(Error::Shape { tensor: tensor.name.clone(), source }),
        }
    };
    let hyper = &model.hyperparameters;
    let file_name = model.parts.first().map_or("", |part| part.file.as_str()).to_owned();
    Ok(LegacyHeader {
        container: format!("{}v{}", model.container.name.to_ascii_uppercase(), model.container.version),
        file_name,
        file_type: hyper.file_type,
        n_vocab: hyper.n_vocab,
        n_embd: hyper.n_embd,
        n_head: hyper.n_head,
        n_layer: hyper.n_layer,
        tokens: &model.tokens,
        scores: &model.scores,
        tensors: model.tensors.iter().map(tensor).collect::<Result<_, _>>()?,
    })
}

/// Lists tensors whose type ggml no longer supports.
fn decoded_note(model: &LegacyModel) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for tensor in model.tensors.iter().filter(|tensor| tensor.current_dtype.is_none()) {
        *counts.entry(tensor.blocks.name()).or_default() += 1;
    }
    let counts: Vec<String> = counts.iter().map(|(name, n)| format!("{n} of {name}")).collect();
    (!counts.is_empty()).then(|| {
        format!(
            "tensors in blocks of {}, which no current type can represent exactly: {}; types other than f32 \
                round their values",
            model.container,
            counts.join(", ")
        )
    })
}

impl Input for LegacyInput {
    /// Blocks that ggml still supports keep their type; all others are floats.
    fn tensors(&self, _: &Recipe) -> Vec<TensorFacts<'_>> {
        let tensors = self.layout.tensors.iter().zip(&self.sources);
        tensors
            .map(|(tensor, source)| TensorFacts {
                name: &tensor.name,
                shape: tensor.shape,
                dtype: self.model.tensors[*source].current_dtype.unwrap_or(DType::F32),
            })
            .collect()
    }

    fn sources(&self) -> Vec<Mapped> {
        self.model.parts.iter().filter_map(|part| part.local().cloned()).collect()
    }

    fn file_name(&self, file: &PlannedFile) -> String {
        gguf_layout::default_file_name(&self.layout.metadata, file.recipe.canonical_name())
    }

    fn check_output(&self, path: &Path, force: bool) -> Result<(), Error> {
        let paths: Vec<&Path> = self.model.paths.iter().map(|path| path.as_path()).collect();
        check_output_file(path, &paths, force)
    }

    /// Plans like `llama-quantize`. The recipe that copies keeps supported types and stores the rest in f32.
    fn plan(&self, output: &OutputRequest, request: &Request<'_>) -> Result<Vec<PlannedFile>, Error> {
        let recipe = output.recipe;
        let tensors = self.tensors(recipe);
        let order = reference_order(&tensors.iter().map(|tensor| tensor.name).collect::<Vec<_>>());
        let file_type = if !recipe.copy {
            recipe.file_type.id()
        } else if self.has_decoded() {
            DType::F32.file_type()
        } else {
            self.model.hyperparameters.file_type
        };
        let metadata = quantized_metadata(&self.layout.metadata, file_type, ZeroBytes::Keep);
        let (families, tensors) = (&self.families, &tensors);
        let base = Base { families, metadata, tensors, order, converted: false, sources: Vec::new() };
        files::plan(&base, output, request)
    }

    fn tasks<'a>(&'a self, request: &Request<'_>) -> Result<Vec<TensorTask<'a>>, Error> {
        let task = |(tensor, source): (&'a OutTensor, &usize)| {
            let rows = LegacyRows::new(&self.model, &self.model.tensors[*source]);
            let via = request.via.filter(|_| tensor.float == FloatType::OfFile);
            TensorTask::rounded(tensor.name.clone(), Box::new(rows), via)
        };
        Ok(self.layout.tensors.iter().zip(&self.sources).map(task).collect())
    }
}
