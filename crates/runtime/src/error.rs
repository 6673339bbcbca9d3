//! Errors of running a file.

use std::path::PathBuf;

use gguf_types::{DType, Fields as _, Problem, Shape, Words, list_names, words};

/// Why a file cannot be run, or not on this input.
#[derive(Debug, thiserror::Error, gguf_types::Fields)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum Error {
    /// The container is wrong.
    #[error(transparent)]
    Gguf(#[from] gguf_container::Error),
    /// The tokenizer keys are wrong, or a text cannot be tokenized.
    #[error(transparent)]
    Tokenize(#[from] gguf_tokenizer::Error),
    /// A metadata key that the graph needs is absent, or contains what it cannot take.
    #[error(transparent)]
    Key(#[from] gguf_container::KeyError),
    /// A LoRA adapter that cannot be used with the model.
    #[error("adapter `{}`: {error}", path.display())]
    Adapter {
        path: PathBuf,
        /// The problem.
        #[source]
        error: gguf_container::Error,
    },
    /// Nothing here runs this architecture.
    #[error("architecture `{name}` cannot be run: not supported")]
    #[fact(key = "general.architecture", found = name)]
    UnknownArchitecture { name: String },
    /// A tensor that the graph needs is absent.
    #[error("missing tensor `{name}`")]
    #[fact(tensor = name)]
    MissingTensor { name: String },
    /// A tensor has another shape than the graph needs.
    #[error("tensor `{name}`: expected shape {expected}, found {found}")]
    #[fact(tensor = name)]
    TensorShape {
        name: String,
        /// The shape that the metadata call for, row length first.
        expected: String,
        found: Shape,
    },
    /// A tensor whose type no kernel decodes.
    #[error("tensor `{name}`: type {dtype} cannot be decoded")]
    #[fact(tensor = name, found = dtype)]
    TensorType { name: String, dtype: DType },
    /// Tensors that the graph has no place for: a result without them would be wrong.
    #[error("tensors not used by architecture `{architecture}`: {}", list_names(.names))]
    #[fact(tensor = names)]
    UnusedTensors { architecture: String, names: Vec<String> },
    /// Keys and values cannot be kept in a type, or there are more than can be counted.
    #[error("KV cache: {0}")]
    KeyValues(gguf_types::ShapeError),
    /// A file that contains only the layers that predict further tokens; the model that they belong to is another file.
    #[error(
        "the file has only the {layers} layers for multi-token prediction and not the layers before them"
    )]
    PredictionAlone { layers: usize },
    /// A draft model that reads states of its target was opened without it.
    #[error("architecture `{architecture}` is a draft model: it runs only with its target")]
    #[fact(key = "general.architecture", found = architecture)]
    DraftAlone { architecture: String },
    /// A draft model whose tokens differ from those of its target.
    #[error("token {id} differs between the draft model and the target")]
    DraftVocabulary {
        /// The first token that differs.
        id: u32,
    },
    /// A draft model that was made for a target with another embedding length.
    #[error("the draft model needs a target with an embedding length of {expected}, found {found}")]
    DraftWidth {
        /// The width that the draft reads.
        expected: usize,
        /// The width of the target.
        found: usize,
    },
    /// A draft model reads the input of a layer that the target cannot provide.
    #[error("architecture `{architecture}` has no single input of layer {layer} for a draft model")]
    NoLayerStates {
        /// The architecture of the target.
        architecture: String,
        layer: usize,
    },
    /// A token that is not in the vocabulary.
    #[error("token id {id} is out of range for a vocabulary of {n_vocab} tokens")]
    TokenRange {
        id: u32,
        /// Number of rows of the embedding.
        n_vocab: usize,
    },
    /// A list of experts with one that the model does not have.
    #[error("tensor `{name}`: expected experts from 0 to {}", n - 1)]
    ExpertRange { name: String, n: usize },
    /// Wanted positions that a window does not have.
    #[error("positions {start} to {end} are out of range for a chunk of {len} tokens")]
    OutputRange {
        start: usize,
        /// End of the requested positions.
        end: usize,
        len: usize,
    },
    /// More positions than the model has.
    #[error("expected at most {limit} positions (learned by the model), found {found}")]
    #[fact(expected = limit)]
    TooLong { found: usize, limit: usize },
    /// Predictions are wanted of a model that predicts no tokens.
    #[error("architecture `{architecture}` does not predict tokens")]
    NoLogits { architecture: String },
    /// The backward pass does not support the graph.
    #[error("architecture `{architecture}`: no backward pass for {part}")]
    NoBackwardPass { architecture: String, part: &'static str },
    /// The next token of a text is wanted of a model that fills gaps or answers prompts.
    #[error("architecture `{architecture}` does not predict the next token of a text")]
    NoNextToken { architecture: String },
    /// A model that writes down speech was given no features of a sound.
    #[error("architecture `{architecture}` needs audio input")]
    NoFeatures { architecture: String },
    /// Features were given to a model that reads only text.
    #[error("architecture `{architecture}` does not accept audio")]
    NoAudioInput { architecture: String },
    /// Features in another shape than the model takes.
    #[error(
        "audio features: expected shape {expected:?} (bands, frames), found {found:?} with {n_values} values"
    )]
    #[fact(expected = format_args!("{expected:?}"), found = format_args!("{found:?}"))]
    FeatureShape {
        /// Bands and frames that the model takes.
        expected: (usize, usize),
        found: (usize, usize),
        n_values: usize,
    },
    /// Bytes that are of no kind of picture that is read.
    #[error("not a PNG or JPEG image")]
    NotAPicture,
    /// A picture that cannot be read.
    #[error("{format} image: {problem}")]
    BrokenPicture { format: &'static str, problem: String },
    /// A picture without pixels, or with too many.
    #[error(
        "image of {width} x {height} pixels; at most {max_side} per side and {max_pixels} in total are supported"
    )]
    PictureSize {
        width: usize,
        height: usize,
        /// The most pixels of a side.
        max_side: usize,
        /// The most pixels in all.
        max_pixels: usize,
    },
    /// A picture that is too long for its width.
    #[error("image of {width} x {height} pixels; one side must be less than {max_ratio} times the other")]
    PictureShape { width: usize, height: usize, max_ratio: usize },
    /// A file that is not in a supported audio format.
    #[error("not a WAV, FLAC or MP3 file")]
    NotASound,
    /// A sound that cannot be read.
    #[error("{format} file: {problem}")]
    BrokenSound { format: &'static str, problem: String },
    /// A sound that is too long.
    #[error("the sound exceeds {max_seconds} seconds, the limit at its sample rate")]
    SoundLength { max_seconds: usize },
    /// A sound that is too short for one embedding.
    #[error("sound of {milliseconds} ms: too short for an embedding")]
    ShortSound { milliseconds: usize },
    /// A file that is given as a projector but is not one.
    #[error("not a projector: expected architecture `clip`, found `{architecture}`")]
    NoProjector { architecture: String },
    /// A projector that has no tower for pictures.
    #[error("the projector does not have a vision tower (`clip.has_vision_encoder`)")]
    NoVisionTower,
    /// A projector that has no audio encoder.
    #[error("the projector does not have an audio encoder (`clip.has_audio_encoder`)")]
    NoAudioEncoder,
    /// Nothing here runs this projector.
    #[error("projector `{name}` cannot be run: not supported")]
    UnknownProjector { name: String },
    /// A projector of another text model.
    #[error("the projector returns embeddings of {found} values, but the model expects {expected}")]
    ProjectorWidth {
        /// The length of its embeddings.
        found: usize,
        /// The length of the model's.
        expected: usize,
    },
    /// A picture or a sound is given to a model that accepts only tokens.
    #[error("architecture `{architecture}` does not accept images or audio")]
    NoPictureInput { architecture: String },
    /// The model has no pooling method, so it cannot embed texts.
    #[error("missing metadata key `{key}`")]
    NoPooling { key: String },
    /// Vectors of texts are wanted of a model that answers them.
    #[error("architecture `{architecture}` is an encoder-decoder and cannot compute text embeddings")]
    NoVectors { architecture: String },
    /// Scores are wanted of a file without a classifier.
    #[error("missing tensors `cls.weight` and `cls.output.weight`")]
    NoClassifier,
    /// Fewer tokens than a measurement needs.
    #[error("the text is too short: expected at least {needed} tokens, found {found}")]
    #[fact(expected = needed)]
    TooShort { found: usize, needed: usize },
    /// Predictions of two models that know different tokens.
    #[error("the models have different vocabularies: {expected} and {found} tokens")]
    VocabDiffers { expected: usize, found: usize },
    /// A setting that is out of its range.
    #[error("{field}: expected {expected}, found {found}")]
    OutOfRange { field: &'static str, found: String, expected: String },
    /// An error of one of the models that are compared with the first.
    #[error("{error}")]
    OfOther {
        /// Index among these models, from 0.
        index: usize,
        error: Box<Error>,
    },
    /// A prediction, a vector or a score that is no finite number.
    #[error("{place}: the result is not finite{}", cause(.weight))]
    #[fact(tensor = weight.as_ref().map(|(tensor, _)| tensor.clone()), expected = "a finite number")]
    NotFiniteResult {
        place: String,
        /// The first weight of the file that is no finite number: its tensor and its index in that. None where all
        /// weights are finite.
        weight: Option<(String, u64)>,
    },
    /// An inconsistent file of saved predictions.
    #[error("{field}: expected {expected}, found {found}")]
    LogitsFile { field: &'static str, expected: String, found: String },
    /// A task that cannot be read or answered.
    #[error("task {task}: {problem}")]
    Task { task: usize, problem: &'static str },
    /// The sum over a matrix's inputs is not finite.
    #[error("tensor `{tensor}`: the sum of squared inputs of column {index} is not finite")]
    #[fact(expected = "a finite number")]
    NotFinite {
        tensor: String,
        /// Column, from 0, over all experts.
        index: usize,
    },
    /// Sums of a part of a text that cannot be read or added.
    #[error("the sums of a part are inconsistent: {problem}")]
    ImportancePart { problem: &'static str },
    /// A page that cannot be filled in: a mistake of this program.
    #[error("page template: {problem}")]
    Template {
        /// Error of the template engine.
        problem: String,
    },
    /// Threads cannot be started.
    #[error("cannot start {threads} threads: {problem}")]
    Threads { threads: usize, problem: String },
}

/// Cause of a non-finite result: the file's weights, or the computation.
fn cause(weight: &Option<(String, u64)>) -> String {
    match weight {
        Some((tensor, index)) => format!("; element {index} of tensor `{tensor}` is not finite either"),
        None => "; all weights are finite, so a metadata key is wrong or f32 overflows".to_owned(),
    }
}

impl Problem for Error {
    fn hint(&self) -> Option<Words> {
        Some(match self {
            Error::UnusedTensors { .. } => {
                "the file may come from a newer converter or have the wrong `general.architecture`".into()
            }
            Error::PredictionAlone { .. } => "use the file of the whole model".into(),
            Error::TooShort { .. } => "use a longer text".into(),
            Error::TooLong { .. } => "split the text into shorter parts".into(),
            Error::ProjectorWidth { .. } => "use the projector of this model".into(),
            Error::NotAPicture => "convert the image to PNG or JPEG".into(),
            Error::NotASound => "convert the sound to WAV, FLAC or MP3".into(),
            Error::UnknownArchitecture { name } if name == "clip" => words!(
                "the file is a projector: use `[gguf-eval generate MODEL -mmproj THIS]` with [-image] or [-audio]"
            ),
            Error::DraftAlone { .. } => {
                words!("use `[gguf-eval draft TARGET DRAFT -text FILE]`")
            }
            Error::NoProjector { .. } => {
                words!("write a projector with `[gguf-convert mmproj FOLDER]`")
            }
            Error::UnknownProjector { .. } => {
                "docs/reference/projectors.md lists the supported projectors".into()
            }
            Error::NoLogits { .. } => words!("use `[gguf-eval embed]` for encoders"),
            Error::NoNextToken { .. } => words!(
                "use `[gguf-eval generate]` for models that answer prompts, `[gguf-eval embed]` for encoders"
            ),
            Error::NoFeatures { .. } => "use the library `gguf-runtime`, which accepts spectrograms".into(),
            Error::NoVectors { .. } => words!("use `[gguf-eval generate]` to generate text"),
            Error::NoPooling { .. } => {
                words!("set [-pooling] to mean, cls or last, or to none for one vector per token")
            }
            Error::FeatureShape { .. } => {
                "pad or cut the audio to the length that the model was trained on".into()
            }
            _ => return self.inner()?.hint(),
        })
    }
    fn names_its_file(&self) -> bool {
        matches!(self, Error::Gguf(error) if error.names_its_file())
    }
}
