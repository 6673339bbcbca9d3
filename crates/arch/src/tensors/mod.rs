//! From the tensors of a checkpoint and an architecture's table to output tensors.

mod drops;
mod lora;
mod nearest;
pub mod rules;
mod turned;

use std::collections::{BTreeMap, HashMap, HashSet};

use tensor::Shape;

use crate::config::Hparams;
use crate::layout::{Data, Dropped, ElementMap, OutTensor, RowMap};
use crate::{ArchError, SameValues, SourceTensor};
pub use lora::{Base, adapt};
pub use nearest::nearest_tables;
use rules::{Need, RowRule, TensorRule};

/// Endings that the patterns of a table leave out.
const SUFFIXES: [&str; 2] = [".weight", ".bias"];

/// A bias whose name in a checkpoint does not end as one, and its name in tables.
pub const CORRECTION_BIAS: (&str, &str) = ("e_score_correction_bias", "e_score_correction.bias");

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
    /// The key of the number of layers of the decoder, where it has its own.
    pub decoder_layers: Option<&'static str>,
    /// What is put before every name of the checkpoint before it is looked up.
    pub prefix: &'a str,
    /// The config.
    pub hparams: &'a Hparams,
    /// What this architecture leaves out, with the reason.
    pub drops: fn(&Hparams, &str) -> Option<&'static str>,
    /// Names of other releases, brought to those of the table.
    pub rename: fn(&Hparams, &str) -> Option<String>,
    /// Who knows whether two tensors of the checkpoint are equal.
    pub same: Option<&'a SameValues<'a>>,
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
    context.hparams.n_layers()?;
    let n_experts = n_experts(context.hparams)?;
    let mut mapped = Mapped { tensors: Vec::with_capacity(sources.len()), dropped: Vec::new() };
    let mut unused = Vec::new();
    let mut unfused = Vec::new();
    // The reference writes these while it looks for more tensors, before all others.
    let mut packed = Vec::new();
    let mut stacks: HashMap<u64, Stack<'_>> = HashMap::new();
    let mut fused: HashMap<(&'static str, u64), BTreeMap<usize, &SourceTensor>> = HashMap::new();
    for source in sources {
        let reason = drops::reason(&source.name).or_else(|| (context.drops)(context.hparams, &source.name));
        if let Some(reason) = reason {
            mapped.dropped.push(Dropped { name: source.name.clone(), reason });
            continue;
        }
        if let Some(scales) = context.scales_of(&source.name)
            && sources.iter().any(|source| source.name == scales)
        {
            continue;
        }
        let all = context.find(&source.name);
        let Some(found) = all.first().filter(|found| found.bid < context.n_layers(found.rule)) else {
            unused.push(source.name.clone());
            continue;
        };
        if matches!(found.rule.rows, RowRule::StackExperts) {
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
        } else if let RowRule::Fuse(n_parts) = found.rule.rows {
            let n_parts = n_parts(context.hparams);
            let part = if found.pattern.contains("{xid}") {
                usize::try_from(found.xid).unwrap_or(usize::MAX)
            } else {
                found.rule.hf.iter().position(|name| *name == found.pattern).unwrap_or(usize::MAX)
            };
            let Some(part) = Some(part).filter(|part| *part < n_parts) else {
                unused.push(source.name.clone());
                continue;
            };
            let parts = fused.entry((found.rule.gguf, found.bid)).or_default();
            parts.insert(part, source);
            if parts.len() == n_parts {
                let parts = fused.remove(&(found.rule.gguf, found.bid)).unwrap_or_default();
                mapped.tensors.push(context.fuse(found, &parts)?);
            }
        } else if matches!(found.rule.rows, RowRule::Mxfp4(_)) {
            let codes = turned::partner(&source.name);
            let codes = sources.iter().find(|source| Some(&source.name) == codes.as_ref());
            for found in &all {
                if let RowRule::Mxfp4(rows) = found.rule.rows {
                    packed.push(context.packed(found, rows, source, codes)?);
                }
            }
        } else {
            for found in &all {
                let again = matches!(found.rule.rows, RowRule::First)
                    && mapped.tensors.iter().any(|tensor| {
                        tensor.name == rules::fill(found.rule.gguf, found.bid, 0) + found.suffix
                    });
                let again = again.then_some("the same once more under another name");
                match again.or_else(|| context.twin(found, source, &mapped.tensors)) {
                    Some(reason) => mapped.dropped.push(Dropped { name: source.name.clone(), reason }),
                    None => mapped.tensors.push(context.one(found, source)?),
                }
            }
        }
    }
    mapped.tensors.splice(..0, packed);
    for ((gguf, bid), parts) in &fused {
        unfused.extend(context.unfused(gguf, *bid, parts));
    }
    unfused.sort_unstable();
    if !unused.is_empty() {
        return Err(ArchError::UnusedTensors { names: unused });
    }
    context.check_missing(&mapped.tensors, &stacks, unfused, n_experts)?;
    check_same_output(&mapped.tensors)?;
    Ok(mapped)
}

