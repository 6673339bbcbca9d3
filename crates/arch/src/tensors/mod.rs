//! From the tensors of a checkpoint and an architecture's table to output tensors.

mod drops;
pub mod rules;

use std::collections::{HashMap, HashSet};

use tensor::Shape;

use crate::config::Hparams;
use crate::layout::{Data, Dropped, ElementMap, OutTensor, RowMap};
use crate::{ArchError, SourceTensor};
use rules::{Need, RowRule, TensorRule};

/// Endings that the patterns of a table leave out.
const SUFFIXES: [&str; 2] = [".weight", ".bias"];

/// What becomes of the tensors of a checkpoint.
#[derive(Debug)]
pub struct Mapped {
    /// Output tensors, in the order of the checkpoint.
    pub tensors: Vec<OutTensor>,
    /// Source tensors that are not used.
    pub dropped: Vec<Dropped>,
}

/// What a table is applied with.
pub struct Context<'a> {
    /// The parts of the table.
    pub table: &'a [&'a [TensorRule]],
    /// What is put before every name of the checkpoint before it is looked up.
    pub prefix: &'a str,
    /// The config.
    pub hparams: &'a Hparams,
}

/// Applies a table to the tensors of a checkpoint.
///
/// Source: `ModelBase.prepare_tensors` in `conversion/base.py` and `TensorNameMap` in
/// `gguf-py/gguf/tensor_mapping.py` (llama-cpp-python 0.3.36). Where the reference stops at the
/// first tensor that it cannot place, all of them are listed here.
///
/// # Errors
///
/// [`ArchError::UnusedTensors`], [`ArchError::MissingTensors`], [`ArchError::SameOutput`],
/// [`ArchError::TensorShape`], [`ArchError::MissingKey`] for what the rows need.
pub fn map(context: &Context<'_>, sources: &[SourceTensor]) -> Result<Mapped, ArchError> {
    let n_layers = context.hparams.n_layers()?;
    let n_experts = n_experts(context.hparams)?;
    let mut mapped = Mapped { tensors: Vec::with_capacity(sources.len()), dropped: Vec::new() };
    let mut unused = Vec::new();
    let mut stacks: HashMap<u64, Stack<'_>> = HashMap::new();
    for source in sources {
        if let Some(reason) = drops::reason(&source.name) {
            mapped.dropped.push(Dropped { name: source.name.clone(), reason });
            continue;
        }
        let Some(found) = context.find(&source.name).filter(|found| found.bid < n_layers) else {
            unused.push(source.name.clone());
            continue;
        };
        if found.rule.rows == RowRule::StackExperts {
            if found.xid >= n_experts || found.suffix != ".weight" {
                unused.push(source.name.clone());
                continue;
            }
            let stack = stacks.entry(found.bid).or_default();
            stack.insert((found.rule.gguf, found.xid), source);
            if stack.len() as u64 == n_experts.saturating_mul(context.stacked().count() as u64) {
                let stack = stacks.remove(&found.bid).unwrap_or_default();
                context.emit_stack(found.bid, n_experts, &stack, &mut mapped.tensors)?;
            }
        } else {
            mapped.tensors.push(context.one(&found, source)?);
        }
    }
    if !unused.is_empty() {
        return Err(ArchError::UnusedTensors { names: unused });
    }
    context.check_missing(&mapped.tensors, &stacks, n_layers, n_experts)?;
    check_same_output(&mapped.tensors)?;
    Ok(mapped)
}

/// Experts of one layer that wait for the rest: by output pattern and expert.
type Stack<'a> = HashMap<(&'static str, u64), &'a SourceTensor>;

/// A source tensor's place in the table.
struct Found<'a> {
    rule: &'a TensorRule,
    suffix: &'static str,
    bid: u64,
    xid: u64,
}

