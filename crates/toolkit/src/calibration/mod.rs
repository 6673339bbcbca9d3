//! Calibration: second moments of texts, rounding with error feedback, and the gain.

mod budget;
mod gained;
mod gathered;
mod names;
mod outputs;
mod probed;
mod sensitivity;
mod texts;
pub(crate) mod trained;
mod types;
pub(crate) mod types_by_weights;
mod verify;

use std::{
    collections::BTreeMap,
    error::Error as StdError,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use gguf_conversion::{EncodedRows, RowEncoder, imatrix::Imatrix, recipes::Recipe};
use gguf_quant::Level;
use gguf_refinement::{Refiner, Steps, StockRows, moments::Texts};
use gguf_runtime::{Model, Options, chunks::Chunk};
use gguf_types::{DType, hex, words};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use self::{
    gathered::Gathered,
    names::{DIGITS, calibration_key, method},
    texts::windows,
    types::{Bench, ChosenTypes},
};
use crate::{
    calibration_text::is_word,
    error::Error,
    eval_model,
    events::Events,
    input_kind::{self, Wanted},
    settings::{Additions, Settings},
    text_file,
    threads::useful_threads,
    unexecuted,
};

pub use self::{
    budget::{Budget, BudgetOptions},
    gained::Gained,
    gathered::Folder,
    types::NamedInput,
};

/// Options of a calibration.
///
/// [`BUILT_IN`](crate::calibration_text::BUILT_IN) stands for the built-in text, and [`SAMPLED`](crate::calibration_text::SAMPLED) for samples drawn from the base.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Calibration"))]
#[serde(default, deny_unknown_fields)]
pub struct CalibrationOptions {
    /// Optimize types and rounding on these texts.
    ///
    /// Runs the base model on the texts and chooses types and rounding that minimize the KL divergence from it. The
    /// output file is no larger than without this option. An importance matrix is collected in the same run. Use texts
    /// similar to those that the model will process. `builtin` instead of a file, or no value, is a built-in text with prose in
    /// several languages, code, mathematics and chats. `self` is text drawn from the model itself, which takes longer.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", num_args = 0.., default_missing_value = crate::calibration_text::BUILT_IN, value_hint = clap::ValueHint::FilePath, help_heading = crate::arguments::MAIN))]
    #[serde(with = "crate::path_json::many")]
    pub calibrate: Vec<PathBuf>,
    /// Use N tokens of the calibration texts in total.
    ///
    /// Tokens are taken from each text in turn.
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", default_value_t = CalibrationOptions::default().calibration_tokens, requires = "calibrate", value_parser = clap::value_parser!(u32).range(2048..), hide_short_help = true))]
    pub calibration_tokens: u32,
    /// Keep the collected statistics in DIR and reuse them.
    #[cfg_attr(feature = "clap", arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath, requires = "calibrate", hide_short_help = true))]
    #[serde(with = "crate::path_json::optional")]
    pub statistics: Option<PathBuf>,
    /// Stop after a step of the rounding, to measure what each is worth.
    ///
    /// `descent` chooses levels, `feedback` adds error feedback, `shrinkage` is chosen on held-out tokens, `scales` also searches
    /// scales, and `full`, the default, fits whole blocks as well.
    #[cfg_attr(feature = "clap", arg(long, value_name = "STEPS", requires = "calibrate", value_parser = crate::arguments::steps(), default_value = Steps::default().name(), hide_possible_values = true, hide = true))]
    #[serde(with = "crate::by_name::single")]
    pub rounding: Steps,
    /// Measure the output on these texts.
    ///
    /// Default: the rest of the calibration texts, after the tokens that were used.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, requires = "calibrate", conflicts_with = "no_verify", hide_short_help = true))]
    #[serde(with = "crate::path_json::optional")]
    pub eval_text: Option<PathBuf>,
    /// Do not use statistics of output gradients.
    ///
    /// The rounding takes about half the time, and the KL divergence is usually up to a tenth larger.
    #[cfg_attr(feature = "clap", arg(long, requires = "calibrate", hide_short_help = true))]
    pub inputs_only: bool,
    /// Train the scales of blocks against the base after rounding.
    ///
    /// Gradient descent on the KL divergence over the calibration texts, in several passes; training that does not help
    /// on held-out text is discarded. For one file type and for architectures with a backward pass.
    #[cfg_attr(feature = "clap", arg(long, requires = "calibrate", hide_short_help = true))]
    pub train_scales: bool,
    /// Do not measure the output against the base.
    #[cfg_attr(feature = "clap", arg(long, requires = "calibrate", hide_short_help = true))]
    pub no_verify: bool,
}

impl Default for CalibrationOptions {
    fn default() -> CalibrationOptions {
        CalibrationOptions {
            calibrate: Vec::new(),
            calibration_tokens: 16_384,
            statistics: None,
            rounding: Steps::default(),
            eval_text: None,
            inputs_only: false,
            train_scales: false,
            no_verify: false,
        }
    }
}

impl CalibrationOptions {
    /// True if a text is given.
    pub fn is_wanted(&self) -> bool {
        !self.calibrate.is_empty()
    }

    /// Files that are read.
    pub fn files(&self) -> Vec<&Path> {
        let files = self.calibrate.iter().filter(|text| !is_word(text)).chain(&self.eval_text);
        files.map(PathBuf::as_path).collect()
    }
}

/// Statistics of a base over texts: they decide about blocks and are reported later.
pub struct Calibration {
    args: CalibrationOptions,
    base: PathBuf,
    encoder: Arc<Rounder>,
    imatrix: Arc<Imatrix>,
    name: String,
    /// Chunks for the comparison with the base.
    verify: Vec<Chunk>,
    /// Texts that were read.
    texts: Texts,
    folder: Folder,
    /// Identifies model and texts.
    gathered: String,
    /// The training of scales, if it took place: of one file.
    training: Mutex<Option<trained::Training>>,
    /// The chosen types, if any, and the time that the choice took.
    chosen: Option<(ChosenTypes, Duration)>,
    level: Level,
    gathering: Duration,
    n_threads: usize,
}

impl std::fmt::Debug for Calibration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Calibration")
            .field("args", &self.args)
            .field("base", &self.base)
            .finish_non_exhaustive()
    }
}

