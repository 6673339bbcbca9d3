//! Graphs of the models of this family.

use gguf_runtime::graphs::{
    Architecture, EmbeddingScale, LogitScale, ResidualScale, RopeKind, RopeLayers, Spec,
};

pub const GRAPHS: &[Architecture] = &[
    Architecture::decoder("minicpm", MINICPM),
    Architecture::decoder(
        "minicpm3",
        // `dim_model_base` is 256 in all models.
        Spec { rope: Some(RopeKind::Neox), logit_scale: LogitScale::OverWidth(256.0), ..MINICPM },
    ),
];

/// Defaults of older files: `scale_emb` 12 and `scale_depth` 1.4 of MiniCPM 2B.
const MINICPM: Spec = Spec {
    logit_scale: LogitScale::Divide,
    rope_layers: RopeLayers::All,
    embedding_scale: EmbeddingScale::Key(12.0),
    residual_scale: ResidualScale::OverSqrtLayers(1.4),
    ..Spec::DECODER
};
