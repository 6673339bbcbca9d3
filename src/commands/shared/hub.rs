//! Inputs that are named by an address of the Hugging Face Hub.

use std::path::Path;

use source::{
    Folder,
    hub::{self, HubError, Repo, Settings},
};

use crate::{commands::shared::input_kind::is_like_a_hub_name, failure::Failure, ui::Ui};

/// The folder that an argument means: `hf://OWNER/MODEL[@REVISION]`, or OWNER/MODEL where no such folder is here, means the
/// model in the Hub's cache; everything else is a path.
///
/// # Errors
/// An address that names no model, or a model that cannot be had.
pub(in crate::commands) fn folder_of(path: &Path, ui: &Ui) -> Result<Folder, Failure> {
    let text = path.to_str().unwrap_or_default();
    if !Repo::is_address(text) && !is_like_a_hub_name(path) {
        return Ok(Folder::at(path));
    }
    let failed = |error: HubError| Failure::new(&error).hint(error.hint());
    let repo = Repo::parse(text).map_err(failed)?;
    let settings = Settings::from_environment(|name| std::env::var(name).ok()).map_err(failed)?;
    let Some(snapshot) = hub::cached(&settings.cache, &repo) else {
        let why = if settings.offline { "HF_HUB_OFFLINE is set" } else { "nothing is downloaded" };
        return Err(failed(HubError::NotCached { repo: repo.to_string(), cache: settings.cache, why }));
    };
    ui.note(&format!("{repo}: read from the Hub's cache, {}", snapshot.path.display()));
    Ok(Folder::at(snapshot.path).named(repo.name()))
}