impl Calibration {
    /// Reads the texts, runs the model at `base` over them, and stores statistics of the inputs of its matrices in `folder`.
    ///
    /// # Errors
    /// Texts that are too short or cannot be read, a model that cannot be run, a cache of another model or text.
    pub fn gather(
        args: &CalibrationOptions,
        base: &Path,
        folder: Folder,
        threads: Option<NonZeroUsize>,
        level: Level,
        events: &dyn Events,
    ) -> Result<Calibration, Error> {
        let began = Instant::now();
        let n_threads = useful_threads(threads);
        let model = open(base, n_threads)?;
        eval_model::warn_of_tokenizer(base, model.file().metadata(), events);
        warn_of_base(&model, base, events);
        if let Some(line) = unexecuted::line(&model) {
            events.note(format!("{line}; they keep the types of the file type"));
        }
        let mut windows = windows(&model, &args.calibrate, args.calibration_tokens as usize, events)?;
        let n_tokens = windows.calibration.n_tokens();
        if n_tokens < args.calibration_tokens as usize {
            let wanted = args.calibration_tokens;
            events.warning(format!(
                "the texts are too short: expected {wanted} tokens in whole chunks, found {n_tokens}"
            ));
        }
        if let Some(text) = &args.eval_text {
            text_file::warn_of_overlap(&[text], &args.calibrate, events);
            windows.rest = texts::chunks_of(&model, text, events)?;
        }
        windows.rest.truncate(texts::VERIFY_WINDOWS);
        if windows.rest.is_empty() && !args.no_verify {
            events.note(words!("no text is left to measure the result on; pass one with [-eval-text]"));
        }
        let Gathered { moments, folder, mut sums, fingerprint } =
            gathered::gather(&model, base, &windows.calibration, folder, events)?;
        sums.datasets.extend(args.calibrate.iter().map(|text| text.display().to_string()));
        let file = gguf_container::Model::open(base).map_err(|error| Error::at(base, error))?;
        let mut refiner =
            Refiner::new(file, moments, args.rounding.candidates(level), n_threads).map_err(Error::new)?;
        let mut has_gradients = false;
        if !args.inputs_only
            && let Some(gradients) = outputs::gather(&model, base, &windows.calibration, &folder, events)?
        {
            (refiner, has_gradients) = (refiner.with_outputs(gradients), true);
        }
        let (method, steps) = (method(has_gradients, args.train_scales), args.rounding.name());
        let decides = Sha256::digest(format!("{method}, {steps}\n{fingerprint}\n"));
        Ok(Calibration {
            args: args.clone(),
            base: base.to_owned(),
            encoder: Arc::new(Rounder {
                refiner,
                trained: trained::Slot::default(),
                fingerprint: u64::from_le_bytes(std::array::from_fn(|i| decides[i])),
            }),
            name: format!("{method}-{}", &hex(&decides)[..DIGITS]),
            imatrix: Arc::new(Imatrix::from_sums(sums)),
            verify: windows.rest,
            texts: windows.calibration,
            folder,
            gathered: fingerprint,
            training: Mutex::default(),
            chosen: None,
            level,
            gathering: began.elapsed(),
            n_threads,
        })
    }

