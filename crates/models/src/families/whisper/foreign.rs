//! Whisper in the format of whisper.cpp, which does not read GGUF.
//!
//! ```text
//! magic "ggml" as u32, 11 numbers (i32): vocabulary, then context, state, heads and layers of audio and of text, mel bands, type
//! mel filters: bands, frequencies (i32), values (bands, frequencies) f32
//! tokens: their number (i32), then length (i32) and bytes of each
//! tensors: number of dimensions, length of the name, type (i32), dimensions with the row length first (i32), name, data
//! ```
//!
//! Tensors have the names of OpenAI's checkpoints and follow each other without padding, in the order of `state_dict`. Vectors,
//! biases of convolutions, as (n, 1), and position embeddings are F32, kernels of convolutions F16, all other matrices have the
//! type of the file. In F32 files everything is F32. All values are rounded to F16 first, those of F32 tensors too.
//!
//! The number of the type is that of `enum ggml_ftype`, in quantized files plus 1000 times the version of the blocks, 2. The
//! context of the text is `max_target_positions`, the number of position embeddings; the converter writes `max_length`, which is
//! the same number in OpenAI's checkpoints.
//!
//! Source: `models/convert-h5-to-ggml.py`, `whisper_model_load` in `src/whisper.cpp`, `examples/quantize/quantize.cpp` and
//! `ggml_common_quantize_0` in `examples/common-ggml.cpp` of ggml-org/whisper.cpp@233fe1f; `mel` in librosa 0.11 for the filters.

use std::collections::BTreeMap;

use gguf_layout::{ForeignFormat, ForeignLayout, ForeignType, Layout, OutTensor};
use gguf_types::DType;

use super::convert;
use crate::prelude::*;

pub const WHISPER_CPP: ForeignFormat = ForeignFormat {
    name: "whisper.cpp",
    extension: "bin",
    arch: &ROW,
    via: Some(DType::F16),
    types: TYPES,
    finish,
    dtype,
    tensor_header,
};

/// Types that `whisper-quantize` writes, after those of the converter.
const TYPES: &[ForeignType] = &[
    ForeignType { name: "f16", dtype: DType::F16, number: 1, warning: None },
    ForeignType { name: "f32", dtype: DType::F32, number: 0, warning: Some(F32_ABORTS) },
    quantized("q4_0", DType::Q4_0, 2),
    quantized("q4_1", DType::Q4_1, 3),
    quantized("q5_0", DType::Q5_0, 8),
    quantized("q5_1", DType::Q5_1, 9),
    quantized("q8_0", DType::Q8_0, 7),
    quantized("q2_k", DType::Q2_K, 10),
    quantized("q3_k", DType::Q3_K, 11),
    quantized("q4_k", DType::Q4_K, 12),
    quantized("q5_k", DType::Q5_K, 13),
    quantized("q6_k", DType::Q6_K, 14),
];

/// A type with the version of its blocks (`GGML_QNT_VERSION`, `GGML_QNT_VERSION_FACTOR`).
const fn quantized(name: &'static str, dtype: DType, number: u32) -> ForeignType {
    ForeignType { name, dtype, number: 2 * 1000 + number, warning: None }
}

/// `ggml_compute_forward_conv_1d` accepts kernels in F16 only (ggml-org/whisper.cpp issue 2557).
const F32_ABORTS: &str = "whisper.cpp aborts on the convolutions of f32 files on CPUs; use f16";

/// The usual row with OpenAI's names. `enc.` and `dec.` stand for `encoder.` and `decoder.`.
const ROW: Arch = Arch {
    tensors: &[ENCODER_START, ENCODER_LAYERS, ENCODER_END, DECODER_START, DECODER_LAYERS, DECODER_END],
    embedding: "dec.token_embedding.weight",
    // Tokens are in the header.
    vocab: Route::NONE,
    ..convert::WHISPER
};

// The parts and their rows are in the order of the modules in transformers.

const ENCODER_START: &[TensorRule] = &[
    TensorRule::copy(&["model.encoder.conv1"], "enc.conv1"),
    TensorRule::copy(&["model.encoder.conv2"], "enc.conv2"),
    TensorRule::copy(&["model.encoder.embed_positions"], "enc.positional_embedding").float(FloatType::F32),
];

