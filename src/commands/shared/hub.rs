//! Inputs that are named by an address of the Hugging Face Hub.

use std::path::Path;

use source::{
    Folder,
    hub::{self, HubError, Repo, Settings, Snapshot},
};

use crate::{
    commands::shared::{call::Call, input_kind::is_like_a_hub_name},
    failure::{EXIT_INTERRUPTED, Failure},
    ui::Ui,
};

/// Request for a model on the Hub.
#[derive(Debug, Clone, Copy)]
pub(in crate::commands) struct Wanted<'a> {
    /// True if weights are needed.
    pub weights: bool,
    /// True if downloads go to the cache.
    pub keep: bool,
    /// Path of the output, whose disk can hold downloaded weights.
    pub out: Option<&'a Path>,
}

/// A folder that is read, and what has to be done with it in the end.
#[derive(Debug)]
pub(in crate::commands) struct Input {
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

    /// Adds to what a run is called with that this is read.
    pub fn name_in(&self, call: Call) -> Call {
        #[cfg(feature = "remote")]
        if let Some((remote, _)) = &self.remote {
            let mut call = call;
            call.remote.push((self.folder.name(), format!("commit {}", remote.commit())));
            return call;
        }
        call.reads([self.folder.path()])
    }

    /// Gives what was fetched its place in the cache, where that is wanted; to be called when all is done.
    ///
    /// # Errors
    /// What cannot be fetched or kept.
    pub fn finish(self, ui: &Ui) -> Result<(), Failure> {
        #[cfg(feature = "remote")]
        if let Some((remote, true)) = self.remote {
            let snapshot = remote.keep().map_err(failure)?;
            ui.status(&format!("kept {}", snapshot.display()));
        }
        let _ = ui;
        Ok(())
    }
}

pub(in crate::commands) fn failure(error: HubError) -> Failure {
    match error {
        HubError::Interrupted => Failure::interrupted(),
        error => Failure::new(&error).hint(error.hint()),
    }
}

/// Resolves an argument: `hf://OWNER/MODEL[@REVISION]`, or OWNER/MODEL without such a local folder, is a
/// model in the Hub's cache or on the Hub. Anything else is a path.
///
/// # Errors
/// An invalid address, or a model that is not available.
pub(in crate::commands) fn input(path: &Path, wanted: Wanted<'_>, ui: &Ui) -> Result<Input, Failure> {
    let text = path.to_str().unwrap_or_default();
    if !Repo::is_address(text) && !is_like_a_hub_name(path) {
        return Ok(Input::local(Folder::at(path)));
    }
    let taken = |failure: Failure| match Repo::is_address(text) || failure.code == EXIT_INTERRUPTED {
        true => failure,
        false => failure.hint([format!(
            "if `{text}` is meant to be a local folder, check the path; it was treated as a model on the Hub"
        )]),
    };
    of_hub(text, wanted, ui).map_err(taken)
}

/// A model of the Hub, by its address.
fn of_hub(text: &str, wanted: Wanted<'_>, ui: &Ui) -> Result<Input, Failure> {
    let repo = Repo::parse(text).map_err(failure)?;
    let settings = Settings::from_environment(|name| std::env::var(name).ok()).map_err(failure)?;
    let found = hub::cached(&settings.cache, &repo);
    let is_asked = cfg!(feature = "remote") && !settings.offline;
    let lacks = found.as_ref().and_then(|snapshot| snapshot.lacks(wanted.weights)).filter(|_| is_asked);
    match (found, lacks) {
        (Some(Snapshot { path, commit, .. }), None) => {
            ui.note(&format!("{repo}: read from the local Hugging Face cache, {}", path.display()));
            let input = Input::local(Folder::at(path).named(repo.name()));
            return Ok(Input { commit: Some(commit), ..input });
        }
        (Some(_), Some(lacks)) => ui.detail(&format!("{repo}: not in the local Hugging Face cache: {lacks}")),
        (None, _) => {}
    }
    if is_asked {
        return remote(&repo, &settings, wanted, ui);
    }
    let reason = match settings.offline {
        true => "HF_HUB_OFFLINE is set",
        false => "built without the feature `remote`",
    };
    Err(failure(HubError::NotCached { repo: repo.to_string(), cache: settings.cache, reason }))
}

#[cfg(feature = "remote")]
fn remote(repo: &Repo, settings: &Settings, wanted: Wanted<'_>, ui: &Ui) -> Result<Input, Failure> {
    use crate::ui::{cancel_on_interrupt, human_bytes};

    let temporary = std::env::temp_dir();
    // Next to the output, whose disk must have room anyway; where nothing is written little comes.
    let place = wanted.out.map(|out| if out.as_os_str().is_empty() { Path::new(".") } else { out });
    let storage = place.and_then(|out| out.ancestors().find(|folder| folder.is_dir()));
    let storage = match storage {
        Some(folder) => folder.to_owned(),
        None if place.is_some() => ".".into(),
        None => temporary.clone(),
    };
    let options = hub::RemoteOptions::new(temporary, storage)
        .whole_weights(wanted.weights)
        .keep(wanted.keep)
        .cancel(cancel_on_interrupt());
    let remote = hub::Remote::open(settings, repo, &options).map_err(failure)?;
    let ((n_whole, whole_bytes), (n_ranges, range_bytes)) = (remote.whole(), remote.by_ranges());
    let (commit, endpoint) = (remote.commit(), &settings.endpoint);
    ui.note(&format!(
        "{repo}: read from {endpoint}, commit {commit}: {n_whole} files ({}) complete, checksums verified",
        human_bytes(whole_bytes)
    ));
    if n_ranges > 0 {
        let checked = if wanted.keep {
            "checksums are verified at the end"
        } else {
            "verified only by length and ETag"
        };
        ui.note(&format!(
            "{repo}: {n_ranges} weight files ({}) are streamed, {checked}",
            human_bytes(range_bytes)
        ));
    }
    let (folder, commit) = (remote.folder().clone(), Some(commit.to_string()));
    Ok(Input { folder, commit, remote: Some((remote, wanted.keep)) })
}

#[cfg(not(feature = "remote"))]
fn remote(repo: &Repo, settings: &Settings, _: Wanted<'_>, _: &Ui) -> Result<Input, Failure> {
    let why = "built without the feature `remote`";
    Err(failure(HubError::NotCached { repo: repo.to_string(), cache: settings.cache.clone(), why }))
}
