//! The order of this crate's modules: each uses those below it only.

use std::path::Path;

/// From bottom to top. Modules of one line do not use each other.
const FLOORS: &[&[&str]] = &[
    &["error", "tiles"],
    &["keys", "observer", "threads", "weights", "exact_sum", "state_size"],
    &["ops"],
    &["session", "pooling", "hidden"],
    &["pass"],
    &["graph", "draft_graph"],
    &["classifier", "dense"],
    // The shared decoder: parameters, parts of a layer, what chooses among them, layers, the whole.
    &["decoder::spec"],
    &["decoder::params", "decoder::rope_scaling", "decoder::stack"],
    &["decoder::switch"],
    &["decoder::heads", "decoder::linear", "decoder::repeats", "decoder::routing"],
    &["decoder::ropes", "decoder::mlp", "decoder::mixer"],
    &["decoder::indexer", "decoder::block_indexer", "decoder::ngram"],
    &["decoder::mean_indexer", "decoder::value_experts"],
    &[
        "decoder::attention",
        "decoder::latent",
        "decoder::compressed",
        "decoder::experts",
        "decoder::per_layer_input",
        "decoder::laurel",
    ],
    &["decoder::select", "decoder::mlp_with_experts"],
    &["decoder::layer", "decoder::self_attention"],
    &["decoder::altup", "decoder::hyper_connections", "decoder::gated_streams", "decoder::residual_bank"],
    &["decoder"],
    // Graphs of encoder and decoder; pictures: pixels, patches, layers, towers; sounds: samples, spectrograms, encoders.
    &["cross_attention", "vision::picture", "audio::sound", "audio::spectrogram", "audio::convolution"],
    &["vision::resample", "vision::sizes", "audio::resample", "audio::windows", "audio::encoder"],
    &["vision::patches", "vision::layer", "vision::positions"],
    &["vision::trunk", "vision::tiles", "vision::tower", "audio::listener"],
    &["audio"],
    &["architecture"],
    &["graphs"],
    &["model"],
    &["steps", "memory"],
    &["vision"],
    // Uses of a model.
    &["chunks"],
    &["nonfinite"],
    &["draft"],
    &["stats::softmax", "chat", "generate", "perplexity", "embed", "tensor_error"],
    &["logits_file"],
    &["stats"],
    &["choice", "compare", "continuations", "importance"],
    &["report"],
];

#[test]
fn modules_use_only_those_below() {
    let faults = gguf_testkit::module_order(Path::new(env!("CARGO_MANIFEST_DIR")), FLOORS);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
