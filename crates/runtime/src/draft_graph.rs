//! The interface of draft models that read states of their target, the model for which they propose tokens.
//!
//! A target runs tokens and keeps the inputs of some of its layers. The draft reads them with the tokens that follow, and
//! proposes further tokens. It has its own session.

use crate::{
    Error,
    keys::Keys,
    ops::Rows,
    pass::{Pass, Span},
    session::{Activations, Session},
    weights::Weights,
};

/// A draft model.
pub trait Draft: Send + Sync {
    /// Layers of the target whose inputs the draft reads, in the draft's order. The number of layers of the target means the output
    /// of the last one.
    fn target_layers(&self) -> &[usize];

    /// Embedding length of the target.
    fn target_width(&self) -> usize;

    /// The largest number of tokens that can be proposed at once; `None` for any number.
    fn most_tokens(&self) -> Option<usize> {
        None
    }

    /// Reads the states of the tokens that the target has run since the last call, and proposes at most `n` tokens. Afterwards, the
    /// session has as many tokens as the target has run.
    fn propose(&self, read: &Read<'_>, session: &mut Session, n: usize) -> Result<Vec<u32>, Error>;
}

/// The target's token for each of the `n_own` tokens of a draft (`d2t`), or `None` if both have the same tokens.
///
/// # Errors
/// [`Error::MissingTensor`] if the draft has another number of tokens than its target (`n_vocab`), [`Error::TokenRange`],
/// [`Error::TensorShape`], [`Error::TensorType`].
pub fn target_ids(
    weights: &mut Weights<'_>,
    n_own: usize,
    n_vocab: usize,
) -> Result<Option<Vec<u32>>, Error> {
    let Some(ids) = weights.long_integers("d2t", n_own)? else {
        return if n_own == n_vocab {
            Ok(None)
        } else {
            Err(Error::MissingTensor { name: "d2t".to_owned() })
        };
    };
    let checked = ids.into_iter().map(|id| {
        let id = u32::try_from(id).unwrap_or(u32::MAX);
        if (id as usize) < n_vocab { Ok(id) } else { Err(Error::TokenRange { id, n_vocab }) }
    });
    Ok(Some(checked.collect::<Result<Vec<u32>, Error>>()?))
}

/// Tokens that the target has run since the draft's last call.
pub struct Read<'a> {
    /// Inputs of the layers in [`Draft::target_layers`]: (n, layers * width), with the inputs of a token next to each other.
    pub states: &'a Rows,
    /// The token after each: (n). The target has not run the last one yet.
    pub next: &'a [u32],
    /// Precision of the inputs of products with weights.
    pub activations: Activations,
}

impl Read<'_> {
    /// Runs tokens after those of a session, and adds them to it.
    ///
    /// # Errors
    /// The errors of `work`.
    pub fn run<R>(
        &self,
        session: &mut Session,
        tokens: &[u32],
        work: impl FnOnce(&mut Pass<'_, '_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let n = tokens.len();
        let spans = vec![Span { rows: 0..n, position: session.n_past, outputs: 0..n }];
        let mut pass = Pass::new(tokens.to_vec(), spans, self.activations, None, Some(session));
        let result = work(&mut pass)?;
        drop(pass);
        session.n_past += n;
        Ok(result)
    }
}

/// Reads a draft: from the keys and tensors of its file, and from the tensors of its target, which it may share.
pub type OpenDraft = fn(&Keys<'_>, &mut Weights<'_>, &mut Weights<'_>) -> Result<Box<dyn Draft>, Error>;

/// A kind of draft models that read states of their target.
#[derive(Clone, Copy)]
pub struct DraftKind {
    /// The value of `general.architecture`.
    pub name: &'static str,
    /// Reads one.
    pub open: OpenDraft,
}