const ENCODER_LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["model.encoder.layers.{bid}.self_attn.k_proj"], "enc.blocks.{bid}.attn.key"),
    TensorRule::copy(&["model.encoder.layers.{bid}.self_attn.v_proj"], "enc.blocks.{bid}.attn.value"),
    TensorRule::copy(&["model.encoder.layers.{bid}.self_attn.q_proj"], "enc.blocks.{bid}.attn.query"),
    TensorRule::copy(&["model.encoder.layers.{bid}.self_attn.out_proj"], "enc.blocks.{bid}.attn.out"),
    TensorRule::copy(&["model.encoder.layers.{bid}.self_attn_layer_norm"], "enc.blocks.{bid}.attn_ln"),
    TensorRule::copy(&["model.encoder.layers.{bid}.fc1"], "enc.blocks.{bid}.mlp.0"),
    TensorRule::copy(&["model.encoder.layers.{bid}.fc2"], "enc.blocks.{bid}.mlp.2"),
    TensorRule::copy(&["model.encoder.layers.{bid}.final_layer_norm"], "enc.blocks.{bid}.mlp_ln"),
];

const ENCODER_END: &[TensorRule] = &[TensorRule::copy(&["model.encoder.layer_norm"], "enc.ln_post")];

const DECODER_START: &[TensorRule] = &[
    TensorRule::copy(&["model.decoder.embed_tokens"], "dec.token_embedding"),
    TensorRule::copy(&["model.decoder.embed_positions"], "dec.positional_embedding").float(FloatType::F32),
];

const DECODER_LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["model.decoder.layers.{bid}.self_attn.k_proj"], "dec.blocks.{bid}.attn.key"),
    TensorRule::copy(&["model.decoder.layers.{bid}.self_attn.v_proj"], "dec.blocks.{bid}.attn.value"),
    TensorRule::copy(&["model.decoder.layers.{bid}.self_attn.q_proj"], "dec.blocks.{bid}.attn.query"),
    TensorRule::copy(&["model.decoder.layers.{bid}.self_attn.out_proj"], "dec.blocks.{bid}.attn.out"),
    TensorRule::copy(&["model.decoder.layers.{bid}.self_attn_layer_norm"], "dec.blocks.{bid}.attn_ln"),
    TensorRule::copy(&["model.decoder.layers.{bid}.encoder_attn.k_proj"], "dec.blocks.{bid}.cross_attn.key"),
    TensorRule::copy(
        &["model.decoder.layers.{bid}.encoder_attn.v_proj"],
        "dec.blocks.{bid}.cross_attn.value",
    ),
    TensorRule::copy(
        &["model.decoder.layers.{bid}.encoder_attn.q_proj"],
        "dec.blocks.{bid}.cross_attn.query",
    ),
    TensorRule::copy(
        &["model.decoder.layers.{bid}.encoder_attn.out_proj"],
        "dec.blocks.{bid}.cross_attn.out",
    ),
    TensorRule::copy(
        &["model.decoder.layers.{bid}.encoder_attn_layer_norm"],
        "dec.blocks.{bid}.cross_attn_ln",
    ),
    TensorRule::copy(&["model.decoder.layers.{bid}.fc1"], "dec.blocks.{bid}.mlp.0"),
    TensorRule::copy(&["model.decoder.layers.{bid}.fc2"], "dec.blocks.{bid}.mlp.2"),
    TensorRule::copy(&["model.decoder.layers.{bid}.final_layer_norm"], "dec.blocks.{bid}.mlp_ln"),
];

const DECODER_END: &[TensorRule] = &[
    TensorRule::copy(&["model.decoder.layer_norm"], "dec.ln"),
    TensorRule::copy(&["proj_out"], OUTPUT).need(Need::Optional).unless_equal("dec.token_embedding"),
];

/// The output matrix; whisper.cpp uses the embedding instead.
const OUTPUT: &str = "dec.proj";

/// Frequencies of the mel filters: bins 0 to 200 of a Fourier transform of 400 samples.
const N_FREQUENCIES: usize = 201;

/// Vocabulary sizes from which whisper.cpp derives the ids of special tokens: English only, several languages, and those of
/// large-v3.
const VOCABULARIES: [u64; 3] = [51864, 51865, 51866];

/// Sizes of a model.
struct Sizes {
    n_vocab: u64,
    n_mels: u64,
    /// Width of encoder and decoder.
    n_state: u64,
    encoder: Side,
    decoder: Side,
}

