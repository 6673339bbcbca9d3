//! Files of the llama architecture, which come from many programs: any version of llama.cpp's converter, and
//! other converters with keys that no version of the reference writes.
//!
//! So the config is written from the keys that every such file has, with llama.cpp's defaults for keys that
//! older files lack, instead of being searched until every key matches. Its spelling gives the same values in
//! transformers 4 and 5 and in the reference's converter, with and without transformers. Keys that only
//! repeat transformers' defaults are left out, unless an older version has another default. Then it is
//! converted like any other config: the result must not contradict the file.
//!
//! Inverse of `TextModel.set_gguf_parameters` in `conversion/base.py` and of `LlamaModel.set_gguf_parameters`
//! in `conversion/llama.py`.

use gguf_container::{KeyError, Metadata, Value};
use gguf_tokenizer::keys as token_keys;
use gguf_types::Shape;
use serde_json::{Map, Value as Json, json};

use super::error::ExportError;
use super::inverse::{self, Rows};
use super::layout::{ArchFile, Checkpoint, text};
use super::rope;
use crate::Input;

/// The checkpoint of a file. Keys among `understood` are neither noted nor compared.
///
/// # Errors
/// [`ExportError`]: a key or tensor that is missing or wrong, or what a config cannot say.
pub fn read(file: &ArchFile<'_>, understood: &[&str]) -> Result<Checkpoint, ExportError> {
    let (class, config) = config(file)?;
    let class = file.arch.classes.iter().find(|known| known.name == class);
    let class =
        class.copied().ok_or(ExportError::NotExpressible { subject: "this kind of llama".to_owned() })?;
    let input = Input { config: Json::Object(config), ..Input::default() };
    let converted = inverse::convert(file, class, input)?;
    let notes = compare(file, &converted.metadata, understood)?;
    let mut tensors = converted.tensors(file, Rows::LeaveComputed)?;
    // In the order of the file, those of experts by number.
    let place = |source: &str| file.input.tensors.iter().position(|(name, _)| name == source);
    tensors
        .sort_by_cached_key(|tensor| tensor.parts.first().map(|part| (place(&part.source), part.first_row)));
    Ok(Checkpoint { config: converted.config, files: Vec::new(), tensors, notes })
}

/// The class name and the config.
fn config(file: &ArchFile<'_>) -> Result<(&'static str, Map<String, Json>), ExportError> {
    let metadata = file.input.metadata;
    let n_layers = file.need_count("block_count")?;
    let hidden = file.need_count("embedding_length")?;
    let n_head = file.need_count("attention.head_count")?;
    let n_head_kv = file.count("attention.head_count_kv")?.unwrap_or(n_head);
    let n_experts = file.count("expert_count")?.unwrap_or(0);
    let head_dim = head_dim(file, hidden, n_head)?;
    let vocab_size = embedding_rows(file, hidden)?;
    check_heads(file, ".attn_q.", n_head, head_dim)?;
    check_heads(file, ".attn_k.", n_head_kv, head_dim)?;
    let (attention_bias, mlp_bias) = (file.has_tensor(".attn_q.bias"), file.has_tensor(".ffn_up.bias"));

    // Mistral 7B is written as llama, recognized only by its name, or by a window, which llama has not.
    let mistral = ["general.name", "general.basename"]
        .iter()
        .any(|key| matches!(text(metadata, key), Ok(Some(name)) if name.to_lowercase().contains("mistral")));
    let window = file.count("attention.sliding_window")?;
    let class = match (n_experts > 0, mistral || window.is_some()) {
        (true, _) => ("MixtralForCausalLM", "mixtral"),
        // Mistral's class has no biases.
        (false, true) if !attention_bias && !mlp_bias => ("MistralForCausalLM", "mistral"),
        (false, _) => ("LlamaForCausalLM", "llama"),
    };
    let epsilon_key = "attention.layer_norm_rms_epsilon";
    let epsilon = file.number(epsilon_key)?.ok_or_else(|| KeyError::missing(file.key(epsilon_key)))?;

    let mut config = Map::new();
    let mut set = |key: &str, value: Json| config.insert(key.to_owned(), value);
    set("architectures", json!([class.0]));
    set("model_type", class.1.into());
    if class.1 == "llama" {
        set("attention_bias", attention_bias.into());
        set("mlp_bias", mlp_bias.into());
    } else {
        set("sliding_window", window.into());
    }
    for (key, id_key) in [
        ("bos_token_id", token_keys::BOS_ID),
        ("eos_token_id", token_keys::EOS_ID),
        ("pad_token_id", token_keys::PAD_ID),
    ] {
        set(key, metadata.count(id_key)?.into());
    }
    set("head_dim", head_dim.into());
    set("hidden_act", "silu".into());
    set("hidden_size", hidden.into());
    set("intermediate_size", file.need_count("feed_forward_length")?.into());
    set("max_position_embeddings", file.need_count("context_length")?.into());
    set("num_attention_heads", n_head.into());
    set("num_hidden_layers", n_layers.into());
    set("num_key_value_heads", n_head_kv.into());
    if n_experts > 0 {
        set("num_local_experts", n_experts.into());
        set("num_experts_per_tok", file.need_count("expert_used_count")?.into());
    }
    set("rms_norm_eps", epsilon.into());
    set("tie_word_embeddings", file.shape("output.weight").is_none().into());
    // `dtype` is read by transformers 5, `torch_dtype` by 4.
    set("dtype", file.input.dtype.into());
    set("torch_dtype", file.input.dtype.into());
    set("vocab_size", vocab_size.into());
    rope::write(file, &mut config)?;
    Ok((class.0, config))
}

