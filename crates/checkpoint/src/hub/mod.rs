//! Models of the Hugging Face Hub: their names, the local cache, and reading them over the network.
//!
//! [`Repo`] is a model's name, [`Settings`] are read from the environment, [`cached`] finds a model in the
//! cache of the Hub's own library. `Remote` (feature `remote`) reads it over the network: the revision is
//! resolved to a commit once, small files are copied, and weights are fetched by ranges ahead of the rows
//! being read.

mod cache;
mod error;
#[cfg(feature = "remote")]
mod fetch;
#[cfg(feature = "remote")]
mod head;
#[cfg(feature = "remote")]
mod http;
#[cfg(feature = "remote")]
mod listing;
#[cfg(feature = "remote")]
mod remote;
mod repo;
mod settings;
#[cfg(feature = "remote")]
mod transfer;

pub use cache::{Snapshot, cached};
pub use error::HubError;
#[cfg(feature = "remote")]
pub use head::RemoteHead;
#[cfg(feature = "remote")]
pub use remote::{Downloads, Remote, RemoteOptions};
pub use repo::Repo;
pub use settings::{Settings, Token, without_secrets};