/// Experts of one layer that wait for the rest: by output pattern and expert.
type Stack<'a> = HashMap<(&'static str, u64), &'a SourceTensor>;

/// A source tensor's place in the table.
#[derive(Clone, Copy)]
pub struct Found<'a> {
    /// The row.
    pub rule: &'a TensorRule,
    /// The name of the rule that fits.
    pub pattern: &'static str,
    /// Its ending in the file.
    pub suffix: &'static str,
    /// The layer.
    pub bid: u64,
    /// The expert.
    pub xid: u64,
}

impl<'a> Context<'a> {
    fn rules(&self) -> impl Iterator<Item = &'a TensorRule> {
        self.table.iter().flat_map(|part| part.iter())
    }

    /// How many layers have the tensors of a rule.
    pub fn n_layers(&self, rule: &TensorRule) -> u64 {
        let of_decoder = self.decoder_layers.filter(|_| rule.gguf.starts_with("dec."));
        let of_decoder = of_decoder.and_then(|key| self.hparams.get_u64(key).ok().flatten());
        of_decoder.unwrap_or_else(|| self.hparams.n_layers().unwrap_or(0))
    }

    fn stacked(&self) -> impl Iterator<Item = &'a TensorRule> {
        self.rules().filter(|rule| matches!(rule.rows, RowRule::StackExperts))
    }

    /// The rows that speak of a tensor of the checkpoint; more than one where it is shared out.
    ///
    /// Renames what the reference renames before it looks at its own table
    /// (`ModelBase.filter_tensors`).
    fn find(&self, name: &str) -> Vec<Found<'a>> {
        let name = format!("{}{name}", self.prefix)
            .replace("language_model.", "")
            .replace(CORRECTION_BIAS.0, CORRECTION_BIAS.1);
        let name = (self.rename)(self.hparams, &name).unwrap_or(name);
        let found = |suffix: Option<&'static str>| {
            let base = suffix.map_or(Some(name.as_str()), |suffix| name.strip_suffix(suffix))?;
            let found: Vec<_> = self
                .rules()
                .filter_map(|rule| {
                    let suffix = match suffix {
                        Some(suffix) if rule.bare.is_none() => suffix,
                        None => rule.bare?,
                        Some(_) => return None,
                    };
                    let fits = |pattern: &&'static str| Some((*pattern, rules::parse(pattern, base)?));
                    let (pattern, (bid, xid)) = rule.hf.iter().find_map(fits)?;
                    Some(Found { rule, pattern, suffix, bid, xid })
                })
                .collect();
            (!found.is_empty()).then_some(found)
        };
        // Whole names first: RWKV's biases without an ending are weights of another name.
        let endings = [None].into_iter().chain(SUFFIXES.map(Some));
        endings.into_iter().find_map(found).unwrap_or_default()
    }

    /// The name of the scales that a tensor of codes belongs to, if it is one.
    fn scales_of(&self, name: &str) -> Option<String> {
        let scales = turned::partner(name).filter(|_| name.ends_with("_blocks"))?;
        let is_packed = |found: &Found<'_>| matches!(found.rule.rows, RowRule::Mxfp4(_));
        self.find(&scales).first().is_some_and(is_packed).then_some(scales)
    }

    /// Why a tensor is left out that may be the same as one before it.
    fn twin(&self, found: &Found<'_>, source: &SourceTensor, before: &[OutTensor]) -> Option<&'static str> {
        let twin = found.rule.twin?.to_owned() + found.suffix;
        let Data::Rows { sources, .. } = &before.iter().find(|tensor| tensor.name == twin)?.data else {
            return None;
        };
        let same = self.same?.ask(sources.first()?, &source.name);
        same.then_some("equal to the embedding, which serves as the output")
    }

    /// One tensor of several that are alike.
    fn fuse(
        &self,
        found: &Found<'_>,
        parts: &BTreeMap<usize, &SourceTensor>,
    ) -> Result<OutTensor, ArchError> {
        let mut all = parts.values();
        let Some(first) = all.next() else { return Err(ArchError::MissingTensors { names: Vec::new() }) };
        if let Some(other) = all.find(|part| part.shape != first.shape) {
            return Err(ArchError::TensorShape {
                name: other.name.clone(),
                found: other.shape,
                expected: format!("{} as of `{}`", first.shape, first.name),
            });
        }
        let name = rules::fill(found.rule.gguf, found.bid, 0) + found.suffix;
        let mut dims = self.reshape(found.rule, first, first.shape)?.dims().to_vec();
        dims.push(parts.len() as u64);
        let shape = Shape::new(&dims).map_err(|source| ArchError::Shape { name: name.clone(), source })?;
        Ok(OutTensor {
            keep_f32: drops::keep_f32(&name, shape.n_dims()),
            name,
            shape,
            data: Data::Rows {
                sources: parts.values().map(|part| part.name.clone()).collect(),
                rows: RowMap::Concat,
                element: ElementMap::Identity,
            },
        })
    }

    /// What is not there of a tensor that is made of several.
    fn unfused(&self, gguf: &str, bid: u64, parts: &BTreeMap<usize, &SourceTensor>) -> Vec<String> {
        let rule = self.rules().find(|rule| rule.gguf == gguf && matches!(rule.rows, RowRule::Fuse(_)));
        let Some((rule, RowRule::Fuse(n_parts))) = rule.map(|rule| (rule, rule.rows)) else {
            return Vec::new();
        };
        let absent = (0..n_parts(self.hparams)).filter(|part| !parts.contains_key(part));
        // A header's word is not worth memory.
        let absent = absent.take(parts.len() + 1);
        if rule.hf.iter().any(|name| name.contains("{xid}")) {
            absent.map(|part| self.spelled(rule, 0, bid, part as u64)).collect()
        } else {
            absent.map(|part| self.spelled(rule, part, bid, 0)).collect()
        }
    }

    /// The name of a rule's tensor as the checkpoint would spell it.
    fn spelled(&self, rule: &TensorRule, name: usize, bid: u64, xid: u64) -> String {
        let ending = if rule.bare.is_some() { "" } else { ".weight" };
        let name = rules::fill(rule.hf.get(name).copied().unwrap_or_default(), bid, xid) + ending;
        name.strip_prefix(self.prefix).map(str::to_owned).unwrap_or(name)
    }

    /// The shape of a tensor in the file, which has as many elements as without the rule.
    fn reshape(&self, rule: &TensorRule, source: &SourceTensor, shape: Shape) -> Result<Shape, ArchError> {
        let Some(reshape) = rule.shape else { return Ok(shape) };
        let dims = (reshape.forward)(self.hparams, shape.dims())?;
        let made = Shape::new(&dims).ok().filter(|made| made.n_elems() == shape.n_elems());
        made.ok_or_else(|| ArchError::TensorShape {
            name: source.name.clone(),
            found: source.shape,
            expected: format!("as many elements as {dims:?} has"),
        })
    }

    /// The tensor that a rule makes of a source tensor, or of a part of it.
    ///
    /// # Errors
    ///
    /// [`ArchError`] where the rule does not fit the shape.
    pub fn one(&self, found: &Found<'_>, source: &SourceTensor) -> Result<OutTensor, ArchError> {
        let name = rules::fill(found.rule.gguf, found.bid, found.xid) + found.suffix;
        let rows = match found.rule.rows {
            RowRule::Copy | RowRule::First | RowRule::StackExperts | RowRule::Fuse(_) => RowMap::Concat,
            RowRule::PermuteQ => RowMap::RopePermute { n_head: self.hparams.n_heads()? },
            RowRule::PermuteK => RowMap::RopePermute { n_head: self.hparams.n_kv_heads()? },
            RowRule::Part(part) => part(self.hparams, &source.shape)?,
            // Of a bias there are no columns.
            RowRule::Columns(_) if found.suffix == ".bias" => RowMap::Concat,
            RowRule::Columns(rows) | RowRule::Mxfp4(rows) => rows,
            RowRule::Turned(turn) => turn(self.hparams, &source.shape)?.columns,
        };
        let wrong =
            |expected| ArchError::TensorShape { name: source.name.clone(), found: source.shape, expected };
        let (lying, matrix) = match found.rule.rows {
            RowRule::Columns(_) if found.suffix != ".bias" => {
                let (lying, matrix) = turned::turned(&source.shape).map_err(wrong)?;
                (lying, Some(matrix))
            }
            RowRule::Turned(turn) => {
                let how = turn(self.hparams, &source.shape)?;
                (turned::turned_parts(&source.shape, &how).map_err(wrong)?, Some(how.matrix))
            }
            _ => (source.shape, None),
        };
        let shape = part_shape(&rows, &lying).map_err(wrong)?;
        let shape = self.reshape(found.rule, source, shape)?;
        let element = match found.rule.element_of {
            Some(element_of) => element_of(self.hparams, found.bid, found.suffix)?,
            None if found.suffix == ".bias" => ElementMap::Identity,
            None => found.rule.element,
        };
        let name_of = || source.name.clone();
        let out = OutTensor {
            keep_f32: drops::keep_f32(&name, shape.n_dims()) && !found.rule.may_shrink,
            name,
            shape,
            data: match matrix {
                Some(matrix) => Data::Columns { source: name_of(), matrix, rows, element },
                None => Data::Rows { sources: vec![name_of()], rows, element },
            },
        };
        let n_head = match rows {
            RowMap::RopePermute { n_head } => n_head,
            RowMap::Groups { n_head, .. } if n_head > 0 => n_head,
            _ => return Ok(out),
        };
        let n_rows = out.row_view().n_rows;
        if n_head.checked_mul(2).is_none_or(|halves| halves == 0 || !n_rows.is_multiple_of(halves)) {
            return Err(wrong(format!("rows in {n_head} heads of two halves")));
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

    /// Names what stacks lack that were begun though the model can do without them.
    fn incomplete(&self, stacks: &HashMap<u64, Stack<'_>>, n_experts: u64, limit: usize) -> Vec<String> {
        let mut bids: Vec<&u64> = stacks.keys().collect();
        bids.sort_unstable();
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
    fn check_missing(
        &self,
        tensors: &[OutTensor],
        stacks: &HashMap<u64, Stack<'_>>,
        unfused: Vec<String>,
        n_experts: u64,
    ) -> Result<(), ArchError> {
        let have: HashSet<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        let mut names = unfused;
        // A header's word is not worth memory: no more layers are looked at than it takes to
        // show that something is missing.
        for rule in self.rules() {
            let layers = if rule.gguf.contains("{bid}") { self.n_layers(rule) } else { 1 };
            let first_missing = (0..layers)
                .take(tensors.len() + 1)
                .filter(|bid| rule.needed(self.hparams, n_experts, *bid))
                .filter(|bid| !have.contains((rules::fill(rule.gguf, *bid, 0) + rule.ending()).as_str()));
            for bid in first_missing {
                let experts = if matches!(rule.rows, RowRule::StackExperts) { n_experts } else { 1 };
                let stack = stacks.get(&bid);
                let absent = (0..experts)
                    .take(tensors.len() + 1)
                    .filter(|xid| stack.is_none_or(|stack| !stack.contains_key(&(rule.gguf, *xid))));
                names.extend(absent.map(|xid| self.spelled(rule, 0, bid, xid)));
            }
        }
        names.extend(self.incomplete(stacks, n_experts, tensors.len()));
        names.dedup();
        if names.is_empty() { Ok(()) } else { Err(ArchError::MissingTensors { names }) }
    }
}

/// The shape of what a map takes of a source: that of the source, with fewer rows where it takes
/// a part. What was expected where the source does not have such a part.
fn part_shape(rows: &RowMap, source: &Shape) -> Result<Shape, String> {
    let mut dims = source.dims().to_vec();
    let outer = dims.len().saturating_sub(1).min(1);
    let Some(dim) = dims.get_mut(outer) else { return Ok(*source) };
    match *rows {
        RowMap::Groups { group, start, rows, .. } => {
            let inside = rows > 0 && start.checked_add(rows).is_some_and(|end| end <= group);
            if !inside || !dim.is_multiple_of(group) {
                return Err(format!("groups of {group} rows, of which {rows} from {start} on are taken"));
            }
            *dim = *dim / group * rows;
        }
        RowMap::Ungroup { queries, keys } => {
            let group = keys.checked_mul(2).and_then(|keys| keys.checked_add(queries));
            if queries == 0 || keys == 0 || group.is_none_or(|group| !dim.is_multiple_of(group)) {
                return Err(format!("groups of {queries} rows of queries, {keys} of keys and of values"));
            }
        }
        RowMap::Regroup { group, parts } => {
            let inside = |(start, rows): &(u64, u64)| {
                *rows > 0 && start.checked_add(*rows).is_some_and(|end| end <= group)
            };
            let taken = parts.iter().try_fold(0u64, |sum, (_, rows)| sum.checked_add(*rows));
            let taken = taken.filter(|taken| *taken <= group && parts.iter().all(inside));
            let Some(taken) = taken.filter(|_| dim.is_multiple_of(group)) else {
                return Err(format!("groups of {group} rows with parts {parts:?}"));
            };
            *dim = *dim / group * taken;
        }
        RowMap::Elements { step, start } => {
            let Some(first) = dims.first_mut() else { return Ok(*source) };
            if start >= step || !first.is_multiple_of(step) {
                return Err(format!("rows of a multiple of {step} elements"));
            }
            *first /= step;
        }
        RowMap::Chunks { order } => {
            // These may be matrices of their own.
            if !dims.iter().skip(outer).product::<u64>().is_multiple_of(order.len() as u64) {
                return Err(format!("{} chunks of the same number of rows", order.len()));
            }
        }
        RowMap::Slice { start } => {
            let left = dim.checked_sub(start).filter(|left| *left > 0);
            *dim = left.ok_or_else(|| format!("more than {start} rows"))?;
        }
        _ => return Ok(*source),
    }
    Shape::new(&dims).map_err(|error| error.to_string())
}

impl TensorRule {
    /// Whether a model of this config cannot do without the tensor in a layer.
    pub fn needed(&self, hparams: &Hparams, n_experts: u64, bid: u64) -> bool {
        match self.need {
            Need::If(needed) => needed(hparams, bid),
            Need::Always => true,
            Need::Dense => n_experts == 0,
            Need::Experts => n_experts > 0,
            Need::Optional => false,
        }
    }
}

/// Number of experts that the config states, 0 where it states none.
pub fn n_experts(hparams: &Hparams) -> Result<u64, ArchError> {
    match hparams.find(&["num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"]) {
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
                Data::Columns { source, .. } => source.clone(),
                Data::Mxfp4 { codes, .. } => codes.clone(),
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