    /// Additions to the settings of a run: the encoder that improves blocks, the importance matrix of the same text,
    /// and the key that records the version of the method and digits of the checksum over everything that decides
    /// the blocks.
    ///
    /// # Errors
    /// None are known.
    pub fn additions(&self) -> Result<Additions, Error> {
        let (encoder, imatrix) = (Arc::<Rounder>::clone(&self.encoder), Arc::clone(&self.imatrix));
        Ok(Additions { encoder, imatrix, key: calibration_key(&self.name)? })
    }

    /// Value that identifies the calibration in a call.
    pub fn fingerprint(&self) -> String {
        format!("{:016x}", self.encoder.fingerprint)
    }

    /// True if scales are trained.
    pub fn trains(&self) -> bool {
        self.args.train_scales
    }

    /// Trains the scales of the file at `untrained`. Until the guard is dropped, blocks are copied from the result.
    ///
    /// # Errors
    /// A model without a backward pass; texts of fewer than two chunks; an interruption.
    pub fn train(&self, untrained: &Path, events: &dyn Events) -> Result<trained::TrainedBlocks<'_>, Error> {
        self.encoder.refiner.release();
        let (base, student) = (open(&self.base, self.n_threads)?, open(untrained, self.n_threads)?);
        let (training, file) = trained::train(&base, &student, untrained, &self.texts, self.level, events)?;
        self.training.lock().unwrap_or_else(PoisonError::into_inner).replace(training);
        Ok(self.encoder.trained.fill(file))
    }

    /// The outcome for the matrices of a file with these types. Compares the file at `path` and the default file at `stock`
    /// with the base, if there is one.
    ///
    /// # Errors
    /// A file that cannot be run; an interruption.
    pub fn gained(
        &self,
        path: &Path,
        stock: Option<&Path>,
        stock_time: Duration,
        types: &BTreeMap<&str, DType>,
        events: &dyn Events,
    ) -> Result<Gained, Error> {
        let began = Instant::now();
        let gain = match stock {
            None => None,
            Some(stock) => {
                self.encoder.refiner.release();
                let base = open(&self.base, self.n_threads)?;
                let others = [open(stock, self.n_threads)?, open(path, self.n_threads)?];
                Some(verify::compare(&base, &self.base, &others, &self.verify, events)?)
            }
        };
        let spent = self.encoder.refiner.spent();
        let training = self.training.lock().unwrap_or_else(PoisonError::into_inner).take();
        let seconds = |time: Duration| time.as_secs_f64();
        let times = gained::Times {
            gathering: seconds(self.gathering),
            types: self.chosen.as_ref().map(|(_, time)| seconds(*time)),
            choosing: seconds(spent.choosing),
            rounding: seconds(spent.rounding) / self.n_threads as f64,
            training: training.as_ref().map(|training| training.seconds),
            stock: seconds(stock_time),
            verifying: seconds(began.elapsed()),
        };
        let mut outcomes = self.encoder.refiner.outcomes();
        outcomes.retain(|outcome| types.get(outcome.tensor.as_str()) == Some(&outcome.dtype));
        Ok(Gained::new(
            path,
            &outcomes,
            gain,
            self.chosen.as_ref().map(|(types, _)| types.clone()),
            training,
            times,
        ))
    }

    /// Chooses a type for each matrix that the recipe would quantize, and keeps the facts for the report; none if
    /// the choice is implied and no better.
    ///
    /// # Errors
    /// As [`BudgetOptions::choose`].
    pub fn choose_types(
        &mut self,
        budget: &BudgetOptions,
        recipe: &'static Recipe,
        settings: &Settings,
        events: &dyn Events,
    ) -> Result<Option<BTreeMap<String, DType>>, Error> {
        let began = Instant::now();
        let model = open(&self.base, self.n_threads)?;
        let bench = Bench {
            base: &self.base,
            model: &model,
            refiner: &self.encoder.refiner,
            imatrix: &self.imatrix,
            windows: self.texts.chunks(),
            level: self.level,
            kept: (&self.folder.path, &self.gathered),
        };
        let Some((dtypes, chosen)) = budget.choose(recipe, settings, &bench, events)? else {
            return Ok(None);
        };
        self.chosen = Some((chosen, began.elapsed()));
        Ok(Some(dtypes))
    }

    /// Fails if a file is larger than its target size.
    ///
    /// # Errors
    /// A file that is too large.
    pub fn check_size(&self, path: &Path, n_bytes: u64) -> Result<(), Error> {
        match &self.chosen {
            Some((chosen, _)) if n_bytes > chosen.budget => {
                let message =
                    format!("the file has {n_bytes} bytes, more than the target size of {}", chosen.budget);
                Err(Error::at(path, message))
            }
            _ => Ok(()),
        }
    }

    /// Removes temporary files next to the output.
    pub fn done(&self) {
        self.folder.done();
    }

    /// True if the result is compared with the base.
    pub fn verifies(&self) -> bool {
        !self.args.no_verify && !self.verify.is_empty()
    }
}

