//! Models of the Hugging Face Hub.

use std::{
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use source::{
    Folder,
    hub::{HubError, Remote, RemoteOptions, Repo, Settings, cached},
};

use crate::error::{Cause, Error};

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
/// [`Cause::Hub`].
pub fn hub_folder(
    address: &str,
    storage: &Path,
    variable: impl Fn(&str) -> Option<String>,
    cancel: Arc<AtomicBool>,
) -> Result<Folder, Error> {
    let failed = |error: HubError| Error::at(Path::new(address), Cause::Hub(Box::new(error)));
    let repo = Repo::parse(address).map_err(failed)?;
    let settings = Settings::from_environment(variable).map_err(failed)?;
    if let Some(found) =
        cached(&settings.cache, &repo).filter(|snapshot| settings.offline || snapshot.lacks(true).is_none())
    {
        return Ok(Folder::at(found.path).named(repo.name()));
    }
    if settings.offline {
        let (repo, cache) = (repo.to_string(), settings.cache);
        return Err(failed(HubError::NotCached { repo, cache, reason: "HF_HUB_OFFLINE is set" }));
    }
    let options = RemoteOptions::new(storage, storage).cancel(cancel);
    Ok(Remote::open(&settings, &repo, &options).map_err(failed)?.folder().clone())
}
