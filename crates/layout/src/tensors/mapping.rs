//! One pass over the tensors of a checkpoint: each finds its place, and what needs several waits for the rest.

use std::collections::{BTreeMap, HashMap};

use super::context::{Context, Stack};
use super::drops;
use super::index::Found;
use super::missing::check_same_output;
use super::rules::{self, RowRule};
use crate::config::N_LAYERS;
use crate::layout::{Data, Dropped, OutTensor};
use crate::leftovers;
use serde_json::Value as Json;

use crate::{ArchError, SourceTensor};

/// Output tensors of a checkpoint, and its unused ones.
#[derive(Debug)]
pub struct Mapped {
    /// Output tensors, in the order of the reference.
    pub tensors: Vec<OutTensor>,
    /// Source tensors that are not used.
    pub dropped: Vec<Dropped>,
}

/// Parts of one tensor that wait for the rest, by their number.
type Parts<'a> = BTreeMap<usize, &'a SourceTensor>;

/// Applies a table to the tensors of a checkpoint.
///
/// Source: `ModelBase.prepare_tensors` in `conversion/base.py` and `TensorNameMap` in
/// `gguf-py/gguf/tensor_mapping.py`. Where the reference stops at the first tensor that it cannot place, all
/// are listed here.
///
/// # Errors
///
/// [`ArchError::UnusedTensors`], [`ArchError::MissingTensors`], [`ArchError::SameOutput`],
/// [`ArchError::TensorShape`], [`ArchError::MissingKey`] for what the rows need.
pub fn map(context: &Context<'_>, sources: &[SourceTensor]) -> Result<Mapped, ArchError> {
    if context.towers.is_none() {
        context.hparams.n_layers()?;
    }
    let mut pass = Pass {
        context,
        n_experts: context.hparams.n_experts()?,
        n_stacked: context.stacked().count() as u64,
        tensors: Vec::with_capacity(sources.len()),
        outputs: HashMap::new(),
        before: Vec::new(),
        after: Vec::new(),
        dropped: Vec::new(),
        unused: Vec::new(),
        beyond: Vec::new(),
        stacks: HashMap::new(),
        fused: HashMap::new(),
    };
    for source in sources {
        pass.place(source)?;
    }
    pass.finish()
}

/// The pass over the tensors.
///
/// The order of output tensors is the order of the file, so it has to be the reference's. That walks over the
/// tensors of the checkpoint as they come and hands each to `modify_tensors`, which returns any number of
/// output tensors: most return one, a fused tensor returns its parts in the order of the table, and one of
/// several that are stacked returns nothing until the last is there. A stack of experts therefore
/// appears if its *last* part was met, not at its place in a sorted list.
struct Pass<'a, 'c> {
    context: &'c Context<'c>,
    n_experts: u64,
    /// Rows of the table whose experts are stacked.
    n_stacked: u64,
    /// Output tensors so far.
    tensors: Vec<OutTensor>,
    /// Index into `tensors` of tensors that later ones may repeat.
    outputs: HashMap<String, usize>,
    /// Tensors of integers, which are written before the others and after them.
    before: Vec<OutTensor>,
    after: Vec<OutTensor>,
    dropped: Vec<Dropped>,
    unused: Vec<String>,
    /// Layers of the unused tensors that only the number of layers excludes.
    beyond: Vec<u64>,
    /// Stacks that lack experts, by layer.
    stacks: HashMap<u64, Stack<'a>>,
    /// Fused tensors that lack parts, by output pattern, layer and ending.
    fused: HashMap<(&'static str, u64, &'static str), Parts<'a>>,
}