impl<'a> Context<'a> {
    fn rules(&self) -> impl Iterator<Item = &'a TensorRule> {
        self.table.iter().flat_map(|part| part.iter())
    }

    fn stacked(&self) -> impl Iterator<Item = &'a TensorRule> {
        self.rules().filter(|rule| rule.rows == RowRule::StackExperts)
    }

    fn find(&self, name: &str) -> Option<Found<'a>> {
        let name = format!("{}{name}", self.prefix);
        SUFFIXES.into_iter().find_map(|suffix| {
            let base = name.strip_suffix(suffix)?;
            self.rules().find_map(|rule| {
                let (bid, xid) = rule.hf.iter().find_map(|pattern| rules::parse(pattern, base))?;
                Some(Found { rule, suffix, bid, xid })
            })
        })
    }

    fn one(&self, found: &Found<'_>, source: &SourceTensor) -> Result<OutTensor, ArchError> {
        let name = rules::fill(found.rule.gguf, found.bid, found.xid) + found.suffix;
        let rows = match found.rule.rows {
            RowRule::Copy | RowRule::StackExperts => RowMap::Concat,
            RowRule::PermuteQ => RowMap::RopePermute { n_head: self.hparams.n_heads()? },
            RowRule::PermuteK => RowMap::RopePermute { n_head: self.hparams.n_kv_heads()? },
        };
        let out = OutTensor {
            keep_f32: drops::keep_f32(&name, source.shape.n_dims()),
            name,
            shape: source.shape,
            data: Data::Rows { sources: vec![source.name.clone()], rows, element: ElementMap::Identity },
        };
        if let RowMap::RopePermute { n_head } = rows {
            let n_rows = out.row_view().n_rows;
            if n_head.checked_mul(2).is_none_or(|halves| halves == 0 || !n_rows.is_multiple_of(halves)) {
                return Err(ArchError::TensorShape {
                    name: source.name.clone(),
                    found: source.shape,
                    expected: format!("rows in {n_head} heads of two halves"),
                });
            }
        }
        Ok(out)
    }

    /// Makes the tensors of a layer's experts.
    fn emit_stack(
        &self,
        bid: u64,
        n_experts: u64,
        stack: &Stack<'_>,
        tensors: &mut Vec<OutTensor>,
    ) -> Result<(), ArchError> {
        for rule in self.stacked() {
            let name = rules::fill(rule.gguf, bid, 0) + ".weight";
            let parts: Vec<&SourceTensor> =
                (0..n_experts).filter_map(|xid| stack.get(&(rule.gguf, xid)).copied()).collect();
            let Some(first) = parts.first() else { continue };
            if let Some(other) = parts.iter().find(|part| part.shape != first.shape) {
                return Err(ArchError::TensorShape {
                    name: other.name.clone(),
                    found: other.shape,
                    expected: format!("{} as of `{}`", first.shape, first.name),
                });
            }
            let mut dims = first.shape.dims().to_vec();
            dims.push(n_experts);
            let shape =
                Shape::new(&dims).map_err(|source| ArchError::Shape { name: name.clone(), source })?;
            tensors.push(OutTensor {
                keep_f32: drops::keep_f32(&name, shape.n_dims()),
                name,
                shape,
                data: Data::Rows {
                    sources: parts.iter().map(|part| part.name.clone()).collect(),
                    rows: RowMap::Concat,
                    element: ElementMap::Identity,
                },
            });
        }
        Ok(())
    }

    /// Names what the table needs and the checkpoint lacks.
    fn check_missing(
        &self,
        tensors: &[OutTensor],
        stacks: &HashMap<u64, Stack<'_>>,
        n_layers: u64,
        n_experts: u64,
    ) -> Result<(), ArchError> {
        let have: HashSet<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        let mut names = Vec::new();
        // A header's word is not worth memory: no more layers are looked at than it takes to
        // show that something is missing.
        for rule in self.rules().filter(|rule| rule.needed(n_experts)) {
            let layers = if rule.gguf.contains("{bid}") { n_layers } else { 1 };
            let first_missing = (0..layers)
                .take(tensors.len() + 1)
                .filter(|bid| !have.contains((rules::fill(rule.gguf, *bid, 0) + ".weight").as_str()));
            for bid in first_missing {
                let experts = if rule.rows == RowRule::StackExperts { n_experts } else { 1 };
                let stack = stacks.get(&bid);
                let absent = (0..experts)
                    .take(tensors.len() + 1)
                    .filter(|xid| stack.is_none_or(|stack| !stack.contains_key(&(rule.gguf, *xid))));
                names.extend(absent.map(|xid| {
                    let name =
                        rules::fill(rule.hf.first().copied().unwrap_or_default(), bid, xid) + ".weight";
                    name.strip_prefix(self.prefix).map(str::to_owned).unwrap_or(name)
                }));
            }
        }
        if names.is_empty() { Ok(()) } else { Err(ArchError::MissingTensors { names }) }
    }
}

impl TensorRule {
    fn needed(&self, n_experts: u64) -> bool {
        match self.need {
            Need::Always => true,
            Need::Dense => n_experts == 0,
            Need::Experts => n_experts > 0,
            Need::Optional => false,
        }
    }
}

/// Number of experts that the config states, 0 where it states none.
fn n_experts(hparams: &Hparams) -> Result<u64, ArchError> {
    match hparams.find(&["num_local_experts", "num_experts", "n_routed_experts"]) {
        Some((key, _)) => Ok(hparams.get_u64(key)?.unwrap_or(0)),
        None => Ok(0),
    }
}

fn check_same_output(tensors: &[OutTensor]) -> Result<(), ArchError> {
    let mut seen: HashMap<&str, &OutTensor> = HashMap::new();
    for tensor in tensors {
        if let Some(first) = seen.insert(&tensor.name, tensor) {
            let source = |tensor: &OutTensor| match &tensor.data {
                Data::Rows { sources, .. } => sources.first().cloned().unwrap_or_default(),
                Data::Computed(_) => String::new(),
            };
            return Err(ArchError::SameOutput {
                output: tensor.name.clone(),
                first: source(first),
                second: source(tensor),
            });
        }
    }
    Ok(())
}
