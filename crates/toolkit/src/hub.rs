//! Inputs that are named by an address of the Hugging Face Hub.

use std::{
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use gguf_checkpoint::{
    Folder,
    hub::{self, HubError, Repo, Settings, Snapshot},
};

use crate::{call::Call, error::Error, events::Events, input_kind::is_like_a_hub_name, text::human_bytes};

/// True if a text is a Hub address: `hf://OWNER/MODEL[@REVISION]`.
pub fn is_hub_address(text: &str) -> bool {
    Repo::is_address(text)
}

/// Opens a model of the Hub as a folder for [`convert`](crate::convert): from the Hub's cache if it has the
/// model, else with weights that are fetched while they are read and not kept. `storage` holds the received
/// bytes meanwhile. `variable` returns environment variables: `HF_TOKEN`, `HF_HOME`, `HF_HUB_CACHE`,
/// `HF_ENDPOINT` and `HF_HUB_OFFLINE` are read.
///
/// # Errors
/// [`Cause::Hub`](crate::Cause::Hub).
pub fn hub_folder(
    address: &str,
    storage: &Path,
    variable: &dyn Fn(&str) -> Option<String>,
    cancel: Arc<AtomicBool>,
) -> Result<Folder, Error> {
    struct Cancelled(Arc<AtomicBool>);
    impl Events for Cancelled {
        fn cancel(&self) -> Arc<AtomicBool> {
            Arc::clone(&self.0)
        }
    }
    let environment = Environment { variable, temporary: storage };
    let wanted = Wanted { weights: true, keep: false, out: Some(storage) };
    Ok(input(Path::new(address), wanted, &environment, &Cancelled(cancel))?.folder)
}

/// Settings of the process that concern the Hub.
#[derive(Clone, Copy)]
pub struct Environment<'a> {
    /// Returns environment variables: `HF_TOKEN`, `HF_HOME`, `HF_HUB_CACHE`, `HF_ENDPOINT`, `HF_HUB_OFFLINE`.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Folder for temporary files.
    pub temporary: &'a Path,
}

/// Request for a model on the Hub.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// True if weights are needed.
    pub weights: bool,
    /// True if downloads go to the cache.
    pub keep: bool,
    /// Path of the output, whose disk can hold downloaded weights.
    pub out: Option<&'a Path>,
}

impl Environment<'_> {
    /// An environment without variables, for inputs that are files.
    pub fn none() -> Environment<'static> {
        Environment { variable: &|_| None, temporary: Path::new(".") }
    }
}

/// An input folder, with its downloads.
#[derive(Debug)]
pub struct Input {
    /// The folder.
    pub folder: Folder,
    /// The state of the repository that is read, if it is one of the Hub.
    pub commit: Option<String>,
    #[cfg(feature = "remote")]
    remote: Option<(hub::Remote, bool)>,
}

impl Input {
    fn local(folder: Folder) -> Input {
        Input {
            folder,
            commit: None,
            #[cfg(feature = "remote")]
            remote: None,
        }
    }

    /// True if the model is read over the network, so that its folder lacks most files.
    #[cfg(feature = "remote")]
    pub fn is_remote(&self) -> bool {
        self.remote.is_some()
    }

    /// The same of a program that reads nothing over the network.
    #[cfg(not(feature = "remote"))]
    pub fn is_remote(&self) -> bool {
        false
    }

    /// Adds this input to the inputs of a call.
    pub fn name_in(&self, call: Call) -> Call {
        #[cfg(feature = "remote")]
        if let Some((remote, _)) = &self.remote {
            let mut call = call;
            call.remote.push((self.folder.name(), format!("commit {}", remote.commit())));
            return call;
        }
        call.reads([self.folder.path()])
    }

    /// Moves downloads to the cache, if requested. Called after the work.
    ///
    /// # Errors
    /// A download that failed or cannot be stored.
    pub fn finish(self, events: &dyn Events) -> Result<(), Error> {
        #[cfg(feature = "remote")]
        if let Some((remote, true)) = self.remote {
            let snapshot = remote.keep().map_err(Error::new)?;
            events.status(&format!("kept {}", snapshot.display()));
        }
        let _ = events;
        Ok(())
    }
}

