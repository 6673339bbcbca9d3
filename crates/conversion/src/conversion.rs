//! A conversion in four steps, each with its own type: open, plan, check, write.
//!
//! ```no_run
//! use gguf_conversion::{Conversion, RunOptions};
//!
//! # fn main() -> Result<(), gguf_conversion::Error> {
//! let conversion = Conversion::open(gguf_models::FAMILIES, "Llama-3.2-1B")?.recipe("q4_k_m")?;
//! conversion.plan()?.check()?.write("llama-q4_k_m.gguf", &RunOptions::default())?;
//! # Ok(())
//! # }
//! ```
//!
//! Only a checked conversion can be written: [`PlannedConversion::check`] returns it.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use gguf_container::{Mapped, Model, PartNumber, Plan};
use gguf_layout::Families;
use gguf_quant::Level;

use crate::{
    Error,
    checkpoint_input::CheckpointInput,
    input::Input,
    job::TensorTask,
    journal::{Fingerprint, Origin},
    model_input::ModelInput,
    output::{output_path, real_output, shard_path, write},
    parts::{self, Part, Rates, Written},
    planned::{FileOf, PlannedFile},
    recipes::Recipe,
    request::{OutputRequest, Request},
    resume::{Journaling, write_resumable},
    run::Watch,
    run_options::RunOptions,
    targets,
};

/// An open input, and the requested outputs.
#[derive(Debug)]
pub struct Conversion<'r, I> {
    input: I,
    outputs: Vec<OutputRequest>,
    request: Request<'r>,
}

/// Files with fixed dtypes and offsets, before any weight is read.
#[derive(Debug)]
pub struct PlannedConversion<'a, I> {
    conversion: &'a Conversion<'a, I>,
    files: Vec<PlannedFile>,
}

/// Planned files that can all be written: every tensor has a codec, and weights if it needs them.
#[derive(Debug)]
pub struct CheckedConversion<'a, I> {
    planned: &'a PlannedConversion<'a, I>,
    tasks: Vec<TensorTask<'a>>,
}

impl Conversion<'_, CheckpointInput> {
    /// Opens the checkpoint folder `dir` of a model of one of `families`.
    ///
    /// # Errors
    /// [`Error::Source`], [`Error::Arch`], [`Error::Shape`].
    pub fn open(families: Families, dir: impl AsRef<Path>) -> Result<Self, Error> {
        Ok(Conversion::new(CheckpointInput::open(dir.as_ref(), &gguf_layout::Options::new(families))?))
    }
}

impl Conversion<'_, ModelInput> {
    /// Opens a GGUF file, or the first shard of a model in several.
    ///
    /// # Errors
    /// [`Error::Gguf`].
    pub fn open_gguf(families: Families, path: impl AsRef<Path>) -> Result<Self, Error> {
        Ok(Conversion::new(ModelInput::new(families, Model::open(path.as_ref())?)))
    }
}

impl<'r, I: Input> Conversion<'r, I> {
    /// Starts without outputs.
    pub fn new(input: I) -> Conversion<'r, I> {
        Conversion { input, outputs: Vec::new(), request: Request::default() }
    }

    /// Adds a type, by its name in any case or its number.
    ///
    /// # Errors
    /// [`Error::Recipe`] for an unknown name.
    pub fn recipe(self, name: &str) -> Result<Conversion<'r, I>, Error> {
        Ok(self.outputs([OutputRequest::by_rules(Recipe::from_name(name)?)]))
    }

    /// Adds output types. All are made from one read.
    pub fn outputs(mut self, outputs: impl IntoIterator<Item = OutputRequest>) -> Conversion<'r, I> {
        self.outputs.extend(outputs);
        self
    }

    /// Sets the request (everything except the types), replacing the previous one.
    pub fn request(self, request: Request<'r>) -> Conversion<'r, I> {
        Conversion { request, ..self }
    }

    /// The input.
    pub fn input(&self) -> &I {
        &self.input
    }

    /// Chooses the type of every tensor and the position of every byte.
    ///
    /// # Errors
    /// [`Error::Recipe`], [`Error::Gguf`], and problems of the request.
    pub fn plan(&self) -> Result<PlannedConversion<'_, I>, Error> {
        let plans = self.outputs.iter().map(|output| self.input.plan(output, &self.request));
        let files = plans.collect::<Result<Vec<_>, Error>>()?.concat();
        Ok(PlannedConversion { conversion: self, files })
    }
}

