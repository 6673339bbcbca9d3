//! Writes a llama-shaped checkpoint of seeded bf16 weights for benchmarks: `make_checkpoint TOKENIZER_MODEL
//! OUT_DIR [LAYERS]`.
//!
//! With the default of 24 layers it has 1.17 G parameters in three safetensors files with an index. The
//! tokenizer is a small SentencePiece model; converters pad its vocabulary to the embedding's rows. The file
//! `imatrix.dat` contains seeded importance weights in the reference's older format.

use std::{
    env,
    fmt::Write as _,
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::Path,
    thread,
};

const HIDDEN: usize = 2048;
const FFN: usize = 5632;
const KV: usize = 256;
const HEADS: usize = 32;
const KV_HEADS: usize = 4;
const VOCAB: usize = 28_672;
const SHARDS: usize = 3;

struct Tensor {
    name: String,
    dims: Vec<usize>,
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [tokenizer, out, layers @ ..] = arguments.as_slice() else {
        return Err(io::Error::other("usage: make_checkpoint TOKENIZER_MODEL OUT_DIR [LAYERS]"));
    };
    let layers = layers.first().map_or(Ok(24), |text| text.parse()).map_err(io::Error::other)?;
    let out = Path::new(out);
    fs::create_dir_all(out)?;
    fs::copy(tokenizer, out.join("tokenizer.model"))?;
    fs::write(out.join("config.json"), config(layers))?;

    fs::write(out.join("imatrix.dat"), imatrix(layers))?;

    let tensors = tensors(layers);
    let per_shard = tensors.len().div_ceil(SHARDS);
    let mut index = String::from("{\"metadata\": {}, \"weight_map\": {");
    for (shard, tensors) in tensors.chunks(per_shard).enumerate() {
        let file = format!("model-{:05}-of-{SHARDS:05}.safetensors", shard + 1);
        for tensor in tensors {
            let comma = if index.ends_with('{') { "" } else { ", " };
            let _ = write!(index, "{comma}\"{}\": \"{file}\"", tensor.name);
        }
        write_shard(&out.join(file), tensors, (shard * per_shard) as u64)?;
    }
    index.push_str("}}");
    fs::write(out.join("model.safetensors.index.json"), index)
}

fn tensors(layers: usize) -> Vec<Tensor> {
    let tensor = |name: String, dims: &[usize]| Tensor { name, dims: dims.to_vec() };
    let mut all = vec![tensor("model.embed_tokens.weight".into(), &[VOCAB, HIDDEN])];
    for layer in 0..layers {
        let parts: [(&str, &[usize]); 9] = [
            ("input_layernorm", &[HIDDEN]),
            ("mlp.down_proj", &[HIDDEN, FFN]),
            ("mlp.gate_proj", &[FFN, HIDDEN]),
            ("mlp.up_proj", &[FFN, HIDDEN]),
            ("post_attention_layernorm", &[HIDDEN]),
            ("self_attn.k_proj", &[KV, HIDDEN]),
            ("self_attn.o_proj", &[HIDDEN, HIDDEN]),
            ("self_attn.q_proj", &[HIDDEN, HIDDEN]),
            ("self_attn.v_proj", &[KV, HIDDEN]),
        ];
        all.extend(parts.map(|(part, dims)| tensor(format!("model.layers.{layer}.{part}.weight"), dims)));
    }
    all.push(tensor("model.norm.weight".into(), &[HIDDEN]));
    all.push(tensor("lm_head.weight".into(), &[VOCAB, HIDDEN]));
    all
}

/// Writes one shard; `first` is the position of its first tensor, which seeds the values.
fn write_shard(path: &Path, tensors: &[Tensor], first: u64) -> io::Result<()> {
    let mut header = String::from("{\"__metadata__\": {\"format\": \"pt\"}");
    let mut end = 0;
    for Tensor { name, dims } in tensors {
        let start = end;
        end += dims.iter().product::<usize>() * 2;
        let _ = write!(
            header,
            ", \"{name}\": {{\"dtype\": \"BF16\", \"shape\": {dims:?}, \"data_offsets\": [{start}, {end}]}}"
        );
    }
    header.push('}');
    while !header.len().is_multiple_of(8) {
        header.push(' ');
    }
    let mut file = BufWriter::new(File::create(path)?);
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    for (tensor, seed) in tensors.iter().zip(first..) {
        file.write_all(&values(seed, tensor.dims.iter().product()))?;
    }
    file.flush()
}

/// `n` bf16 numbers, generated on all cores; the bytes do not depend on the number of cores.
fn values(seed: u64, n: usize) -> Vec<u8> {
    let mut bytes = vec![0; 2 * n];
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let per_thread = n.div_ceil(threads);
    thread::scope(|scope| {
        for (part, bytes) in bytes.chunks_mut(2 * per_thread).enumerate() {
            scope.spawn(move || {
                for (i, pair) in bytes.chunks_exact_mut(2).enumerate() {
                    let value = gguf_testkit::normal(seed, (part * per_thread + i) as u64);
                    pair.copy_from_slice(&value.to_bits().to_le_bytes()[2..]);
                }
            });
        }
    });
    bytes
}

/// Importance weights for every matrix of every layer, in the format of `llama-imatrix` before GGUF: the
/// number of entries; for each its name, calls, length and sums; the last chunk and the name of the text.
fn imatrix(layers: usize) -> Vec<u8> {
    let parts = [
        ("attn_q", HIDDEN),
        ("attn_k", HIDDEN),
        ("attn_v", HIDDEN),
        ("attn_output", HIDDEN),
        ("ffn_gate", HIDDEN),
        ("ffn_up", HIDDEN),
        ("ffn_down", FFN),
    ];
    let int = |n: usize| (n as i32).to_le_bytes();
    let mut bytes = int(layers * parts.len()).to_vec();
    for layer in 0..layers {
        for (at, (part, n)) in parts.into_iter().enumerate() {
            let name = format!("blk.{layer}.{part}.weight");
            bytes.extend(int(name.len()));
            bytes.extend(name.as_bytes());
            bytes.extend(int(1));
            bytes.extend(int(n));
            let seed = 1_000_000 + (layer * parts.len() + at) as u64;
            for i in 0..n as u64 {
                bytes.extend((gguf_testkit::normal(seed, i).abs() + 0.001).to_le_bytes());
            }
        }
    }
    let text = b"seeded";
    bytes.extend(int(1));
    bytes.extend(int(text.len()));
    bytes.extend(text);
    bytes
}

fn config(layers: usize) -> String {
    format!(
        r#"{{
  "architectures": ["LlamaForCausalLM"],
  "bos_token_id": 1,
  "dtype": "bfloat16",
  "eos_token_id": 2,
  "hidden_act": "silu",
  "hidden_size": {HIDDEN},
  "intermediate_size": {FFN},
  "max_position_embeddings": 4096,
  "model_type": "llama",
  "num_attention_heads": {HEADS},
  "num_hidden_layers": {layers},
  "num_key_value_heads": {KV_HEADS},
  "rms_norm_eps": 1e-05,
  "rope_theta": 10000.0,
  "tie_word_embeddings": false,
  "vocab_size": {VOCAB}
}}
"#
    )
}
