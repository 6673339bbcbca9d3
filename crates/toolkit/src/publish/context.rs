//! State that all stages of a publication share, and the rule by which their results are kept.

use std::path::{Path, PathBuf};

use gguf_conversion::RunOptions;
use serde::{Serialize, de::DeserializeOwned};

use super::{options::PublishOptions, work::Work};
use crate::{call::Call, error::Error, events::Events, hub::HubOptions};

/// A step whose result is kept until something that it depends on changes.
pub struct Stage<'a> {
    /// Name in the state.
    pub name: &'a str,
    /// Digest of everything that the result depends on.
    pub key: &'a str,
    /// Folder from which files of a former result are removed.
    pub folder: Option<&'a Path>,
}

/// Files of a stage, and its result for later stages.
pub type Made<T> = (Vec<PathBuf>, T);

/// State and options of a publication.
pub struct Context<'a> {
    pub args: &'a PublishOptions,
    pub hub: &'a HubOptions,
    pub events: &'a dyn Events,
    pub work: Work,
    /// Identity of the program.
    pub call: Call,
    /// The program and its build.
    pub program: String,
    /// Options for writing files.
    pub run: RunOptions,
}

impl<'a> Context<'a> {
    /// Opens the work folder of a publication.
    pub fn new(
        args: &'a PublishOptions,
        hub: &'a HubOptions,
        events: &'a dyn Events,
    ) -> Result<Context<'a>, Error> {
        let executable = args.executable.clone();
        let call = Call { program: "gguf-publish".to_owned(), executable, ..Call::default() };
        let run = RunOptions::default().threads(args.threads);
        let run = args.level.map_or_else(|| run.clone(), |level| run.clone().level(level));
        Ok(Context { args, hub, events, work: Work::open(&args.dir)?, program: call.program(), call, run })
    }

    /// The published folder.
    pub fn out(&self) -> &'a Path {
        &self.args.dir
    }

    /// Result of a stage, which runs unless the recorded one is valid.
    pub fn make<T: Serialize + DeserializeOwned>(
        &mut self,
        stage: &Stage<'_>,
        run: impl FnOnce(&Context<'a>) -> Result<Made<T>, Error>,
    ) -> Result<T, Error> {
        if let Some(facts) = self.work.standing(stage.name, stage.key) {
            return Ok(facts);
        }
        let (files, facts) = run(self)?;
        match stage.folder {
            Some(folder) => self.work.replaced(stage.name, stage.key, folder, &files, &facts)?,
            None => self.work.done(stage.name, stage.key, &files, &facts)?,
        }
        Ok(facts)
    }
}