/// Rows of a head: stated, or the share of a head in the width. All that is rotated must be complete heads, for
/// llama's class has no key for a part of one.
fn head_dim(file: &ArchFile<'_>, hidden: u64, n_head: u64) -> Result<u64, ExportError> {
    let share = hidden.checked_div(n_head).unwrap_or(0);
    let head_dim = file.count("attention.key_length")?.unwrap_or(share);
    for key in ["attention.value_length", "rope.dimension_count"] {
        if let Some(found) = file.count(key)?
            && found != head_dim
        {
            let subject = format!("`{}` {found} with heads of {head_dim}", file.key(key));
            return Err(ExportError::NotExpressible { subject });
        }
    }
    if head_dim == 0 || !head_dim.is_multiple_of(2) {
        let (key, expected) =
            (file.key("attention.head_count"), "heads of an even number of rows".to_owned());
        let found = format!("{n_head} heads of {head_dim} rows");
        return Err(KeyError::Value { key, expected, found }.into());
    }
    Ok(head_dim)
}

fn embedding_rows(file: &ArchFile<'_>, hidden: u64) -> Result<u64, ExportError> {
    let name = file.arch.embedding;
    match file.shape(name) {
        Some(shape) if shape.row_elems() != hidden => {
            let expected = format!("rows of {hidden} elements");
            Err(ExportError::TensorShape { name: name.to_owned(), found: shape, expected })
        }
        _ => file.embedding_rows(),
    }
}

/// Refuses queries or keys whose rows are not those heads: their rows were permuted by heads, and only this
/// would notice another number.
fn check_heads(file: &ArchFile<'_>, part: &str, n_head: u64, head_dim: u64) -> Result<(), ExportError> {
    let rows = |shape: &Shape| if shape.n_dims() <= 1 { shape.n_elems() } else { shape.n_rows() };
    let wrong = |(name, shape): &&(String, Shape)| {
        name.starts_with("blk.") && name.contains(part) && n_head.checked_mul(head_dim) != Some(rows(shape))
    };
    match file.input.tensors.iter().find(wrong) {
        None => Ok(()),
        Some((name, shape)) => {
            let expected = format!("{n_head} heads of {head_dim} rows");
            Err(ExportError::TensorShape { name: name.clone(), found: *shape, expected })
        }
    }
}

/// Notes on keys of the file that its config does not lead to.
fn compare(file: &ArchFile<'_>, made: &Metadata, understood: &[&str]) -> Result<Vec<String>, ExportError> {
    let mut notes = Vec::new();
    for (key, original) in file.input.metadata {
        let is_understood = || understood.iter().any(|known| file.key(known) == *key);
        if !file.is_own(key) || is_understood() {
            continue;
        }
        // Keys that only the conversion writes are not a loss: older files rely on llama.cpp's defaults,
        // which the config states.
        match made.get(key) {
            Some(made) if is_same(original, made) => {}
            Some(made) => {
                let subject = format!("metadata key `{key}`, {original}, which would be {made},");
                return Err(ExportError::NotExpressible { subject });
            }
            None => {
                notes.push(format!("metadata key `{key}` has no counterpart in a config and is omitted"));
            }
        }
    }
    Ok(notes)
}

/// True if two values are the same number or text; other programs write integers of other widths.
fn is_same(one: &Value, other: &Value) -> bool {
    let count = |value: &Value| value.as_u64();
    let float = |value: &Value| value.as_f64().map(|number| number as f32);
    one == other
        || count(one).is_some() && count(one) == count(other)
        || float(one).is_some() && float(one) == float(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_width_is_ignored() {
        assert!(is_same(&Value::U64(7), &Value::U32(7)) && is_same(&Value::F64(1e-5), &Value::F32(1e-5)));
        assert!(!is_same(&Value::U32(7), &Value::U32(8)) && !is_same(&Value::Bool(true), &Value::U32(1)));
        assert!(!is_same(&Value::F32(1.0), &Value::U32(1)));
    }
}
