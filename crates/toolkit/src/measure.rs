//! Measures how well files predict a text.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use gguf_runtime::{
    Activations, Model, Options,
    chunks::{Chunk, Settings, groups, text_chunks},
    compare::{Base, run},
    perplexity::{Perplexity, predict},
    stats::Comparison,
};

use crate::error::{Cause, Error};

/// Options of a measurement.
#[derive(Clone)]
pub struct Measuring<'a> {
    /// Tokens in a chunk, at least 4.
    pub context: usize,
    /// Maximum number of chunks; `None` measures the whole text.
    pub chunks: Option<usize>,
    /// Number of threads; `None` for one per core.
    pub threads: Option<usize>,
    /// Precision of the activations in matrix products.
    pub activations: Activations,
    /// Called with the number of finished chunks and of all chunks.
    pub progress: Option<&'a (dyn Fn(usize, usize) + Sync)>,
    /// Stops the measurement when it becomes true.
    pub cancel: Option<&'a AtomicBool>,
}

impl Default for Measuring<'_> {
    fn default() -> Self {
        let context = Settings::default().context;
        let activations = Activations::default();
        Measuring { context, chunks: None, threads: None, activations, progress: None, cancel: None }
    }
}

impl Measuring<'_> {
    fn open(&self, path: &Path) -> Result<Model, Error> {
        let options = Options { threads: self.threads, activations: self.activations };
        Model::open(path, &options).map_err(|error| Error::at(path, error))
    }

    fn chunks(&self, path: &Path, model: &Model, text: &[u8]) -> Result<Vec<Chunk>, Error> {
        let failed = |error: gguf_runtime::Error| Error::at(path, error);
        let tokens = model.tokenizer().encode(text, true, false);
        let settings = Settings { context: self.context, n_chunks: self.chunks, stride: None };
        text_chunks(model, &tokens.map_err(|error| failed(error.into()))?, &settings).map_err(failed)
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed))
    }

    fn report(&self, done: usize, total: usize) {
        if let Some(progress) = self.progress {
            progress(done, total);
        }
    }
}

/// The perplexity of a text (bytes, which need not be UTF-8) by the file at `path`, by the reference's definition.
///
/// # Errors
/// [`Cause::Evaluation`] for a file that cannot be run, and for a text of fewer than two chunks; [`Cause::Interrupted`].
///
/// # Examples
/// A test that a quantized file is nearly as good as the original:
/// ```no_run
/// use gguf_toolkit::{Measuring, perplexity};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let text = std::fs::read_to_string("wiki.test.raw")?;
/// let how = Measuring { chunks: Some(20), ..Measuring::default() };
/// let exact = perplexity("model-bf16.gguf", &text, &how)?.value();
/// let small = perplexity("model-q4_k_m.gguf", &text, &how)?.value();
/// assert!(small / exact < 1.05);
/// # Ok(())
/// # }
/// ```
pub fn perplexity(
    path: impl AsRef<Path>,
    text: impl AsRef<[u8]>,
    measuring: &Measuring<'_>,
) -> Result<Perplexity, Error> {
    let path = path.as_ref();
    let model = measuring.open(path)?;
    let chunks = measuring.chunks(path, &model, text.as_ref())?;
    let mut perplexity = Perplexity::default();
    // The groups that one run has, so that stopping between them changes no figure.
    for range in groups(&[&model], &chunks) {
        if measuring.is_cancelled() {
            return Err(Cause::Interrupted.into());
        }
        let found = &mut |target: &gguf_runtime::chunks::Target, log_probability| {
            perplexity.add(log_probability);
            if target.is_last {
                perplexity.n_chunks += 1;
                measuring.report(perplexity.n_chunks, chunks.len());
            }
        };
        predict(&model, &chunks, range, found).map_err(|error| Error::at(path, error))?;
    }
    Ok(perplexity)
}

/// The number of most likely tokens that are compared as sets.
const TOP_K: usize = 10;

/// Compares what two files predict of a text: how far `other` is from `base`.
///
/// # Errors
/// As [`perplexity`]; [`Cause::Evaluation`] for vocabularies of different sizes.
pub fn compare(
    base: impl AsRef<Path>,
    other: impl AsRef<Path>,
    text: impl AsRef<[u8]>,
    measuring: &Measuring<'_>,
) -> Result<Comparison, Error> {
    let (base_path, other_path) = (base.as_ref(), other.as_ref());
    let (base, other) = (measuring.open(base_path)?, measuring.open(other_path)?);
    let chunks = measuring.chunks(base_path, &base, text.as_ref())?;
    let watch = &mut |done: usize, _: &[Vec<gguf_runtime::stats::Position>]| {
        measuring.report(done, chunks.len());
        !measuring.is_cancelled()
    };
    let (all, models) = (0..chunks.len(), [other]);
    let found = run(&Base::Model(&base), &models, (&chunks, all), TOP_K, None, watch);
    let found = found.map_err(|error| Error::at(other_path, error))?;
    if measuring.is_cancelled() {
        return Err(Cause::Interrupted.into());
    }
    Ok(Comparison::of(found.first().map_or(&[], Vec::as_slice), TOP_K))
}
