//! Inputs that are named by an address of the Hugging Face Hub.

use std::path::{Path, PathBuf};

use gguf_checkpoint::{
    Folder,
    hub::{self, HubError, Repo, Settings, Snapshot, Token},
};
use serde::{Deserialize, Serialize, Serializer};

use crate::{call::Call, error::Error, events::Events, input_kind::is_like_a_hub_name, text::human_bytes};

/// True if a text is a Hub address: `hf://OWNER/MODEL[@REVISION]`, or the address of the model's page.
pub fn is_hub_address(text: &str) -> bool {
    Repo::is_address(text)
}

/// Access to the Hugging Face Hub. The default is anonymous access to the public Hub without a local cache.
///
/// # Examples
/// ```
/// use gguf_toolkit::hub::HubOptions;
///
/// // The variables of the Hub's own library: HF_TOKEN, HF_HOME, HF_HUB_CACHE, HF_ENDPOINT, HF_HUB_OFFLINE and others.
/// let mut hub = HubOptions::from_environment(|name| std::env::var(name).ok());
/// hub.revision = Some("main".to_owned());
/// ```
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HubOptions {
    /// Token of an account. It is neither serialized nor printed.
    #[serde(skip_serializing)]
    pub token: Option<String>,
    /// File with the token, read when the Hub is contacted; it may be missing. `token` takes precedence.
    pub token_file: Option<PathBuf>,
    /// Branch, tag or commit of models whose address has none. Default: `main`.
    pub revision: Option<String>,
    /// Folder of the local cache, in the layout of the Hub's own library. Without it, models are always streamed.
    pub cache_dir: Option<PathBuf>,
    /// Address of the Hub. Default: `https://huggingface.co`. User and password in it are neither serialized nor printed.
    #[serde(serialize_with = "without_secrets")]
    pub endpoint: Option<String>,
    /// PEM file with trusted certificates. Default: those of Mozilla.
    pub certificates: Option<PathBuf>,
    /// Do not contact the Hub.
    pub offline: bool,
    /// Folder for temporary files. Default: the folder of the output.
    pub temporary: Option<PathBuf>,
}

impl std::fmt::Debug for HubOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let HubOptions { token, token_file, revision, cache_dir, endpoint, certificates, offline, temporary } =
            self;
        f.debug_struct("HubOptions")
            .field("has_token", &token.is_some())
            .field("token_file", token_file)
            .field("revision", revision)
            .field("cache_dir", cache_dir)
            .field("endpoint", &endpoint.as_deref().map(hub::without_secrets))
            .field("certificates", certificates)
            .field("offline", offline)
            .field("temporary", temporary)
            .finish()
    }
}

impl HubOptions {
    /// Options from environment variables, which `variable` returns by name. The names and rules are those of the
    /// Hub's own library.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> HubOptions {
        let Settings { cache, endpoint, offline, certificates, token, .. } =
            Settings::from_environment(variable);
        let (token, token_file) = match token {
            Token::None => (None, None),
            Token::Value(token) => (Some(token), None),
            Token::File(path) => (None, Some(path)),
        };
        HubOptions {
            token,
            token_file,
            cache_dir: Some(cache),
            endpoint: Some(endpoint),
            certificates,
            offline,
            ..HubOptions::default()
        }
    }

    /// The same as settings of the Hub's client.
    pub fn settings(&self) -> Settings {
        let mut settings = Settings::new(self.cache_dir.clone().unwrap_or_default());
        if let Some(endpoint) = &self.endpoint {
            settings.endpoint = endpoint.trim_end_matches('/').to_owned();
        }
        settings.offline = self.offline;
        settings.certificates.clone_from(&self.certificates);
        settings.token = match (&self.token, &self.token_file) {
            (Some(token), _) => Token::Value(token.clone()),
            (None, Some(file)) => Token::File(file.clone()),
            (None, None) => Token::None,
        };
        settings
    }

    /// Folder for temporary files.
    #[cfg(feature = "remote")]
    fn temporary(&self) -> &Path {
        self.temporary.as_deref().unwrap_or(Path::new("."))
    }
}

