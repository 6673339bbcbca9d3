//! Statistics in a folder, one file per step.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use gguf_runtime::{Model, Part, importance::Collector};

use super::{
    Input, Options, Plan, Texts,
    file::{Identity, StepFile, StepWriter, file_name},
    io_error,
    plan::{Matrices, PlannedInput},
};
use crate::{Error, Gram, fingerprint};

/// Statistics of a model and a text in a folder. After an interrupted run, the next one continues with the
/// first missing step.
#[derive(Debug)]
pub struct MomentsCache {
    folder: PathBuf,
    identity: Identity,
    files: BTreeMap<usize, StepFile>,
    /// File and index of the input for each matrix.
    places: BTreeMap<(String, Option<usize>), (usize, usize)>,
}

impl MomentsCache {
    /// Opens or creates the statistics in `folder` for this model, these texts and options: of inputs or of
    /// output gradients, depending on the plan.
    ///
    /// # Errors
    /// [`Error::OtherMoments`] for statistics of another model or text, [`Error::BrokenMoments`] and
    /// [`Error::Io`].
    pub fn open(
        folder: &Path,
        model: &Model,
        texts: &Texts,
        options: &Options,
        plan: &Plan,
    ) -> Result<MomentsCache, Error> {
        fs::create_dir_all(folder).map_err(|source| io_error("create", folder, source))?;
        let identity = Identity {
            of_outputs: plan.has_outputs,
            model: fingerprint(model),
            texts: texts.digests().to_vec(),
            held_every: options.held_every as u64,
            with_output: options.with_output,
            activations: model.activations().name().to_owned(),
            n_steps: plan.steps.len() as u64,
        };
        MomentsCache::of(folder, identity, files_in(folder)?)
    }

    /// Reads the statistics in `folder` for any model and text.
    ///
    /// # Errors
    /// Those of [`MomentsCache::open`]; [`Error::OtherMoments`] if two files belong to different runs,
    /// [`Error::NotAddable`] for an empty folder.
    pub fn read(folder: &Path) -> Result<MomentsCache, Error> {
        let files = files_in(folder)?;
        let first = files.first().ok_or_else(|| Error::NotAddable {
            problem: format!("no statistics in `{}`", folder.display()),
        })?;
        MomentsCache::of(folder, first.identity.clone(), files)
    }

    fn of(folder: &Path, identity: Identity, files: Vec<StepFile>) -> Result<MomentsCache, Error> {
        let mut cache = MomentsCache {
            folder: folder.to_owned(),
            identity,
            files: BTreeMap::new(),
            places: BTreeMap::new(),
        };
        for file in files {
            let path = cache.path_of(file.step);
            file.identity.check(&cache.identity, &path)?;
            cache.know(file);
        }
        Ok(cache)
    }

    fn know(&mut self, file: StepFile) {
        for (at, input) in file.inputs.iter().enumerate() {
            for (tensor, part) in &input.of {
                let index = match part {
                    Part::Whole => None,
                    Part::Expert { index, .. } | Part::Head { index, .. } => Some(*index),
                };
                self.places.insert((tensor.clone(), index), (file.step, at));
            }
        }
        self.files.insert(file.step, file);
    }

    fn path_of(&self, step: usize) -> PathBuf {
        self.folder.join(file_name(step))
    }

    /// Hessians of a tensor's inputs over the training tokens and over the held-out tokens; for a stack,
    /// those of matrix `index` (an expert or a head). `None` if missing.
    ///
    /// # Errors
    /// [`Error::BrokenMoments`], [`Error::Io`].
    pub fn gram(&self, tensor: &str, index: Option<usize>) -> Result<Option<(Gram, Gram)>, Error> {
        let place = self.places.get(&(tensor.to_owned(), index));
        let Some((file, at)) = place.and_then(|(step, at)| Some((self.files.get(step)?, at))) else {
            return Ok(None);
        };
        let Input { fit, held, .. } = file.input(*at)?;
        Ok(Some((fit, held)))
    }

    /// File and index of the input of a matrix, if other matrices share it.
    pub(crate) fn shared_place(&self, tensor: &str, index: Option<usize>) -> Option<(usize, usize)> {
        let place = self.places.get(&(tensor.to_owned(), index))?;
        let input = self.files.get(&place.0)?.inputs.get(place.1)?;
        (input.of.len() > 1).then_some(*place)
    }

    /// True if the inputs of a tensor that is not a stack have statistics.
    pub fn knows(&self, tensor: &str) -> bool {
        self.places.contains_key(&(tensor.to_owned(), None))
    }

    /// [`fingerprint`] of the model.
    pub fn model(&self) -> &str {
        &self.identity.model
    }

    /// True if all steps are present.
    pub fn is_complete(&self) -> bool {
        self.files.len() as u64 == self.identity.n_steps
    }

    /// True if all inputs of a step are present.
    pub fn has(&self, step: usize, inputs: &[PlannedInput]) -> bool {
        let file = self.files.get(&step);
        file.is_some_and(|file| inputs.iter().all(|input| file.inputs.contains(input)))
    }

