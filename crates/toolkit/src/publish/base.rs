//! Source of a publication: a checkpoint and the file made from it, or an existing GGUF file.

use std::path::{Path, PathBuf};

use gguf_checkpoint::Dtype;
use gguf_conversion::{
    CheckpointInput, Conversion, InputFile, KeyOverride, ModelInput, OutputRequest, PlannedFile, Request,
    recipes::Recipe,
};
use gguf_runtime::chat::literals;
use gguf_tokenizer::keys::CHAT_TEMPLATE;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    context::{Context, Stage},
    digests::{Digests, digests, open},
    options::PublishOptions,
    work::fingerprint,
    write::write,
};
use crate::{
    error::Error,
    events::Events,
    failure::failure,
    hub::{self, HubOptions},
    layout_notes::Notes,
    path_json, text_file,
};
use gguf_types::{DType, words};

/// Metadata that the call states instead of the source.
pub struct Stated {
    model_name: Option<String>,
    chat_template: Option<String>,
}

impl Stated {
    /// Reads the file with the template, if the call names one. Otherwise the template is that of the last run, `earlier`.
    ///
    /// # Errors
    /// A file that cannot be read; options that need another source.
    pub fn of(args: &PublishOptions, earlier: Option<&str>) -> Result<Stated, Error> {
        let file = args.template_file();
        let chat_template = match (file, &args.chat_template) {
            (Some(path), _) => Some(text_file::options(path)?),
            (None, Some(_)) => None,
            (None, None) => earlier.map(str::to_owned),
        };
        if args.has_gguf_source() && (args.model_name.is_some() || chat_template.is_some()) {
            let file = args.src.display();
            let message = words!("[-model-name] and [-chat-template] need a checkpoint as input");
            return Err(Error::usage(message).hint([words!("change the source: run `[gguf-inspect set {} general.name=NAME]` or `[gguf-inspect set {} -chat-template FILE]`", file, file)]));
        }
        // Before anything is written with it.
        if let (Some(path), Some(template)) = (file, &chat_template) {
            literals(template).map_err(|error| Error::at(path, error))?;
        }
        Ok(Stated { model_name: args.model_name.clone(), chat_template })
    }

    /// The template that replaces the one of the source.
    pub fn chat_template(&self) -> Option<&str> {
        self.chat_template.as_deref()
    }

    /// Options for resolving a checkpoint.
    pub fn layout(&self) -> gguf_layout::Options {
        gguf_layout::Options::new(gguf_models::FAMILIES).named(self.model_name.clone())
    }

    fn request(&self) -> Result<Request<'static>, Error> {
        let mut request = Request::default();
        if let Some(template) = &self.chat_template {
            request.keys.push(KeyOverride::parse(&format!("{CHAT_TEMPLATE}=str:{template}"))?);
        }
        Ok(request)
    }
}

/// Source of a publication.
pub enum Source {
    /// A checkpoint folder, or a model of the Hub.
    Checkpoint(Box<Checkpoint>),
    /// A GGUF file, which is the base itself.
    Gguf(PathBuf),
}

/// A checkpoint that is open.
pub struct Checkpoint {
    pub hub: hub::Input,
    pub input: CheckpointInput,
    /// Projector of a vision or audio model, which is a separate file.
    pub projector: Option<CheckpointInput>,
}

impl Source {
    /// Opens the input.
    ///
    /// # Errors
    /// Invalid contents.
    pub fn open(
        args: &PublishOptions,
        stated: &Stated,
        hub_options: &HubOptions,
        events: &dyn Events,
    ) -> Result<Source, Error> {
        let src = args.src.as_path();
        if args.has_gguf_source() {
            return Ok(Source::Gguf(src.to_owned()));
        }
        let wanted = hub::Wanted { weights: true, keep: false, out: Some(&args.dir) };
        let hub = hub::input(src, wanted, hub_options, events)?;
        let options = stated.layout();
        let failed = |error| failure(src, error);
        let input = CheckpointInput::open(hub.folder.clone(), &options).map_err(failed)?;
        let projector = match CheckpointInput::open_projector(hub.folder.clone(), &options) {
            Ok(projector) => Some(projector),
            Err(gguf_conversion::Error::Arch(error)) if has_no_projector(&error) => None,
            Err(error) => return Err(failed(error)),
        };
        Notes::of(&[], &[input.layout()]).tell(events);
        Ok(Source::Checkpoint(Box::new(Checkpoint { hub, input, projector })))
    }

