//! Errors of running a file.

use tensor::{DType, Shape, list_names};

use crate::tokenize;

/// Why a file cannot be run, or not on this input.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The container is wrong.
    #[error(transparent)]
    Gguf(#[from] gguf::Error),
    /// The tokenizer keys are wrong, or a text cannot be tokenized.
    #[error(transparent)]
    Tokenize(#[from] tokenize::Error),
    /// A metadata key that the graph needs is absent, or holds what it cannot take.
    #[error(transparent)]
    Key(#[from] gguf::KeyError),
    /// Nothing here runs this architecture.
    #[error("architecture `{name}`: there is no graph for it")]
    UnknownArchitecture {
        /// The value of `general.architecture`.
        name: String,
    },
    /// A tensor that the graph needs is absent.
    #[error("tensor `{name}` is absent")]
    MissingTensor {
        /// Its name.
        name: String,
    },
    /// A tensor has another shape than the graph needs.
    #[error("tensor `{name}` has the shape {found}, not {expected}")]
    TensorShape {
        /// Its name.
        name: String,
        /// The shape that the metadata call for, row length first.
        expected: String,
        /// Its shape.
        found: Shape,
    },
    /// A tensor whose type no kernel decodes.
    #[error("tensor `{name}` is of type {dtype}, which cannot be decoded")]
    TensorType {
        /// Its name.
        name: String,
        /// Its type.
        dtype: DType,
    },
    /// Tensors that the graph has no place for: a result without them would be wrong.
    #[error("tensors {} have no place in the graph of `{architecture}`", list_names(.names))]
    UnusedTensors {
        /// The architecture.
        architecture: String,
        /// Their names.
        names: Vec<String>,
    },
    /// Keys and values cannot be kept in a type, or there are more than can be counted.
    #[error("keys and values: {0}")]
    KeyValues(tensor::ShapeError),
    /// A file that holds only the layers that predict further tokens; the model that they belong to is another file.
    #[error(
        "the file has the {layers} last layers alone, which predict further tokens, and not those before them"
    )]
    PredictionAlone {
        /// Number of layers.
        layers: usize,
    },
    /// A token that is not in the vocabulary.
    #[error("token id {id} is beyond the vocabulary of {n_vocab} tokens")]
    TokenRange {
        /// The id.
        id: u32,
        /// Number of rows of the embedding.
        n_vocab: usize,
    },
    /// Wanted positions that a window does not have.
    #[error("positions {start} to {end} are wanted of a window of {len} tokens")]
    OutputRange {
        /// First position wanted.
        start: usize,
        /// End of the requested positions.
        end: usize,
        /// Tokens of the window.
        len: usize,
    },
    /// More positions than the model has.
    #[error("{found} positions, and the model has {limit} learned ones")]
    TooLong {
        /// Positions asked for.
        found: usize,
        /// Positions that there are.
        limit: usize,
    },
    /// Predictions are wanted of a model that predicts no tokens.
    #[error("architecture `{architecture}` predicts no tokens")]
    NoLogits {
        /// The architecture.
        architecture: String,
    },
    /// The backward pass does not support the graph.
    #[error("architecture `{architecture}`: no backward pass for {part}")]
    NoBackwardPass {
        /// The architecture.
        architecture: String,
        /// The unsupported part.
        part: &'static str,
    },
    /// The next token of a text is wanted of a model that fills gaps or answers prompts.
    #[error("architecture `{architecture}` does not predict the next token of a text")]
    NoNextToken {
        /// The architecture.
        architecture: String,
    },
    /// A model that writes down speech was given no features of a sound.
    #[error("architecture `{architecture}` predicts tokens of sound, and there is none")]
    NoFeatures {
        /// The architecture.
        architecture: String,
    },
    /// Features were given to a model that reads text alone.
    #[error("architecture `{architecture}` takes no sound")]
    NoAudioInput {
        /// The architecture.
        architecture: String,
    },
    /// Features in another shape than the model takes.
    #[error("{n_values} features as {found:?}, expected {expected:?} (bands, frames)")]
    FeatureShape {
        /// Bands and frames that the model takes.
        expected: (usize, usize),
        /// Bands and frames given.
        found: (usize, usize),
        /// Numbers given.
        n_values: usize,
    },
    /// Bytes that are of no kind of picture that is read.
    #[error("it is neither a PNG nor a JPEG picture")]
    NotAPicture,
    /// A picture that cannot be read.
    #[error("{format} picture: {problem}")]
    BrokenPicture {
        /// Its format.
        format: &'static str,
        /// The problem.
        problem: String,
    },
    /// A picture without pixels, or with too many.
    #[error(
        "a picture of {width} x {height} pixels; at most {max_side} to a side and {max_pixels} in all are read"
    )]
    PictureSize {
        /// Pixels of a row.
        width: usize,
        /// Rows.
        height: usize,
        /// The most pixels of a side.
        max_side: usize,
        /// The most pixels in all.
        max_pixels: usize,
    },
    /// A picture that is too long for its width.
    #[error("a picture of {width} x {height} pixels; no side may be {max_ratio} times as long as the other")]
    PictureShape {
        /// Pixels of a row.
        width: usize,
        /// Rows.
        height: usize,
        /// Maximum aspect ratio.
        max_ratio: usize,
    },
    /// A file that is given as a projector but is not one.
    #[error("architecture `{architecture}` is not a projector: expected `clip`")]
    NoProjector {
        /// The architecture.
        architecture: String,
    },
    /// A projector that has no tower for pictures.
    #[error("the projector has no tower for pictures (`clip.has_vision_encoder`)")]
    NoVisionTower,
    /// Nothing here runs this projector.
    #[error("projector `{name}`: there is no tower for it")]
    UnknownProjector {
        /// Its type.
        name: String,
    },
    /// A projector of another text model.
    #[error("the projector makes embeddings of {found} numbers, and those of the model have {expected}")]
    ProjectorWidth {
        /// The length of its embeddings.
        found: usize,
        /// The length of the model's.
        expected: usize,
    },
    /// A picture is given to a model that takes tokens alone.
    #[error("architecture `{architecture}` takes no pictures")]
    NoPictureInput {
        /// The architecture.
        architecture: String,
    },
    /// Vectors of texts are wanted, and nothing says how rows become one.
    #[error("`{key}` is absent")]
    NoPooling {
        /// The key.
        key: String,
    },
    /// Vectors of texts are wanted of a model that answers them.
    #[error("architecture `{architecture}` is an encoder-decoder and makes no vectors of texts")]
    NoVectors {
        /// The architecture.
        architecture: String,
    },
    /// Scores are wanted of a file without a classifier.
    #[error("tensors `cls.weight` and `cls.output.weight` are absent")]
    NoClassifier,
    /// Fewer tokens than a measurement needs.
    #[error("the text has {found} tokens, and {needed} are needed")]
    TooShort {
        /// Tokens of the text.
        found: usize,
        /// Tokens needed.
        needed: usize,
    },
    /// Predictions of two models that know different tokens.
    #[error("one model predicts {expected} tokens and the other {found}")]
    VocabDiffers {
        /// Tokens of the base.
        expected: usize,
        /// Tokens of the other.
        found: usize,
    },
    /// A setting that is out of its range.
    #[error("{field} is {found}, expected {expected}")]
    OutOfRange {
        /// Name of the value.
        field: &'static str,
        /// Its value.
        found: String,
        /// The range.
        expected: String,
    },
    /// An error of one of the models that are compared with the first.
    #[error("{error}")]
    OfOther {
        /// Index among these models, from 0.
        index: usize,
        /// The error.
        error: Box<Error>,
    },
    /// A prediction, a vector or a score that is no finite number.
    #[error("{place}: the result is no finite number{}", cause(.weight))]
    NotFiniteResult {
        /// Position, counted from 1.
        place: String,
        /// The first weight of the file that is no finite number: its tensor and its index in that. None where all
        /// weights are finite.
        weight: Option<(String, u64)>,
    },
    /// A file of saved predictions that does not hold together.
    #[error("{field} is {found}, expected {expected}")]
    LogitsFile {
        /// The problem.
        field: &'static str,
        /// Expected value.
        expected: String,
        /// Value found.
        found: String,
    },
    /// A task that cannot be read or answered.
    #[error("task {task}: {problem}")]
    Task {
        /// Task, from 0.
        task: usize,
        /// The problem.
        problem: &'static str,
    },
    /// The sum over a matrix's inputs is not finite.
    #[error("tensor `{tensor}`: the squares of what goes into column {index} add up to no finite number")]
    NotFinite {
        /// The tensor.
        tensor: String,
        /// Column, from 0, over all experts.
        index: usize,
    },
    /// Sums of a part of a text that cannot be read or added.
    #[error("the sums of a part do not hold together: {problem}")]
    ImportancePart {
        /// The problem.
        problem: &'static str,
    },
    /// A page that cannot be filled in: a mistake of this program.
    #[error("the template of the page: {problem}")]
    Template {
        /// Error of the template engine.
        problem: String,
    },
    /// Threads cannot be started.
    #[error("cannot start {threads} threads: {problem}")]
    Threads {
        /// Requested number.
        threads: usize,
        /// The system's error.
        problem: String,
    },
}

/// Cause of a non-finite result: the file's weights, or the computation.
fn cause(weight: &Option<(String, u64)>) -> String {
    match weight {
        Some((tensor, index)) => format!("; element {index} of tensor `{tensor}` is not finite either"),
        None => "; all weights are finite, so a metadata key is wrong or f32 overflows".to_owned(),
    }
}

impl Error {
    /// Advice that holds for every program, if anything is known to help.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Error::UnusedTensors { .. } => {
                "was the file made by a newer converter, or is its architecture named wrongly?"
            }
            Error::PredictionAlone { .. } => {
                "run the file of the whole model: these layers only work with it"
            }
            Error::TooShort { .. } => "take a longer text or a smaller context",
            Error::TooLong { .. } => "split the text, or take a smaller context",
            Error::ProjectorWidth { .. } => "is the projector that of this text model?",
            Error::NotAPicture => "convert it to PNG or JPEG",
            Error::NoFeatures { .. } => "give the session a spectrogram first (`Model::encode_audio`)",
            Error::FeatureShape { .. } => {
                "pad the sound, or cut it, to the length that the model was trained on"
            }
            _ => return None,
        })
    }
}