impl<'a, I: Input> PlannedConversion<'a, I> {
    /// The input.
    pub fn input(&self) -> &'a I {
        &self.conversion.input
    }

    /// All files: those of the first output, then those of the next.
    pub fn files(&self) -> &[PlannedFile] {
        &self.files
    }

    /// A path for each of [`PlannedConversion::files`]. [`output_path`] describes the meaning of `out`; a
    /// shard has its number in its name.
    ///
    /// # Errors
    /// [`Error::UnknownPlaceholder`]; [`Error::OneNameForMany`] if two files would have the same name.
    pub fn paths(&self, out: Option<&Path>) -> Result<Vec<PathBuf>, Error> {
        // Checked here because outputs get their names at the end; one would silently replace another.
        let (mut paths, mut seen) = (Vec::with_capacity(self.files.len()), HashSet::new());
        let has_models = self.files.iter().any(|file| file.of == FileOf::Model);
        for file in &self.files {
            let default_name = self.input().file_name(file);
            // `q4_k` of a foreign format differs from the GGUF mix of this name.
            let type_name =
                if file.plan.is_foreign() { file.recipe.name } else { file.recipe.canonical_name() };
            let mut path = output_path(out, &default_name, type_name)?;
            // The projector of a named file gets the same name with the conventional prefix.
            let is_named = path.file_name().is_some_and(|name| name != default_name.as_str());
            if file.of == FileOf::Projector && is_named && has_models {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                path.set_file_name(gguf_container::Sidecar::Projector.prefix().to_owned() + &name);
            }
            let path = shard_path(&path, file.shard);
            // Two links to one file count as one name.
            if !seen.insert(real_output(&path)) {
                return Err(Error::OneNameForMany { n_types: self.conversion.outputs.len(), path });
            }
            paths.push(path);
        }
        Ok(paths)
    }

    /// Checks that files can be written to `paths` without touching what is read.
    pub fn check_paths(&self, paths: &[PathBuf], force: bool) -> Result<(), Error> {
        paths.iter().try_for_each(|path| self.input().check_output(path, force))
    }

    /// Checks that every tensor can get its type, for callers that still lack importance data.
    ///
    /// # Errors
    /// [`Error::Requantize`], and [`Error::Encode`] if there is no codec.
    pub fn check_types(&self) -> Result<(), Error> {
        let may_requantize = self.conversion.request.allow_requantize || self.input().has_originals();
        let check = |file| targets::check_types(file, &self.input().tensors(file.recipe), may_requantize);
        self.files.iter().try_for_each(check)
    }

    /// Checks that the plan can be carried out, before anything is written.
    ///
    /// # Errors
    /// [`Error::NeedsImatrix`], [`Error::NotInImatrix`], [`Error::Imatrix`], [`Error::Requantize`],
    /// [`Error::Encode`] if there is no codec, [`Error::NoSuchTensor`] and [`Error::RowsDiffer`] if layout
    /// and checkpoint disagree.
    pub fn check(&self) -> Result<CheckedConversion<'_, I>, Error> {
        let (input, request) = (self.input(), &self.conversion.request);
        // Check all files before making tasks: an error in the last is found before hours of work on the
        // first.
        for file in &self.files {
            targets::check_importance(file, &input.tensors(file.recipe), request)?;
        }
        self.check_types()?;
        // One task per tensor with a target in each file, so that every row is read once for all types.
        let mut tasks = input.tasks(request)?;
        tasks.iter_mut().for_each(|task| task.encoder = request.encoder);
        for (output, file) in self.files.iter().enumerate() {
            targets::add_targets(&mut tasks, file, output, &input.tensors(file.recipe), request)?;
        }
        Ok(CheckedConversion { planned: self, tasks })
    }
}