fn without_secrets<S: Serializer>(endpoint: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    endpoint.as_deref().map(hub::without_secrets).serialize(serializer)
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

    /// Always false: this build reads nothing over the network.
    #[cfg(not(feature = "remote"))]
    pub fn is_remote(&self) -> bool {
        false
    }

    /// Adds this input to the inputs of a call.
    pub fn name_in(&self, call: Call) -> Call {
        #[cfg(feature = "remote")]
        if let Some((remote, is_kept)) = &self.remote {
            let mut call = call;
            if *is_kept {
                call.downloads.push(remote.downloads().clone());
            }
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
            events.status(format!("kept {}", snapshot.display()));
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
    options: &HubOptions,
    events: &dyn Events,
) -> Result<Input, Error> {
    let text = path.to_str().unwrap_or_default();
    let is_local = !Repo::is_address(text) && !is_like_a_hub_name(path);
    let taken = |failure: Error| {
        if Repo::is_address(text) || failure.is_interrupted() {
            failure
        } else {
            failure.hint([format!(
            "if `{text}` is meant to be a local folder, check the path; it was treated as a model on the Hub"
        )])
        }
    };
    let input = if is_local {
        Input::local(named(path, events))
    } else {
        of_hub(text, wanted, options, events).map_err(taken)?
    };
    Ok(Input { folder: input.folder.forms(gguf_models::FORMS), ..input })
}

/// A local folder. In the caches of the Hub and of ModelScope (which writes `.` as `___`), the name of a folder is not that of its
/// model.
fn named(path: &Path, events: &dyn Events) -> Folder {
    let of_folder =
        || Some(path.file_name()?.to_str().filter(|name| name.contains("___"))?.replace("___", "."));
    match Repo::name_in_cache(path).or_else(of_folder) {
        Some(name) => {
            events.note(format!("{}: folder of a cache; the model is named `{name}`", path.display()));
            Folder::at(path).named(&name)
        }
        None => Folder::at(path),
    }
}

/// A model of the Hub, by its address.
fn of_hub(text: &str, wanted: Wanted<'_>, options: &HubOptions, events: &dyn Events) -> Result<Input, Error> {
    let repo = Repo::parse(text).and_then(|repo| repo.or_revision(options.revision.as_deref()));
    let repo = repo.map_err(Error::new)?;
    let settings = options.settings();
    let found = options.cache_dir.as_ref().and_then(|cache| hub::cached(cache, &repo));
    let is_asked = cfg!(feature = "remote") && !settings.offline;
    let lacks = found.as_ref().and_then(|snapshot| snapshot.lacks(wanted.weights)).filter(|_| is_asked);
    match (found, lacks) {
        (Some(Snapshot { path, commit, .. }), None) => {
            events.note(format!("{repo}: read from the local Hugging Face cache, {}", path.display()));
            let input = Input::local(Folder::at(path).named(repo.name()));
            return Ok(Input { commit: Some(commit), ..input });
        }
        (Some(_), Some(lacks)) => {
            events.detail(format!("{repo}: not in the local Hugging Face cache: {lacks}"))
        }
        (None, _) => {}
    }
    if is_asked {
        if wanted.keep && options.cache_dir.is_none() {
            return Err(Error::usage("downloads cannot be kept: missing cache folder"));
        }
        return remote(&repo, &settings, wanted, options, events);
    }
    let reason =
        if settings.offline { "HF_HUB_OFFLINE is set" } else { "built without the feature `remote`" };
    Err(Error::new(HubError::NotCached { repo: repo.to_string(), cache: settings.cache, reason }))
}

#[cfg(feature = "remote")]
fn remote(
    repo: &Repo,
    settings: &Settings,
    wanted: Wanted<'_>,
    options: &HubOptions,
    events: &dyn Events,
) -> Result<Input, Error> {
    // Next to the output, whose disk needs the space anyway. A run that writes nothing downloads little.
    let place = wanted.out.map(|out| if out.as_os_str().is_empty() { Path::new(".") } else { out });
    let storage = place.and_then(|out| out.ancestors().find(|folder| folder.is_dir()));
    let storage = match storage {
        Some(folder) => folder.to_owned(),
        None if place.is_some() => ".".into(),
        None => options.temporary().to_owned(),
    };
    let options = hub::RemoteOptions::new(options.temporary().to_owned(), storage)
        .whole_weights(wanted.weights)
        .keep(wanted.keep)
        .forms(gguf_models::FORMS)
        .cancel(events.cancel());
    let remote = hub::Remote::open(settings, repo, &options).map_err(Error::new)?;
    let ((n_whole, whole_bytes), (n_ranges, range_bytes)) = (remote.whole(), remote.by_ranges());
    let (commit, endpoint) = (remote.commit(), hub::without_secrets(&settings.endpoint));
    events.note(format!(
        "{repo}: read from {endpoint}, commit {commit}: {n_whole} files ({}) complete, checksums verified",
        human_bytes(whole_bytes)
    ));
    if n_ranges > 0 {
        let checked = if wanted.keep {
            "checksums are verified at the end"
        } else {
            "verified only by length and ETag"
        };
        events.note(format!(
            "{repo}: {n_ranges} weight files ({}) are streamed, {checked}",
            human_bytes(range_bytes)
        ));
    }
    let (folder, commit) = (remote.folder().clone(), Some(commit.to_string()));
    Ok(Input { folder, commit, remote: Some((remote, wanted.keep)) })
}

#[cfg(not(feature = "remote"))]
fn remote(
    repo: &Repo,
    settings: &Settings,
    _: Wanted<'_>,
    _: &HubOptions,
    _: &dyn Events,
) -> Result<Input, Error> {
    let reason = "built without the feature `remote`";
    Err(Error::new(HubError::NotCached { repo: repo.to_string(), cache: settings.cache.clone(), reason }))
}