    /// Type of the base that is made: that of the call, or the one that preserves the checkpoint.
    pub fn base_type(&self, args: &PublishOptions) -> Result<Option<&'static Recipe>, Error> {
        match (self, args.base_type) {
            (Source::Gguf(_), _) => Ok(None),
            (Source::Checkpoint(_), Some(recipe)) => Ok(Some(recipe)),
            (Source::Checkpoint(checkpoint), None) => {
                Recipe::from_name(as_stored(&checkpoint.input)).map(Some).map_err(Error::new)
            }
        }
    }

    /// Metadata in the head of its model card, if it has one.
    pub fn card(&self) -> Option<&Value> {
        match self {
            Source::Checkpoint(checkpoint) => checkpoint.input.checkpoint().card.as_ref(),
            Source::Gguf(_) => None,
        }
    }

    /// The state of the repository that it comes from.
    pub fn commit(&self) -> Option<String> {
        match self {
            Source::Checkpoint(checkpoint) => checkpoint.hub.commit.clone(),
            Source::Gguf(_) => None,
        }
    }

    /// State that its bytes depend on.
    pub fn state(&self, src: &Path) -> Result<Value, Error> {
        match self {
            Source::Checkpoint(checkpoint) => state_of(src, &checkpoint.hub),
            Source::Gguf(path) => state_of_files(src, path),
        }
    }
}

/// State that the bytes of a checkpoint depend on: files with sizes and times or, for the Hub, the commit and
/// the cached files.
pub fn state_of(src: &Path, hub: &hub::Input) -> Result<Value, Error> {
    match &hub.commit {
        Some(commit) if hub.is_remote() => Ok(json!([src.to_string_lossy(), commit])),
        Some(commit) => Ok(json!([commit, state_of_files(src, hub.folder.path())?])),
        None => state_of_files(src, hub.folder.path()),
    }
}

fn state_of_files(src: &Path, path: &Path) -> Result<Value, Error> {
    let files = InputFile::all_of(path).map_err(|error| Error::cannot_open(src, error))?;
    let of = |file: &InputFile| json!([file.name, file.n_bytes, file.modified, file.tag]);
    Ok(files.iter().map(of).collect())
}

/// True if the error means that the class is text-only.
fn has_no_projector(error: &gguf_layout::ArchError) -> bool {
    matches!(
        error,
        gguf_layout::ArchError::NoProjector { .. } | gguf_layout::ArchError::EmptyProjector { .. }
    )
}

/// The type that preserves a checkpoint: that of most of its weights, if they are floats.
pub fn as_stored(input: &CheckpointInput) -> &'static str {
    let (mut f32s, mut f16s, mut others) = (0u64, 0u64, 0u64);
    for tensor in input.checkpoint().tensors.iter() {
        let n = tensor.end - tensor.begin;
        match (tensor.dtype, &tensor.stored) {
            (Dtype::F32, None) => f32s += n / 4,
            (Dtype::F16, None) => f16s += n / 2,
            _ => others += n / 2,
        }
    }
    match f32s.max(f16s).max(others) {
        most if most == others => "bf16",
        most if most == f16s => "f16",
        _ => "f32",
    }
}

/// The base: its path, and digests of its contents.
pub struct Base {
    pub path: PathBuf,
    pub recipe: Option<&'static Recipe>,
    pub digests: Digests,
    /// State of the source and of everything else that the bytes depend on.
    pub state: String,
}

impl Base {
    /// True if the base is also the file of this type.
    pub fn is_of_type(&self, recipe: &Recipe) -> bool {
        self.recipe.is_some_and(|own| own.name == recipe.name)
    }
}

/// The first file of a stage.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct First(#[serde(with = "path_json::one")] PathBuf);