/// Sizes of the encoder or decoder.
struct Side {
    n_ctx: u64,
    n_head: u64,
    n_layer: u64,
}

impl Sizes {
    /// Reads the keys of the layout, and the shape of the embedding.
    fn of(layout: &Layout) -> Result<Sizes, ArchError> {
        let number = |key: &str| {
            let value = layout.metadata.get(&format!("whisper.{key}"));
            value.and_then(Value::as_u64).ok_or_else(|| missing("d_model"))
        };
        let side = |side: &str| {
            Ok::<_, ArchError>(Side {
                n_ctx: number(&format!("{side}.context_length"))?,
                n_head: number(&format!("{side}.attention.head_count"))?,
                n_layer: number(&format!("{side}.block_count"))?,
            })
        };
        let embedding = layout.tensors.iter().find(|tensor| tensor.name == ROW.embedding);
        Ok(Sizes {
            n_vocab: embedding.map_or(0, |tensor| tensor.shape.n_rows()),
            n_mels: number("encoder.mels_count")?,
            n_state: number("encoder.embedding_length")?,
            encoder: side("encoder")?,
            decoder: side("decoder")?,
        })
    }

    /// The shape that whisper.cpp requires of a tensor, row length first, by its name in the table.
    fn shape(&self, stem: &str, is_bias: bool) -> Vec<u64> {
        let n = self.n_state;
        // Widths saturate: no tensor has them then.
        let wide = n.saturating_mul(4);
        match (stem.rsplit_once('.').map_or(stem, |(_, part)| part), is_bias) {
            ("0", true) => vec![wide],
            ("0", false) => vec![n, wide],
            ("2", false) => vec![wide, n],
            ("conv1", false) => vec![3, self.n_mels, n],
            ("conv2", false) => vec![3, n, n],
            ("positional_embedding", _) if stem.starts_with("enc.") => vec![n, self.encoder.n_ctx],
            ("positional_embedding", _) => vec![n, self.decoder.n_ctx],
            ("token_embedding", _) => vec![n, self.n_vocab],
            ("query" | "key" | "value" | "out", false) => vec![n, n],
            _ => vec![n],
        }
    }
}

/// Bound of the mel filters, which are computed for the header. Whisper has 80 or 128.
const MAX_MELS: u64 = 1024;

/// Checks what whisper.cpp requires, names and orders tensors, and writes the header.
fn finish(input: &Input<'_>, mut layout: Layout) -> Result<ForeignLayout, ArchError> {
    check_mathematics(&input.config)?;
    let sizes = Sizes::of(&layout)?;
    check_sizes(&sizes, &input.config)?;
    for tensor in &mut layout.tensors {
        let (stem, is_bias) = stem_of(&tensor.name);
        if stem == OUTPUT {
            let (format, tensor) = (WHISPER_CPP.name, "proj_out.weight");
            let reason = "differs from the embedding, which whisper.cpp uses as the output";
            return Err(ArchError::NotHeld { format, tensor, reason });
        }
        let expected = sizes.shape(stem, is_bias);
        if tensor.shape.dims() != expected {
            let name = tensor.data.sources().first().unwrap_or(&tensor.name).clone();
            let expected =
                Shape::new(&expected).map_or_else(|error| error.to_string(), |shape| shape.to_string());
            let expected = format!("{expected} (required by whisper.cpp)");
            return Err(ArchError::TensorShape { name, found: tensor.shape, expected });
        }
        if is_bias && stem.starts_with("enc.conv") {
            let shape = Shape::new(&[1, tensor.shape.n_elems()]);
            tensor.shape = shape.map_err(|source| ArchError::Shape { name: tensor.name.clone(), source })?;
        }
    }
    check_biases(&layout)?;
    layout.tensors.sort_by_key(|tensor| place(&tensor.name));
    for tensor in &mut layout.tensors {
        tensor.name = foreign_name(&tensor.name);
    }
    let tokens = gguf_tokenizer::huggingface::own_tokens(&input.tokenizer_files())?;
    if tokens.len() as u64 > sizes.n_vocab {
        let (without_row, tokens, rows) = (Vec::new(), tokens.len() as u64, sizes.n_vocab);
        return Err(VocabError::EmbeddingTooSmall { without_row, tokens, rows }.into());
    }
    // Those concern llama.cpp.
    layout.warnings.clear();
    if !VOCABULARIES.contains(&sizes.n_vocab) {
        layout.warnings.push(format!(
            "whisper.cpp derives the ids of special tokens from a vocabulary size of 51864, 51865 or 51866; this model has {}",
            sizes.n_vocab
        ));
    }
    let (header, type_at) = header(&sizes, &tokens)?;
    Ok(ForeignLayout { layout, header, type_at })
}

