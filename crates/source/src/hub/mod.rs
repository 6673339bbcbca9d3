//! Models of the Hugging Face Hub: their names, the cache that is already on the disk, and reading them over the network.
//!
//! [`Repo`] is what a model is called, [`Settings`] what the environment says, [`cached`] finds it in the cache, as the Hub's
//! own library leaves it there. [`Remote`] (feature `remote`) reads it where it is: the revision becomes a commit once, small files
//! are copied, and of weights those ranges come that rows are read of, ahead of whoever reads them.

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
pub use remote::{Remote, RemoteOptions};
pub use repo::Repo;
pub use settings::Settings;