/// Makes the base, unless it is valid. It is of the type of [`Source::base_type`]; `is_published` is true if that is one of the requested ones.
///
/// # Errors
/// A source that cannot be read, an output that cannot be written, an interruption.
pub fn make(
    source: &Source,
    stated: &Stated,
    recipe: Option<&'static Recipe>,
    is_published: bool,
    context: &mut Context<'_>,
) -> Result<Base, Error> {
    let src = context.args.src.as_path();
    let state = source.state(src)?;
    let (checkpoint, recipe) = match (source, recipe) {
        (Source::Checkpoint(checkpoint), Some(recipe)) => (checkpoint, recipe),
        _ => {
            let state = fingerprint(&json!(["base", state]));
            let digests = digests(&state, src, context)?;
            return Ok(Base { path: src.to_owned(), recipe: None, digests, state });
        }
    };
    let unpublished = context.work.folder().to_owned();
    let folder = if is_published { context.out() } else { &unpublished };
    let state = fingerprint(&json!([
        "base",
        context.program,
        state,
        recipe.name,
        path_json::to_json(folder),
        stated.model_name,
        stated.chat_template
    ]));
    // A former base that is published stays.
    let stage = Stage { name: "base", key: &state, folder: Some(&unpublished) };
    let First(path) = context.make(&stage, |context| {
        context.events.status(format!("base: {}", recipe.canonical_name()));
        // The layout is resolved again, because a conversion consumes its input.
        let input = CheckpointInput::open(checkpoint.hub.folder.clone(), &stated.layout())
            .map_err(|error| failure(src, error))?;
        let outputs = [OutputRequest::by_rules(recipe)];
        let conversion = Conversion::new(input).outputs(outputs).request(stated.request()?);
        let written = write(&conversion, src, folder, &state, context)?;
        let files: Vec<PathBuf> = written.into_iter().map(|file| file.path).collect();
        let first = First(files.first().cloned().unwrap_or_default());
        Ok((files, first))
    })?;
    let digests = digests(&state, &path, context)?;
    Ok(Base { path, recipe: Some(recipe), digests, state })
}

/// Bytes of the tensors of each type, without writing files.
pub fn sizes(base: &Base, types: &[&'static Recipe], request: &Request<'_>) -> Result<Vec<u64>, Error> {
    planned(base, types, request, |file| file.plan.tensor_bytes())
}

/// A fact about the file of each type, without writing files.
pub fn planned<T>(
    base: &Base,
    types: &[&'static Recipe],
    request: &Request<'_>,
    fact: impl Fn(&PlannedFile) -> T,
) -> Result<Vec<T>, Error> {
    if types.is_empty() {
        return Ok(Vec::new());
    }
    let input = ModelInput::new(gguf_models::FAMILIES, open(&base.path)?);
    let outputs = types.iter().copied().map(OutputRequest::by_rules);
    let conversion = Conversion::new(input).outputs(outputs).request(request.clone());
    let planned = conversion.plan().map_err(|error| failure(&base.path, error))?;
    Ok(planned.files().iter().map(fact).collect())
}

/// Checks that a base can be quantized to these types. With `chooses_types`, a calibration may choose others.
///
/// # Errors
/// A base that is quantized already, even to one of these types: it is not a base to measure losses against.
pub fn check_types(base: &Base, types: &[&'static Recipe], chooses_types: bool) -> Result<(), Error> {
    let input = ModelInput::new(gguf_models::FAMILIES, open(&base.path)?);
    let outputs = types.iter().copied().map(OutputRequest::by_rules);
    let conversion = Conversion::new(input).outputs(outputs);
    let planned = conversion.plan().map_err(|error| failure(&base.path, error))?;
    let again = match planned.check_types() {
        Err(gguf_conversion::Error::Requantize { tensor, from, .. }) => Some((tensor, from)),
        checked => checked.map(|()| None).map_err(|error| failure(&base.path, error))?,
    };
    let model = planned.input().model();
    // Models are trained in these formats. The base of a checkpoint has the blocks that the checkpoint stores.
    let is_original = |dtype| base.recipe.is_some() || matches!(dtype, DType::MXFP4 | DType::NVFP4);
    let is_refused = |dtype: DType| dtype.is_quantized() && (chooses_types || !is_original(dtype));
    let mut quantized = model.tensors().filter(|(_, info)| is_refused(info.dtype));
    let again = again.or_else(|| quantized.next().map(|(_, info)| (info.name.clone(), info.dtype)));
    again.map_or(Ok(()), |(tensor, dtype)| {
        let message =
            format!("tensor `{tensor}` is already quantized ({dtype}); files are made from original weights");
        Err(Error::at(&base.path, message)
            .hint(["publish the checkpoint, or a file of type BF16, F16 or F32"]))
    })
}
