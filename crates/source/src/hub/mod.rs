//! Models of the Hugging Face Hub: their names, and the cache that is already on the disk.

mod cache;
mod error;
mod repo;
mod settings;

pub use cache::{Snapshot, cached};
pub use error::HubError;
pub use repo::Repo;
pub use settings::Settings;