/// Resolves an argument: `hf://OWNER/MODEL[@REVISION]`, or OWNER/MODEL without such a local folder, is a
/// model in the Hub's cache or on the Hub. Anything else is a path.
///
/// # Errors
/// An invalid address, or a model that is not available.
pub fn input(
    path: &Path,
    wanted: Wanted<'_>,
    environment: &Environment<'_>,
    events: &dyn Events,
) -> Result<Input, Error> {
    let text = path.to_str().unwrap_or_default();
    if !Repo::is_address(text) && !is_like_a_hub_name(path) {
        return Ok(Input::local(Folder::at(path)));
    }
    let taken = |failure: Error| match Repo::is_address(text) || failure.is_interrupted() {
        true => failure,
        false => failure.hint([format!(
            "if `{text}` is meant to be a local folder, check the path; it was treated as a model on the Hub"
        )]),
    };
    of_hub(text, wanted, environment, events).map_err(taken)
}

/// A model of the Hub, by its address.
fn of_hub(
    text: &str,
    wanted: Wanted<'_>,
    environment: &Environment<'_>,
    events: &dyn Events,
) -> Result<Input, Error> {
    let repo = Repo::parse(text).map_err(Error::new)?;
    let settings = Settings::from_environment(environment.variable).map_err(Error::new)?;
    let found = hub::cached(&settings.cache, &repo);
    let is_asked = cfg!(feature = "remote") && !settings.offline;
    let lacks = found.as_ref().and_then(|snapshot| snapshot.lacks(wanted.weights)).filter(|_| is_asked);
    match (found, lacks) {
        (Some(Snapshot { path, commit, .. }), None) => {
            events.note(&format!("{repo}: read from the local Hugging Face cache, {}", path.display()));
            let input = Input::local(Folder::at(path).named(repo.name()));
            return Ok(Input { commit: Some(commit), ..input });
        }
        (Some(_), Some(lacks)) => {
            events.detail(&format!("{repo}: not in the local Hugging Face cache: {lacks}"))
        }
        (None, _) => {}
    }
    if is_asked {
        return remote(&repo, &settings, wanted, environment.temporary, events);
    }
    let reason = match settings.offline {
        true => "HF_HUB_OFFLINE is set",
        false => "built without the feature `remote`",
    };
    Err(Error::new(HubError::NotCached { repo: repo.to_string(), cache: settings.cache, reason }))
}

#[cfg(feature = "remote")]
fn remote(
    repo: &Repo,
    settings: &Settings,
    wanted: Wanted<'_>,
    temporary: &Path,
    events: &dyn Events,
) -> Result<Input, Error> {
    // Next to the output, whose disk must have room anyway; where nothing is written little comes.
    let place = wanted.out.map(|out| if out.as_os_str().is_empty() { Path::new(".") } else { out });
    let storage = place.and_then(|out| out.ancestors().find(|folder| folder.is_dir()));
    let storage = match storage {
        Some(folder) => folder.to_owned(),
        None if place.is_some() => ".".into(),
        None => temporary.to_owned(),
    };
    let options = hub::RemoteOptions::new(temporary.to_owned(), storage)
        .whole_weights(wanted.weights)
        .keep(wanted.keep)
        .cancel(events.cancel());
    let remote = hub::Remote::open(settings, repo, &options).map_err(Error::new)?;
    let ((n_whole, whole_bytes), (n_ranges, range_bytes)) = (remote.whole(), remote.by_ranges());
    let (commit, endpoint) = (remote.commit(), &settings.endpoint);
    events.note(&format!(
        "{repo}: read from {endpoint}, commit {commit}: {n_whole} files ({}) complete, checksums verified",
        human_bytes(whole_bytes)
    ));
    if n_ranges > 0 {
        let checked = if wanted.keep {
            "checksums are verified at the end"
        } else {
            "verified only by length and ETag"
        };
        events.note(&format!(
            "{repo}: {n_ranges} weight files ({}) are streamed, {checked}",
            human_bytes(range_bytes)
        ));
    }
    let (folder, commit) = (remote.folder().clone(), Some(commit.to_string()));
    Ok(Input { folder, commit, remote: Some((remote, wanted.keep)) })
}

#[cfg(not(feature = "remote"))]
fn remote(repo: &Repo, settings: &Settings, _: Wanted<'_>, _: &Path, _: &dyn Events) -> Result<Input, Error> {
    let reason = "built without the feature `remote`";
    Err(Error::new(HubError::NotCached { repo: repo.to_string(), cache: settings.cache.clone(), reason }))
}