/// Opens a model to run it.
fn open(path: &Path, n_threads: usize) -> Result<Model, Error> {
    let options = Options { threads: Some(n_threads), ..Options::new(gguf_models::GRAPHS) };
    Model::open(path, &options)
        .map_err(|error| input_kind::explained(path, Wanted::Gguf, Error::at(path, error)))
}

/// Warns if the base is already quantized.
fn warn_of_base(model: &Model, path: &Path, events: &dyn Events) {
    let n_quantized = model.file().tensors().filter(|(_, tensor)| tensor.dtype.is_quantized()).count();
    if n_quantized > 0 {
        events.warning(format!(
            "{}: {n_quantized} tensors are already quantized; the KL divergence is measured from this file, \
                not from the original model",
            path.display()
        ));
    }
}

/// Rounds rows for a conversion.
#[derive(Debug)]
struct Rounder {
    refiner: Refiner,
    /// A file with trained scales, whose blocks replace rounding.
    trained: trained::Slot,
    fingerprint: u64,
}

impl RowEncoder for Rounder {
    fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    fn applies_to(&self, tensor: &str, dtype: DType) -> bool {
        self.refiner.applies_to(tensor, dtype)
    }

    fn encode(
        &self,
        rows: &EncodedRows<'_>,
        blocks: &mut [u8],
    ) -> Result<(), Box<dyn StdError + Send + Sync>> {
        if let Some(trained) = self.trained.get() {
            return Ok(trained.copy(rows, blocks)?);
        }
        let EncodedRows { tensor, dtype, values, weights, level, .. } = *rows;
        let rows = StockRows { tensor, dtype, rows: rows.rows.clone(), values, weights, level };
        Ok(self.refiner.refine(&rows, blocks)?)
    }
}
