//! Pooling: from the rows of a text to one vector.

use serde::{Deserialize, Serialize};

use crate::{Error, keys::Keys};

/// Pooling of the rows of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Pooling {
    /// They do not: a vector for each token.
    None,
    /// Their mean.
    Mean,
    /// The first.
    Cls,
    /// The last.
    Last,
    /// The scores that the file's classifier gives to one.
    Rank,
}

impl Pooling {
    /// Every way.
    pub const ALL: [Pooling; 5] = [Pooling::None, Pooling::Mean, Pooling::Cls, Pooling::Last, Pooling::Rank];

    /// Its name, as `llama-embedding --pooling` has it.
    pub fn name(self) -> &'static str {
        match self {
            Pooling::None => "none",
            Pooling::Mean => "mean",
            Pooling::Cls => "cls",
            Pooling::Last => "last",
            Pooling::Rank => "rank",
        }
    }

    /// Pooling by the key `pooling_type`, whose values index [`Pooling::ALL`].
    pub(crate) fn of_file(keys: &Keys<'_>) -> Result<Option<Pooling>, Error> {
        let Some(n) = keys.count("pooling_type")? else { return Ok(None) };
        let pooling = Pooling::ALL.get(n).copied();
        pooling.map(Some).ok_or_else(|| keys.wrong("pooling_type", "a number from 0 to 4"))
    }
}