/// Refuses config options that whisper.cpp does not implement.
fn check_mathematics(config: &Json) -> Result<(), ArchError> {
    let built_in =
        [("activation_function", json!("gelu"), "gelu"), ("scale_embedding", json!(false), "false")];
    for (key, value, expected) in built_in {
        match config.get(key) {
            Some(found) if !found.is_null() && *found != value => return Err(bad(key, found, expected)),
            _ => {}
        }
    }
    Ok(())
}

/// Refuses sizes that contradict each other.
fn check_sizes(sizes: &Sizes, config: &Json) -> Result<(), ArchError> {
    let stated = |key: &str| config.get(key).unwrap_or(&Json::Null);
    if config.get("vocab_size").and_then(Json::as_u64) != Some(sizes.n_vocab) {
        return Err(bad("vocab_size", stated("vocab_size"), "the number of rows of the embedding"));
    }
    if sizes.n_mels > MAX_MELS {
        return Err(bad("num_mel_bins", stated("num_mel_bins"), "at most 1024"));
    }
    for (key, side) in
        [("encoder_attention_heads", &sizes.encoder), ("decoder_attention_heads", &sizes.decoder)]
    {
        if side.n_head == 0 || !sizes.n_state.is_multiple_of(side.n_head) {
            return Err(bad(key, stated(key), "a divisor of `d_model`"));
        }
    }
    Ok(())
}

/// Refuses layers with other biases than in whisper.cpp: all have one, except keys and embeddings.
fn check_biases(layout: &Layout) -> Result<(), ArchError> {
    let has_bias = |stem: &str| !stem.ends_with(".key") && !stem.ends_with("_embedding");
    let biases =
        layout.tensors.iter().filter_map(|tensor| Some((tensor.name.strip_suffix(".bias")?, tensor)));
    let biases: BTreeMap<&str, &OutTensor> = biases.collect();
    let unused = biases.iter().filter(|(stem, _)| !has_bias(stem));
    let names: Vec<String> = unused.flat_map(|(_, tensor)| tensor.data.sources().to_vec()).collect();
    if !names.is_empty() {
        return Err(ArchError::UnusedTensors { names, dense: None });
    }
    let weights = layout.tensors.iter().filter(|tensor| {
        let stem = tensor.name.strip_suffix(".weight");
        stem.is_some_and(|stem| has_bias(stem) && !biases.contains_key(stem))
    });
    let sources = weights.flat_map(|tensor| tensor.data.sources());
    let names: Vec<String> = sources.map(|name| name.replace(".weight", ".bias")).collect();
    if names.is_empty() { Ok(()) } else { Err(ArchError::MissingTensors { names }) }
}

/// A name without its ending, and true for a bias.
fn stem_of(name: &str) -> (&str, bool) {
    match name.strip_suffix(".bias") {
        Some(stem) => (stem, true),
        None => (name.strip_suffix(".weight").unwrap_or(name), false),
    }
}

/// Position of a tensor in the file: part of the table, layer, row of the part, weight or bias.
fn place(name: &str) -> (usize, u64, usize, bool) {
    let (stem, is_bias) = stem_of(name);
    for (part, rules) in ROW.tensors.iter().enumerate() {
        for (row, rule) in rules.iter().enumerate() {
            let layer = match rule.gguf.split_once("{bid}") {
                None => (stem == rule.gguf).then_some(0),
                Some((before, after)) => stem
                    .strip_prefix(before)
                    .and_then(|rest| rest.strip_suffix(after))
                    .and_then(|layer| layer.parse().ok()),
            };
            if let Some(layer) = layer {
                return (part, layer, row, is_bias);
            }
        }
    }
    (usize::MAX, 0, 0, is_bias)
}

/// The name in the file of a name in the table.
fn foreign_name(name: &str) -> String {
    // Parameters of the model itself, not of a module.
    let name = name
        .strip_suffix("positional_embedding.weight")
        .map_or_else(|| name.to_owned(), |model| format!("{model}positional_embedding"));
    match name.split_once('.') {
        Some(("enc", rest)) => format!("encoder.{rest}"),
        Some(("dec", rest)) => format!("decoder.{rest}"),
        _ => name,
    }
}