impl<'a> Pass<'a, '_> {
    /// Places one tensor of the checkpoint.
    fn place(&mut self, source: &'a SourceTensor) -> Result<(), ArchError> {
        let context = self.context;
        let name = source.name.as_str();
        let other_reason = drops::reason(name).or_else(|| leftovers::reason(name));
        let other_reason = other_reason.filter(|_| context.towers.is_none());
        if let Some(reason) = other_reason.or_else(|| (context.drops)(context.hparams, name)) {
            self.dropped.push(Dropped { name: name.to_owned(), reason });
            return Ok(());
        }
        if context.number(name).is_some() {
            self.dropped
                .push(Dropped { name: name.to_owned(), reason: "a number, which is a key of the file" });
            return Ok(());
        }
        let all = context.find(name);
        if all.is_empty() && drops::is_dense_module(name) {
            let reason = "a matrix after the model that this architecture cannot store";
            self.dropped.push(Dropped { name: name.to_owned(), reason });
            return Ok(());
        }
        let Some(found) = all.first().filter(|found| found.bid < context.n_layers(found.rule)) else {
            self.unused.push(name.to_owned());
            self.beyond.extend(all.first().map(|found| found.bid));
            return Ok(());
        };
        if source.folded.is_some() && !matches!(found.rule.rows, RowRule::Frame(_)) {
            return Err(ArchError::TensorShape {
                name: source.name.clone(),
                found: source.shape,
                expected: "at most 4 dimensions (the outer ones are counted as one here)".to_owned(),
            });
        }
        match found.rule.rows {
            RowRule::StackExperts => self.stack_expert(found, source),
            RowRule::Fuse(n_parts)
            | RowRule::FusePadded(n_parts)
            | RowRule::Append(n_parts)
            | RowRule::Extend(n_parts) => self.fuse_part(found, n_parts(context.hparams), source),
            RowRule::SideBySide => self.fuse_part(found, found.rule.hf.len(), source),
            RowRule::Scalars(_) => {
                let reason = "a number, which is part of a computed vector";
                self.dropped.push(Dropped { name: name.to_owned(), reason });
                self.fuse_part(found, found.rule.hf.len(), source)
            }
            RowRule::Codebooks(n_books) => {
                self.fuse_part(found, n_books(context.hparams).saturating_mul(2), source)
            }
            RowRule::FuseInLayer(n_parts) => {
                self.fuse_part(found, n_parts(context.hparams, found.bid), source)
            }
            RowRule::Combine(_) | RowRule::FuseRows(..) => {
                for found in &all {
                    match found.rule.rows {
                        RowRule::Combine(by) => self.fuse_part(found, by.n_sources(), source)?,
                        RowRule::FuseRows(n_parts, _) => {
                            self.fuse_part(found, n_parts(context.hparams), source)?;
                        }
                        _ => {}
                    }
                }
                Ok(())
            }
            _ => self.copy(&all, source),
        }
    }

    /// Puts an expert's matrix on the stack of its layer. With the last one, the stack is complete.
    fn stack_expert(&mut self, found: &Found, source: &'a SourceTensor) -> Result<(), ArchError> {
        if found.xid >= self.n_experts || found.suffix != ".weight" {
            self.unused.push(source.name.clone());
            return Ok(());
        }
        let stack = self.stacks.entry(found.bid).or_default();
        stack.insert((found.rule.gguf, found.xid), source);
        // All matrices of a layer wait for each other, though each could be written before: so the
        // reference has them side by side.
        if stack.len() as u64 == self.n_experts.saturating_mul(self.n_stacked) {
            let stack = self.stacks.remove(&found.bid).unwrap_or_default();
            self.context.emit_stack(found.bid, self.n_experts, &stack, &mut self.tensors)?;
        }
        Ok(())
    }

    /// Keeps a part of a fused tensor. With the last one, the tensor is complete.
    fn fuse_part(
        &mut self,
        found: &Found,
        n_parts: usize,
        source: &'a SourceTensor,
    ) -> Result<(), ArchError> {
        // The number of a part is that of the expert or head in its name, or else the place of its name among
        // those of the rule.
        let part = if matches!(found.rule.rows, RowRule::Codebooks(_)) {
            // First all sums, then all counts.
            let kind = found.rule.hf.iter().position(|name| *name == found.pattern);
            let book = usize::try_from(found.xid).ok().filter(|book| *book < n_parts / 2);
            kind.zip(book).map(|(kind, book)| kind * (n_parts / 2) + book)
        } else if found.pattern.contains("{xid}") {
            usize::try_from(found.xid).ok()
        } else {
            found.rule.hf.iter().position(|name| *name == found.pattern)
        };
        let Some(part) = part.filter(|part| *part < n_parts) else {
            self.unused.push(source.name.clone());
            return Ok(());
        };
        let key = (found.rule.gguf, found.bid, found.suffix);
        let parts = self.fused.entry(key).or_default();
        parts.insert(part, source);
        if parts.len() == n_parts {
            let parts = self.fused.remove(&key).unwrap_or_default();
            self.tensors.push(self.context.fuse(found, &parts)?);
        }
        Ok(())
    }

    /// Makes a tensor of each row that the source fits: one, or the parts of a fused projection.
    fn copy(&mut self, all: &[Found], source: &SourceTensor) -> Result<(), ArchError> {
        for found in all {
            if let RowRule::Integers(rule) = found.rule.rows {
                let place = if rule.first { &mut self.before } else { &mut self.after };
                place.push(self.context.one(found, source)?);
                continue;
            }
            let is_first = matches!(found.rule.rows, RowRule::First);
            let name = rules::fill(found.rule.gguf, found.bid, found.xid) + found.suffix;
            let repeated =
                (is_first && self.outputs.contains_key(&name)).then_some("duplicate under another name");
            if let Some(reason) = repeated.or_else(|| self.same_as_twin(found, source)) {
                self.dropped.push(Dropped { name: source.name.clone(), reason });
                continue;
            }
            self.tensors.push(self.context.one(found, source)?);
            if is_first || self.context.is_twin(found.rule.gguf) {
                self.outputs.insert(name, self.tensors.len() - 1);
            }
        }
        Ok(())
    }

    /// Why a tensor is left out that may contain the same values as one before it.
    fn same_as_twin(&self, found: &Found, source: &SourceTensor) -> Option<&'static str> {
        let twin = self.outputs.get(&(found.rule.twin?.to_owned() + found.suffix))?;
        let Data::Rows { sources, .. } = &self.tensors.get(*twin)?.data else { return None };
        let same = self.context.same?.ask(sources.first()?, &source.name);
        same.then_some("equal to the embedding, which serves as the output")
    }

    /// Checks that nothing is left over, missing or there twice.
    fn finish(mut self) -> Result<Mapped, ArchError> {
        self.tensors.splice(0..0, self.before.drain(..));
        self.tensors.append(&mut self.after);
        let mut unfused: Vec<String> = self
            .fused
            .iter()
            .flat_map(|((gguf, bid, suffix), parts)| self.context.unfused(gguf, *bid, suffix, parts))
            .collect();
        unfused.sort_unstable();
        if !self.unused.is_empty() {
            let hparams = self.context.hparams;
            let key = hparams.find(N_LAYERS).map_or("num_hidden_layers", |(key, _)| key);
            // Layers of a tower are counted by another key.
            let beyond = if self.context.towers.is_none() { &self.beyond[..] } else { &[] };
            let n_layers = hparams.n_layers().unwrap_or_default();
            let has = |layer: &u64| {
                let prefix = format!("blk.{layer}.");
                self.tensors.iter().any(|tensor| tensor.name.starts_with(&prefix))
            };
            let counted =
                leftovers::Counted { beyond, key, n_layers, gap: (0..n_layers).find(|layer| !has(layer)) };
            // Layers without experts among layers with experts.
            let dense =
                ["mlp_only_layers", "decoder_sparse_step"].into_iter().find(|key| match hparams.get(key) {
                    Some(Json::Array(layers)) => !layers.is_empty(),
                    step => step.and_then(Json::as_u64).is_some_and(|step| step > 1),
                });
            return Err(leftovers::unused(self.unused, &counted, dense));
        }
        self.context.check_missing(&self.tensors, &self.stacks, unfused, self.n_experts)?;
        check_same_output(&self.tensors)?;
        Ok(Mapped { tensors: self.tensors, dropped: self.dropped })
    }
}