impl<'a, I: Input> CheckedConversion<'a, I> {
    /// The plan.
    pub fn planned(&self) -> &'a PlannedConversion<'a, I> {
        self.planned
    }

    /// Each tensor with its targets.
    pub fn tasks(&self) -> &[TensorTask<'a>] {
        &self.tasks
    }

    /// Bytes of input that [`CheckedConversion::write_to`] covers, for progress.
    pub fn input_bytes(&self) -> u64 {
        self.tasks.iter().map(|task| task.rows.input_bytes(task.rows.view().n_rows)).sum()
    }

    /// Writes the files to `out` without replacing existing ones, and returns their paths.
    pub fn write(&self, out: impl AsRef<Path>, options: &RunOptions) -> Result<Vec<PathBuf>, Error> {
        let paths = self.planned.paths(Some(out.as_ref()))?;
        self.planned.check_paths(&paths, false)?;
        let watch = Watch::default();
        self.write_to(&paths, false, options, watch)?;
        Ok(paths)
    }

    /// Writes each of [`PlannedConversion::files`] to the path of the same index. All files of the input are
    /// watched for changes.
    pub fn write_to(
        &self,
        paths: &[PathBuf],
        force: bool,
        options: &RunOptions,
        watch: Watch<'_>,
    ) -> Result<(), Error> {
        let sources = self.sources(watch);
        write(&self.tasks, &self.at(paths), force, options, Watch { sources: &sources, ..watch })
    }

    /// Like [`CheckedConversion::write_to`], but with a journal, so that a later run can resume this one.
    pub fn write_resumable(
        &self,
        paths: &[PathBuf],
        force: bool,
        journaling: Journaling<'_>,
        options: &RunOptions,
        watch: Watch<'_>,
    ) -> Result<(), Error> {
        let sources = self.sources(watch);
        let watch = Watch { sources: &sources, ..watch };
        write_resumable(&self.tasks, &self.at(paths), force, journaling, options, watch)
    }

    /// Fingerprint of everything that determines the bytes of files at `paths`.
    pub fn fingerprint(&self, paths: &[PathBuf], origin: &Origin<'_>) -> Fingerprint {
        Fingerprint::new(origin, &self.planned.input().sources(), &self.tasks, &self.at(paths))
    }

    /// Costs that determine the shares of parts, measured on this machine.
    pub fn rates(&self, level: Level) -> Rates {
        Rates::measure(&self.tasks, level)
    }

    /// Bytes of input that a part covers, for progress.
    pub fn part_bytes(&self, rates: &Rates, number: PartNumber) -> u64 {
        parts::share_bytes(&self.tasks, rates, number)
    }

    /// Writes a part.
    pub fn write_part(
        &self,
        paths: &[PathBuf],
        part: &Part<'_>,
        force: bool,
        options: &RunOptions,
        watch: Watch<'_>,
    ) -> Result<Written, Error> {
        let sources = self.sources(watch);
        let watch = Watch { sources: &sources, ..watch };
        parts::write_part(&self.tasks, &self.at(paths), part, force, options, watch)
    }

    /// Assembles all parts.
    pub fn assemble(
        &self,
        paths: &[PathBuf],
        fingerprint: &Fingerprint,
        force: bool,
        options: &RunOptions,
        watch: Watch<'_>,
    ) -> Result<(), Error> {
        let sources = self.sources(watch);
        let watch = Watch { sources: &sources, ..watch };
        parts::assemble(&self.tasks, &self.at(paths), fingerprint, force, options, watch)
    }

    /// Source files, including those that are only watched.
    fn sources(&self, watch: Watch<'_>) -> Vec<Mapped> {
        [self.planned.input().sources(), watch.sources.to_vec()].concat()
    }

    fn at<'p>(&self, paths: &'p [PathBuf]) -> Vec<(&'p Path, &'a Plan)> {
        // Paths come from `PlannedConversion::paths`, in the order of the files.
        let files = self.planned.files().iter().zip(paths);
        files.map(|(file, path)| (path.as_path(), &file.plan)).collect()
    }
}
