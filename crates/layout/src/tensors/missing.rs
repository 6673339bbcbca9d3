//! Tensors of a table that a checkpoint lacks or has twice.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::context::{Context, Stack};
use super::rules::{self, RowRule, TensorRule};
use crate::layout::OutTensor;
use crate::{ArchError, SourceTensor};

impl Context<'_> {
    /// Names of the parts that a fused tensor lacks.
    pub(super) fn unfused(
        &self,
        gguf: &str,
        bid: u64,
        suffix: &str,
        parts: &BTreeMap<usize, &SourceTensor>,
    ) -> Vec<String> {
        let rule_names = |rule: &'static TensorRule| match rule.rows {
            RowRule::Fuse(n_parts)
            | RowRule::FusePadded(n_parts)
            | RowRule::Append(n_parts)
            | RowRule::Extend(n_parts) => Some((rule, n_parts(self.hparams))),
            RowRule::Codebooks(n_books) => Some((rule, n_books(self.hparams))),
            RowRule::FuseInLayer(n_parts) => Some((rule, n_parts(self.hparams, bid))),
            RowRule::Combine(by) => Some((rule, by.n_sources())),
            RowRule::Scalars(_) | RowRule::SideBySide => Some((rule, rule.hf.len())),
            _ => None,
        };
        let Some((rule, n_parts)) = self.rules().filter(|rule| rule.gguf == gguf).find_map(rule_names) else {
            return Vec::new();
        };
        let absent = (0..n_parts).filter(|part| !parts.contains_key(part));
        // The number comes out of a file and may be anything: no more are listed than were there.
        let absent = absent.take(parts.len() + 1);
        if rule.hf.iter().any(|name| name.contains("{xid}")) {
            absent.map(|part| self.spelled(rule, 0, bid, part as u64, suffix)).collect()
        } else {
            absent.map(|part| self.spelled(rule, part, bid, 0, suffix)).collect()
        }
    }

    /// The name of a rule's tensor as the checkpoint would spell it.
    fn spelled(&self, rule: &TensorRule, name: usize, bid: u64, xid: u64, suffix: &str) -> String {
        // As a person would find it in the checkpoint: the first spelling of the rule, without the
        // prefix that its class leaves out.
        let ending = if rule.bare.is_some() { "" } else { suffix };
        let name = rules::fill(rule.hf.get(name).copied().unwrap_or_default(), bid, xid) + ending;
        name.strip_prefix(self.prefix).map(str::to_owned).unwrap_or(name)
    }

    /// Names what stacks lack that were begun though the model can do without them.
    fn incomplete(&self, stacks: &HashMap<u64, Stack<'_>>, n_experts: u64, limit: usize) -> Vec<String> {
        let mut bids: Vec<&u64> = stacks.keys().collect();
        bids.sort_unstable();
        // Needed ones are named by `check_missing` itself.
        let optional =
            |bid: u64| self.stacked().filter(move |rule| !rule.needed(self.hparams, n_experts, bid));
        let lacking = bids.into_iter().flat_map(|bid| {
            optional(*bid).flat_map(move |rule| {
                let absent = (0..n_experts).filter(|xid| !stacks[bid].contains_key(&(rule.gguf, *xid)));
                absent.map(|xid| {
                    rules::fill(rule.hf.first().copied().unwrap_or_default(), *bid, xid) + ".weight"
                })
            })
        });
        lacking.take(limit + 1).collect()
    }

    /// Names what the table needs and the checkpoint lacks.
    pub(super) fn check_missing(
        &self,
        tensors: &[OutTensor],
        stacks: &HashMap<u64, Stack<'_>>,
        unfused: Vec<String>,
        n_experts: u64,
    ) -> Result<(), ArchError> {
        // Needed are outputs, not sources: any of the alternative names of a rule makes its output.
        let present: HashSet<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        let mut names = unfused;
        // The number of layers comes out of a file and may be anything: no more are looked at
        // than it takes to show that something is missing.
        for rule in self.rules() {
            let layers = if rule.gguf.contains("{bid}") { self.n_layers(rule) } else { 1 };
            let first = if layers > 1 { self.first_layer.min(layers) } else { 0 };
            let first_missing = (first..layers)
                .take(tensors.len() + 1)
                .filter(|bid| rule.needed(self.hparams, n_experts, *bid))
                .filter(|bid| !present.contains((rules::fill(rule.gguf, *bid, 0) + rule.ending()).as_str()));
            for bid in first_missing {
                let experts = if matches!(rule.rows, RowRule::StackExperts) { n_experts } else { 1 };
                let stack = stacks.get(&bid);
                let absent = (0..experts)
                    .take(tensors.len() + 1)
                    .filter(|xid| stack.is_none_or(|stack| !stack.contains_key(&(rule.gguf, *xid))));
                names.extend(absent.map(|xid| self.spelled(rule, 0, bid, xid, ".weight")));
            }
        }
        names.extend(self.incomplete(stacks, n_experts, tensors.len()));
        names.dedup();
        if names.is_empty() { Ok(()) } else { Err(ArchError::MissingTensors { names }) }
    }
}

/// Refuses two sources of one output tensor.
pub(super) fn check_same_output(tensors: &[OutTensor]) -> Result<(), ArchError> {
    let mut seen: HashMap<&str, &OutTensor> = HashMap::new();
    for tensor in tensors {
        if let Some(first) = seen.insert(&tensor.name, tensor) {
            let source = |tensor: &OutTensor| tensor.data.sources().first().cloned().unwrap_or_default();
            return Err(ArchError::SameOutput {
                output: tensor.name.clone(),
                first: source(first),
                second: source(tensor),
            });
        }
    }
    Ok(())
}
