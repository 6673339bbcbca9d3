//! Required tensors of a GGUF file, insofar as its architecture's table determines them without a config.

use gguf_container::{Metadata, Value};

use crate::arch::Arch;
use crate::registry::Families;
use crate::tensors::rules::{self, Need, TensorRule};

/// The tensors that a file lacks: those that the table of its architecture asks for whatever the config says. None if no table
/// is of this architecture. `n_tensors` bounds the layers that are looked at, since their number comes out of the file.
pub fn lacking(
    families: &Families,
    metadata: &Metadata,
    n_tensors: usize,
    has: impl Fn(&str) -> bool,
) -> Option<Vec<String>> {
    let name = metadata.get("general.architecture").and_then(Value::as_str)?;
    let rows = families.arches.iter().filter(|arch| arch.written() == name);
    // Several tables may be written under one name: the file is of the one that it fits best.
    rows.map(|arch| lacking_of(arch, name, metadata, n_tensors, &has)).min_by_key(Vec::len)
}

fn lacking_of(
    arch: &Arch,
    name: &str,
    metadata: &Metadata,
    n_tensors: usize,
    has: &impl Fn(&str) -> bool,
) -> Vec<String> {
    let count = |key: &str| metadata.get(&format!("{name}.{key}")).and_then(Value::as_u64);
    let n_experts = count("expert_count").unwrap_or(0);
    // MTP layers are counted and have additional tensors.
    let layers = count("block_count").unwrap_or(0).saturating_sub(count("nextn_predict_layers").unwrap_or(0));
    // HRM counts runs of its two stacks of layers.
    let layers = count("hrm.layers_per_stack").map_or(layers, |stack| stack.saturating_mul(2));
    // A file with only a prediction lacks the layers before it.
    let is_first = |rule: &&TensorRule| rule.gguf.contains("{bid}");
    let has_first =
        || arch.rules().filter(is_first).any(|rule| has(&(rules::fill(rule.gguf, 0, 0) + rule.ending())));
    let layers = if arch.prediction.is_none() || has_first() { layers } else { 0 };
    // The layers of a head that decides are those that route and the others.
    let head_layers = || count("decision.routing_block_count")?.checked_add(count("decision.block_count")?);
    let decoder_layers = count("decoder_block_count").or_else(head_layers).unwrap_or(layers);
    let mut names = Vec::new();
    for rule in arch.rules() {
        // Rows limited to some layers (`rule.layers`) are never required, because a config selects the
        // layers.
        let is_needed = match rule.need {
            Need::Always => true,
            Need::Dense => n_experts == 0,
            Need::Experts => n_experts > 0,
            // Depends on a config, which the file does not have.
            Need::If(_) | Need::Optional => false,
        } && rule.layers.is_none();
        // Equal tensors are stored once.
        let is_shared = rule.twin.is_some() || arch.rules().any(|other| other.twin == Some(rule.gguf));
        if !is_needed || is_shared {
            continue;
        }
        let layers = if !rule.gguf.contains("{bid}") {
            1
        } else if rule.gguf.starts_with("dec.") {
            decoder_layers
        } else {
            layers
        };
        let spelled =
            // A file of n tensors lacks one of n + 1, so the count of a broken file makes no endless list.
            (0..layers).take(n_tensors + 1).map(|bid| rules::fill(rule.gguf, bid, 0) + rule.ending());
        names.extend(spelled.filter(|name| !has(name)));
    }
    names.sort_unstable();
    names.dedup();
    names
}
