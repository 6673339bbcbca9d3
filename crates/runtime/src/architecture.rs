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

/// Sizes of a model, by which llama.cpp tells members of a family apart if no key does.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Number of layers, without those of multi-token prediction.
    pub n_layer: usize,
    /// Number of experts, 0 without any.
    pub n_experts: usize,
    /// Rows of the token embedding.
    pub n_vocab: u64,
}

impl Size {
    fn read(keys: &Keys<'_>, weights: &Weights<'_>) -> Result<Size, Error> {
        let count = |key| Ok::<_, Error>(keys.count(key)?.unwrap_or(0));
        Ok(Size {
            n_layer: count("block_count")?.saturating_sub(count("nextn_predict_layers")?),
            n_experts: count("expert_count")?,
            n_vocab: weights.shape("token_embd.weight").map_or(0, |shape| shape.dim(1)),
        })
    }
}

/// An architecture that can be run.
#[derive(Clone, Copy)]
pub struct Architecture {
    /// The value of `general.architecture`.
    pub name: &'static str,
    /// Properties of the shared decoder, which also runs encoders.
    spec: Spec,
    /// The properties of a model of some size.
    sized: Option<fn(Size, Spec) -> Spec>,
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
        Architecture { name, spec, sized: None, own: None }
    }

    /// Changes the properties by the size of a model.
    #[must_use]
    pub const fn sized(self, sized: fn(Size, Spec) -> Spec) -> Architecture {
        Architecture { sized: Some(sized), ..self }
    }

    /// An architecture with a separate graph.
    pub const fn own(name: &'static str, open: Open) -> Architecture {
        Architecture { name, spec: Spec::DECODER, sized: None, own: Some(open) }
    }

    /// Reads the graph of a file.
    pub(crate) fn open(&self, keys: &Keys<'_>, weights: &mut Weights<'_>) -> Result<Prepared, Error> {
        match (self.own, self.sized) {
            (Some(open), _) => open(keys, weights),
            (None, Some(sized)) => decoder::open(sized(Size::read(keys, weights)?, self.spec), keys, weights),
            (None, None) => decoder::open(self.spec, keys, weights),
        }
    }

    /// Properties of this architecture's classifier.
    pub(crate) fn classifier(&self) -> ClassifierSpec {
        self.spec.classifier
    }
}