/// The type of a tensor.
fn dtype(tensor: &OutTensor, matrices: DType) -> DType {
    let is_vector = tensor.shape.n_dims() < 2 || tensor.name.ends_with(".bias");
    match tensor.shape.n_dims() {
        _ if is_vector || tensor.float == FloatType::F32 => DType::F32,
        2 => matrices,
        _ if matrices == DType::F32 => DType::F32,
        _ => DType::F16,
    }
}

/// Everything before the first tensor, and the position of the type.
fn header(sizes: &Sizes, tokens: &[Vec<u8>]) -> Result<(Vec<u8>, usize), ArchError> {
    let Sizes { n_vocab, n_mels, n_state, encoder, decoder } = sizes;
    let numbers = [
        ("vocab_size", *n_vocab),
        ("max_source_positions", encoder.n_ctx),
        ("d_model", *n_state),
        ("encoder_attention_heads", encoder.n_head),
        ("encoder_layers", encoder.n_layer),
        ("max_target_positions", decoder.n_ctx),
        ("d_model", *n_state),
        ("decoder_attention_heads", decoder.n_head),
        ("decoder_layers", decoder.n_layer),
        ("num_mel_bins", *n_mels),
    ];
    let mut bytes = b"lmgg".to_vec();
    for (key, number) in numbers {
        let number = i32::try_from(number).map_err(|_| bad(key, &json!(number), "a number below 2^31"))?;
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    let type_at = bytes.len();
    bytes.extend_from_slice(&[0; 4]);
    // The shape of the first convolution has this number.
    put(&mut bytes, *n_mels as usize);
    put(&mut bytes, N_FREQUENCIES);
    mel_filters(*n_mels as usize).for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
    put(&mut bytes, tokens.len());
    for token in tokens {
        put(&mut bytes, token.len());
        bytes.extend_from_slice(token);
    }
    Ok((bytes, type_at))
}

/// Appends a number. Callers have checked that it is below 2^31.
fn put(bytes: &mut Vec<u8>, number: usize) {
    bytes.extend_from_slice(&(number as u32).to_le_bytes());
}

/// The header of a tensor.
fn tensor_header(name: &str, shape: &Shape, dtype: DType) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(&mut bytes, shape.n_dims());
    put(&mut bytes, name.len());
    bytes.extend_from_slice(&dtype.id().to_le_bytes());
    shape.dims().iter().for_each(|dim| put(&mut bytes, *dim as usize));
    bytes.extend_from_slice(name.as_bytes());
    bytes
}

/// Mel filters of 16 kHz and windows of 400 samples, (n_mels, 201): triangles of area 1 on Slaney's mel scale, which is linear
/// below 1000 Hz and logarithmic above. The operations are those of librosa, for the same bits.
fn mel_filters(n_mels: usize) -> impl Iterator<Item = f32> {
    const HERTZ_PER_MEL: f64 = 200.0 / 3.0;
    const FIRST_LOG_MEL: f64 = 1000.0 / HERTZ_PER_MEL;
    let log_step = libm::log(6.4) / 27.0;
    let top = FIRST_LOG_MEL + libm::log(8000.0 / 1000.0) / log_step;
    let step = top / (n_mels + 1) as f64;
    let edge = move |i: usize| {
        let mel = if i == n_mels + 1 { top } else { i as f64 * step };
        if mel < FIRST_LOG_MEL {
            HERTZ_PER_MEL * mel
        } else {
            1000.0 * libm::exp(log_step * (mel - FIRST_LOG_MEL))
        }
    };
    let filter = move |band: usize| {
        let (left, center, right) = (edge(band), edge(band + 1), edge(band + 2));
        let height = 2.0 / (right - left);
        (0..N_FREQUENCIES).map(move |k| {
            let hertz = 40.0 * k as f64;
            let rising = -(left - hertz) / (center - left);
            let falling = (right - hertz) / (right - center);
            // The zero at the left end of the first band is negative, and stays so.
            let slope = rising.min(falling);
            let slope = if slope < 0.0 { 0.0 } else { slope };
            (f64::from(slope as f32) * height) as f32
        })
    };
    (0..n_mels).flat_map(filter)
}
