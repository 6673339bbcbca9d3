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
    /// Layers of the target whose inputs the draft reads, in its order. The number of layers stands for the output of the
    /// last one.
    fn target_layers(&self) -> &[usize];

    /// Length of a row of the target.
    fn target_width(&self) -> usize;

    /// The largest number of tokens that can be proposed at once; `None` for any number.
    fn most_tokens(&self) -> Option<usize> {
        None
    }

    /// Reads what the target has run since the last call, and proposes at most `n` tokens. The session has as many tokens
    /// afterwards as the target has run.
    ///
    /// # Errors
    /// As [`Model::run`](crate::Model::run).
    fn propose(&self, read: &Read<'_>, session: &mut Session, n: usize) -> Result<Vec<u32>, Error>;
}

/// Tokens that the target has run since the draft's last call.
pub struct Read<'a> {
    /// Inputs of the draft's layers of the target: (n, layers * width), those of a token next to each other.
    pub states: &'a Rows,
    /// The token after each of them: (n). The target has not run the last one.
    pub next: &'a [u32],
    /// Inputs of products with weights.
    pub activations: Activations,
}

impl Read<'_> {
    /// Runs tokens after those of a session, which has them afterwards.
    ///
    /// # Errors
    /// Those of `work`.
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

/// Reads a draft from its file's keys and tensors, and from the tensors of its target for those that they share.
pub type OpenDraft = fn(&Keys<'_>, &mut Weights<'_>, &mut Weights<'_>) -> Result<Box<dyn Draft>, Error>;

/// A kind of draft models that read states of their target.
#[derive(Clone, Copy)]
pub struct DraftKind {
    /// The value of `general.architecture`.
    pub name: &'static str,
    /// Reads one.
    pub open: OpenDraft,
}