    /// The importance matrix of all present steps.
    ///
    /// # Errors
    /// [`Error::BrokenMoments`], [`Error::Io`].
    pub fn importance(&self) -> Result<Collector, Error> {
        let mut collector = Collector::new(self.identity.with_output);
        for file in self.files.values() {
            file.add_importance_to(&mut collector)?;
        }
        Ok(collector)
    }

    /// Adds the importance of one step.
    pub(super) fn add_importance_of(&self, step: usize, collector: &mut Collector) -> Result<(), Error> {
        self.file(step)?.add_importance_to(collector)
    }

    /// Some inputs of a step, in name order.
    pub(super) fn inputs(&self, step: usize, planned: &[PlannedInput]) -> Result<Vec<Input>, Error> {
        let file = self.file(step)?;
        let mut at: Vec<(&Matrices, usize)> =
            file.inputs.iter().enumerate().map(|(at, input)| (&input.of, at)).collect();
        at.retain(|(of, _)| planned.iter().any(|input| input.of == **of));
        at.sort();
        at.into_iter().map(|(_, at)| file.input(at)).collect()
    }

    fn file(&self, step: usize) -> Result<&StepFile, Error> {
        let path = self.path_of(step);
        let absent = || Error::BrokenMoments { path, problem: "missing".to_owned() };
        self.files.get(&step).ok_or_else(absent)
    }

    pub(super) fn begin(
        &self,
        step: usize,
        inputs: &[PlannedInput],
        importance: &[u8],
    ) -> Result<StepWriter, Error> {
        StepWriter::begin(&self.path_of(step), &self.identity, step, inputs, importance)
    }

    pub(super) fn finish(&mut self, step: usize, written: StepWriter) -> Result<(), Error> {
        written.finish()?;
        let file = StepFile::open(&self.path_of(step))?;
        self.know(file);
        Ok(())
    }

    /// Adds the statistics of several texts, collected with the same model and settings, and writes the sum
    /// to the folder `output`.
    ///
    /// # Errors
    /// [`Error::OtherMoments`] for another model or setting; [`Error::NotAddable`] for a text given twice, a
    /// folder with missing steps or inputs, and an output with files; those of [`MomentsCache::open`].
    pub fn merge(folders: &[&Path], output: &Path) -> Result<MomentsCache, Error> {
        let not = |problem: String| Error::NotAddable { problem };
        let caches =
            folders.iter().map(|folder| MomentsCache::read(folder)).collect::<Result<Vec<_>, _>>()?;
        let first = caches.first().ok_or_else(|| not("no folders given".to_owned()))?;
        let mut identity = Identity { texts: Vec::new(), ..first.identity.clone() };
        for cache in &caches {
            // Everything except the text must agree.
            let as_first = Identity { texts: first.identity.texts.clone(), ..cache.identity.clone() };
            as_first.check(&first.identity, &cache.folder)?;
            if !cache.is_complete() {
                return Err(not(format!("missing steps in `{}`", cache.folder.display())));
            }
            for text in &cache.identity.texts {
                if identity.texts.contains(text) {
                    return Err(not(format!("duplicate text (SHA-256 {text})")));
                }
                identity.texts.push(text.clone());
            }
        }
        fs::create_dir_all(output).map_err(|source| io_error("create", output, source))?;
        if !files_in(output)?.is_empty() {
            return Err(not(format!("`{}` already has statistics", output.display())));
        }
        let mut merged = MomentsCache::of(output, identity, Vec::new())?;
        for (step, file) in &first.files {
            let mut importance = Collector::new(merged.identity.with_output);
            for cache in &caches {
                cache.add_importance_of(*step, &mut importance)?;
            }
            let mut written = merged.begin(*step, &file.inputs, &importance.to_part())?;
            for (at, planned) in file.inputs.iter().enumerate() {
                let mut sum = file.input(at)?;
                for cache in &caches[1..] {
                    let more = cache.inputs(*step, std::slice::from_ref(planned))?;
                    let more = more.first().ok_or_else(|| {
                        not(format!("`{}` lacks an input of step {step}", cache.folder.display()))
                    })?;
                    if !sum.fit.add(&more.fit) || !sum.held.add(&more.held) {
                        return Err(not(format!(
                            "an input of step {step} has a different number of columns"
                        )));
                    }
                }
                written.inputs(&[sum])?;
            }
            merged.finish(*step, written)?;
        }
        Ok(merged)
    }
}

/// Step files of a folder, by name.
fn files_in(folder: &Path) -> Result<Vec<StepFile>, Error> {
    let failed = |source| io_error("read", folder, source);
    let entries = fs::read_dir(folder).map_err(failed)?.collect::<io::Result<Vec<_>>>().map_err(failed)?;
    let is_step = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let number = name.strip_prefix("step-").and_then(|rest| rest.strip_suffix(".gguf"));
        number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).filter(is_step).collect();
    paths.sort();
    paths.iter().map(|path| StepFile::open(path)).collect()
}
