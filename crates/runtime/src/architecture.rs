//! Rows of architectures, which callers pass in.

use crate::{
    Error,
    audio::listener::EncoderKind,
    classifier::ClassifierSpec,
    decoder::{self, Spec},
    draft_graph::DraftKind,
    graph::Prepared,
    keys::Keys,
    vision::tower::ProjectorKind,
    weights::Weights,
};

/// Reads the graph of a file.
pub type Open = fn(&Keys<'_>, &mut Weights<'_>) -> Result<Prepared, Error>;

/// An architecture that can be run.
#[derive(Clone, Copy)]
pub struct Architecture {
    /// The value of `general.architecture`.
    pub name: &'static str,
    /// Properties of the shared decoder, which also runs encoders.
    spec: Spec,
    /// A separate graph instead.
    own: Option<Open>,
}

/// Every architecture and every projector that can be run.
#[derive(Clone, Copy)]
pub struct Graphs {
    /// Architectures, sorted by name.
    pub architectures: &'static [Architecture],
    /// Projectors, sorted by name.
    pub projectors: &'static [ProjectorKind],
    /// Draft models that read states of their target, sorted by name.
    pub drafts: &'static [DraftKind],
    /// Audio encoders with their projectors, sorted by name.
    pub encoders: &'static [EncoderKind],
}

impl std::fmt::Debug for Graphs {
    /// Numbers of rows.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let n = [self.architectures.len(), self.projectors.len(), self.encoders.len(), self.drafts.len()];
        f.debug_tuple("Graphs").field(&n).finish()
    }
}

impl Graphs {
    /// The row of a file's architecture.
    ///
    /// # Errors
    /// [`Error::UnknownArchitecture`], [`Error::Key`] for more layers than the file has tensors.
    pub(crate) fn find(
        &self,
        keys: &Keys<'_>,
        weights: &Weights<'_>,
    ) -> Result<&'static Architecture, Error> {
        // Lists with an item for each layer are made before the tensors of layers are read: a header that claims too
        // many layers must not decide how much is allocated.
        if keys.count("block_count")?.is_some_and(|n| n > weights.n_tensors()) {
            return Err(keys.wrong("block_count", "at most the number of tensors"));
        }
        let row = self.architectures.iter().find(|row| row.name == keys.architecture);
        if row.is_none() && self.drafts.iter().any(|row| row.name == keys.architecture) {
            return Err(Error::DraftAlone { architecture: keys.architecture.clone() });
        }
        row.ok_or_else(|| Error::UnknownArchitecture { name: keys.architecture.clone() })
    }
}

impl Architecture {
    /// An architecture of the shared decoder.
    pub const fn decoder(name: &'static str, spec: Spec) -> Architecture {
        Architecture { name, spec, own: None }
    }

    /// An architecture with a separate graph.
    pub const fn own(name: &'static str, open: Open) -> Architecture {
        Architecture { name, spec: Spec::DECODER, own: Some(open) }
    }

    /// Reads the graph of a file.
    pub(crate) fn open(&self, keys: &Keys<'_>, weights: &mut Weights<'_>) -> Result<Prepared, Error> {
        match self.own {
            None => decoder::open(self.spec, keys, weights),
            Some(open) => open(keys, weights),
        }
    }

    /// Properties of this architecture's classifier.
    pub(crate) fn classifier(&self) -> ClassifierSpec {
        self.spec.classifier
    }
}
