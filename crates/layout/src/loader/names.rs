//! Tensor names of an architecture.

use std::collections::HashSet;

use super::table::{Row, section};
use crate::registry::Families;

/// Names of all tensors that llama.cpp creates for some file of an architecture, whatever its keys.
///
/// # Examples
/// ```
/// use gguf_layout::{Families, loader::TensorNames};
///
/// assert!(TensorNames::of(&Families::EMPTY, "llama").is_none());
/// ```
#[derive(Debug, Clone)]
pub struct TensorNames {
    /// With `%d` in place of numbers.
    patterns: HashSet<String>,
}

impl TensorNames {
    /// The names of an architecture; `None` for one that llama.cpp does not know.
    pub fn of(families: &Families, architecture: &str) -> Option<TensorNames> {
        let section = section(families, architecture)?;
        let rows = section.groups.iter().flat_map(|group| &group.tensors);
        Some(TensorNames { patterns: rows.flat_map(patterns_of).collect() })
    }

    /// True if a tensor may have this name.
    pub fn contains(&self, name: &str) -> bool {
        self.patterns.contains(&pattern_of(name))
    }
}

fn patterns_of(row: &Row) -> Vec<String> {
    let of_layer = |parts: &[&str]| parts.iter().map(|part| format!("blk.%d.{part}")).collect();
    match row.name.as_str() {
        "qkv" => of_layer(&[
            "attn_qkv.weight",
            "attn_qkv.bias",
            "attn_q.weight",
            "attn_q.bias",
            "attn_k.weight",
            "attn_k.bias",
            "attn_v.weight",
            "attn_v.bias",
        ]),
        "gate_up_exps" => {
            of_layer(&["ffn_gate_up_exps.weight", "ffn_gate_exps.weight", "ffn_up_exps.weight"])
        }
        name => vec![pattern_of(name)],
    }
}

/// The name with `%d` in place of numbers between dots.
fn pattern_of(name: &str) -> String {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = name.split('.').map(|part| if is_number(part) { "%d" } else { part }).collect();
    parts.join(".")
}
