//! Maps the tensors of a LoRA adapter to those of an adapter file.
//!
//! A pair of small matrices A (r, in) and B (out, r) changes a matrix W (out, in) of the base model by B @ A.
//! Transforms of W's rows apply to those of B; the columns of W, which are those of A, stay in place. So the
//! base model's table determines everything.

use std::collections::HashMap;
use std::fmt;

use super::context::{Context, part_shape};
use super::index::Found;
use super::missing::check_same_output;
use super::rules::{self, RowRule};
use super::{drops, transposed};
use crate::error::shape_of;
use crate::layout::{Data, Dropped, ElementMap, FloatType, OutTensor, RowMap};
use crate::spellings::{TensorNames, spellings};
use crate::{ArchError, SourceTensor};

/// Scale of an adapter's pairs.
///
/// A pair changes its matrix by `alpha / rank * B @ A`, with the alpha of [`AdapterScale::alpha_of`].
#[derive(Clone, Copy)]
pub struct AdapterScale<'a> {
    /// The adapter's general alpha, which the file contains if the pairs need different ones.
    pub alpha: f64,
    /// Alpha of one pair, by the name of its module in the adapter and its rank.
    pub alpha_of: &'a dyn Fn(&str, u64) -> f64,
}

impl fmt::Debug for AdapterScale<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdapterScale").field("alpha", &self.alpha).finish_non_exhaustive()
    }
}

/// Known facts about the base model's matrices.
pub struct Base<'a> {
    /// Its tensors, if its weights are at hand.
    pub tensors: &'a [SourceTensor],
    /// Its width.
    pub width: Option<u64>,
}

/// A pair, as it is found in the adapter.
struct Pair<'a> {
    /// The name of the matrix in the base model.
    target: String,
    a: Option<&'a SourceTensor>,
    b: Option<&'a SourceTensor>,
}

/// A complete pair.
#[derive(Clone, Copy)]
struct Both<'a> {
    a: &'a SourceTensor,
    b: &'a SourceTensor,
}

/// Experts of a layer that wait for the rest, with the factors of B: by output pattern and expert.
type Stack<'a> = HashMap<(&'static str, u64), (Both<'a>, f32)>;

/// An adapter in terms of the file.
pub struct Adapted {
    /// Its tensors.
    pub tensors: Vec<OutTensor>,
    /// Weights that are left out because they are the base model's own.
    pub dropped: Vec<Dropped>,
    /// Matrices of vision and audio towers, whose pairs are left out.
    pub left_out: Vec<String>,
    /// Whole norms in the file, by their names in the adapter.
    pub norms: Vec<String>,
    /// Other tensors of norms, with which llama.cpp does not load an adapter file.
    pub left_out_norms: Vec<String>,
    /// The alpha of the file.
    pub alpha: f32,
}

/// A pair with its place in the base model.
struct Placed<'a> {
    target: String,
    both: Both<'a>,
    all: Vec<Found>,
    alpha: f64,
}

/// Applies the table of a base model to an adapter.
///
/// Whole norms come first, as they are met, then pairs in the order of their first half, A before B;
/// a stack of experts if its last pair was met.
///
/// Source: `LoraModel.get_tensors` and `modify_tensors` in `convert_lora_to_gguf.py`.
///
/// # Errors
///
/// [`ArchError::NotLora`], [`ArchError::MissingTensors`], [`ArchError::NotInBase`],
/// [`ArchError::TensorShape`], [`ArchError::AdapterTarget`].
pub fn adapt(
    context: &Context<'_>,
    base: &Base<'_>,
    sources: &[SourceTensor],
    scale: &AdapterScale<'_>,
) -> Result<Adapted, ArchError> {
    let (n_layers, n_experts) = (context.hparams.n_layers()?, context.hparams.n_experts()?);
    let by_name: HashMap<&str, &SourceTensor> =
        base.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
    let mut names = TensorNames::new(base.tensors.iter().map(|tensor| tensor.name.as_str()));
    let (pairs, whole, dropped) = sort_out(sources)?;
    let mut tensors = Vec::with_capacity(sources.len());
    let (mut unused, mut left_out) = (Vec::new(), Vec::new());
    let (mut norms, mut left_out_norms) = (Vec::new(), Vec::new());
    let is_dropped = |resolved: &str| {
        drops::reason(resolved).or_else(|| (context.drops)(context.hparams, resolved)).is_some()
    };
    for (target, source) in whole {
        let (resolved, all) = place(context, &mut names, &target, n_layers);
        match all.as_deref() {
            _ if is_dropped(&resolved) => left_out_norms.push(target),
            Some([found, ..]) => {
                let out = context.one(found, source)?;
                if out.name.ends_with("_norm.weight") {
                    norms.push(target);
                    tensors.push(out);
                } else {
                    left_out_norms.push(target);
                }
            }
            _ => unused.push(source.name.clone()),
        }
    }
    let mut placed = Vec::with_capacity(pairs.len());
    for (target, both) in pairs {
        let (resolved, all) = place(context, &mut names, &target, n_layers);
        if is_dropped(&resolved) {
            left_out.push(target);
            continue;
        }
        let Some(all) = all else {
            unused.push(both.a.name.clone());
            continue;
        };
        base.check(by_name.get(resolved.as_str()).copied(), &all, both)?;
        let module = target.strip_suffix(".weight").unwrap_or(&target);
        let alpha = (scale.alpha_of)(module, both.b.shape.row_elems());
        placed.push(Placed { target, both, all, alpha });
    }
    if !unused.is_empty() {
        return Err(ArchError::NotInBase { names: unused });
    }
    if placed.is_empty() && !left_out.is_empty() {
        let reason = "part of a vision or audio tower, which an adapter file cannot hold";
        return Err(ArchError::AdapterTarget { name: left_out.swap_remove(0), reason });
    }
    let alpha = file_alpha(&placed, scale.alpha);
    let factor_of = |placed: &Placed<'_>| (placed.alpha / f64::from(alpha)) as f32;
    let mut stacks: HashMap<u64, Stack<'_>> = HashMap::new();
    for placed in &placed {
        let (all, factor) = (&placed.all, factor_of(placed));
        // Pairs of all experts become two tensors of three dimensions, when the last is there.
        if matches!(all[0].rule.rows, RowRule::StackExperts) {
            let stack = stacks.entry(all[0].bid).or_default();
            stack.insert((all[0].rule.gguf, all[0].xid), (placed.both, factor));
            if stack.len() as u64 == n_experts.saturating_mul(context.stacked().count() as u64) {
                let stack = stacks.remove(&all[0].bid).unwrap_or_default();
                stacked(context, all[0].bid, n_experts, &stack, &mut tensors)?;
            }
            continue;
        }
        for found in all {
            pair(context, found, placed, factor, &mut tensors)?;
        }
    }
    let mut layers: Vec<(u64, Stack<'_>)> = stacks.into_iter().collect();
    layers.sort_unstable_by_key(|(bid, _)| *bid);
    for (bid, stack) in layers {
        stacked(context, bid, n_experts, &stack, &mut tensors)?;
    }
    check_same_output(&tensors)?;
    Ok(Adapted { tensors, dropped, left_out, norms, left_out_norms, alpha })
}

/// The alpha of the file: that of all pairs if they agree, else the adapter's general one. Runtimes take an alpha of 0
/// for a missing one and do not scale.
fn file_alpha(placed: &[Placed<'_>], general: f64) -> f32 {
    let mut alphas = placed.iter().map(|placed| placed.alpha as f32);
    let shared = alphas.next().filter(|first| alphas.all(|alpha| alpha == *first));
    match shared.unwrap_or(general as f32) {
        0.0 => 1.0,
        alpha => alpha,
    }
}

/// Element transform of B: that of its matrix, which must be linear, times the part of the scale that the
/// file's alpha cannot express.
fn scaled(element: ElementMap, factor: f32) -> Option<ElementMap> {
    Some(match element {
        ElementMap::Identity if factor == 1.0 => ElementMap::Identity,
        ElementMap::Identity => ElementMap::Scale([factor, 1.0]),
        ElementMap::Scale(scale) if factor == 1.0 => ElementMap::Scale(scale),
        ElementMap::Scale([first, second]) => ElementMap::Scale([first * second, factor]),
        ElementMap::ScaleBands { factor: own, bands } => {
            ElementMap::ScaleBands { factor: own * factor, bands }
        }
        _ => return None,
    })
}

type Sorted<'a> = (Vec<(String, Both<'a>)>, Vec<(String, &'a SourceTensor)>, Vec<Dropped>);

/// Pairs in the order of their first half, complete norms, and what is left out.
fn sort_out(sources: &[SourceTensor]) -> Result<Sorted<'_>, ArchError> {
    let mut pairs: Vec<Pair<'_>> = Vec::new();
    let mut index: HashMap<String, usize> = HashMap::new();
    let (mut whole, mut dropped, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
    for source in sources {
        let name = source.name.as_str();
        // PEFT names a half after its matrix: `base_model.model.X.lora_A.weight` for `X.weight`.
        let is_a = name.contains(".lora_A.weight") || name.contains(".lora_embedding_A");
        let is_b = name.contains(".lora_B.weight") || name.contains(".lora_embedding_B");
        if !is_a && !is_b {
            if name.contains(".base_layer.weight") || name.contains(".original_module.") {
                let reason = "a weight of the base model";
                dropped.push(Dropped { name: source.name.clone(), reason });
            } else if name.contains("_layernorm") || name.contains(".norm") {
                whole.push((target_of(name), source));
            } else {
                unknown.push(source.name.clone());
            }
            continue;
        }
        let target = target_of(name);
        // The other half may come many tensors later; the pair keeps the place of the first.
        let at = *index.entry(target.clone()).or_insert_with(|| {
            pairs.push(Pair { target, a: None, b: None });
            pairs.len() - 1
        });
        *(if is_a { &mut pairs[at].a } else { &mut pairs[at].b }) = Some(source);
    }
    if !unknown.is_empty() {
        return Err(ArchError::NotLora { names: unknown });
    }
    let mut missing = Vec::new();
    let mut whole_pairs = Vec::with_capacity(pairs.len());
    for Pair { target, a, b } in pairs {
        match (a, b) {
            (Some(a), Some(b)) => whole_pairs.push((target, Both { a, b })),
            (Some(half), None) => missing.push(half.name.replace("_A", "_B")),
            (None, Some(half)) => missing.push(half.name.replace("_B", "_A")),
            (None, None) => {}
        }
    }
    if missing.is_empty() {
        Ok((whole_pairs, whole, dropped))
    } else {
        Err(ArchError::MissingTensors { names: missing })
    }
}

/// The name of the matrix that a tensor of an adapter changes.
///
/// Source: `get_base_tensor_name` in `convert_lora_to_gguf.py`.
fn target_of(name: &str) -> String {
    let mut target = name.replace("base_model.model.", "");
    for half in [".lora_A.weight", ".lora_B.weight", ".lora_embedding_A", ".lora_embedding_B"] {
        target = target.replace(half, ".weight");
    }
    target
}

/// The base model's name of a tensor, and its rows of the table: by the base model's own names if these are known, else by
/// every spelling that the table may have.
fn place(
    context: &Context<'_>,
    names: &mut TensorNames<'_>,
    target: &str,
    n_layers: u64,
) -> (String, Option<Vec<Found>>) {
    let known = names.find(target).map(str::to_owned);
    let candidates = known.into_iter().chain(spellings(target));
    let fitting = |name: String| {
        let all = context.find(&name);
        all.first().is_some_and(|found| found.bid < n_layers).then_some((name, all))
    };
    match candidates.into_iter().find_map(fitting) {
        Some((name, all)) => (name, Some(all)),
        None => (names.find(target).unwrap_or(target).to_owned(), None),
    }
}

/// A and B of one matrix or a part.
fn pair(
    context: &Context<'_>,
    found: &Found,
    placed: &Placed<'_>,
    factor: f32,
    tensors: &mut Vec<OutTensor>,
) -> Result<(), ArchError> {
    let both = placed.both;
    let refuse = |reason| Err(ArchError::AdapterTarget { name: placed.target.clone(), reason });
    let rule = found.rule;
    let is_plain = matches!(
        rule.rows,
        RowRule::Copy
            | RowRule::First
            | RowRule::PermuteQ
            | RowRule::PermuteK
            | RowRule::Part(_)
            | RowRule::Columns(_)
    );
    if !is_plain || rule.shape.is_some() {
        return refuse("the matrix has a different row order in GGUF files");
    }
    let name = rules::fill(rule.gguf, found.bid, found.xid) + found.suffix;
    let plain = |half: &SourceTensor| (half.shape, rows(&[half], ElementMap::Identity));
    let mapped = |half: &SourceTensor| context.one(found, half).map(|out| (out.shape, out.data));
    let (a, mut b) = match rule.rows {
        // Rows of tokens are looked up in A, so that they must be rows there.
        _ if name == "token_embd.weight" => {
            let (shape, matrix) =
                transposed::transposed(&both.a.shape).map_err(|expected| wrong(both.a, expected))?;
            let (source, rows, element) = (both.a.name.clone(), RowMap::Concat, ElementMap::Identity);
            ((shape, Data::Columns { source, matrix, rows, element }), mapped(both.b)?)
        }
        // Columns of the matrix are columns of A.
        RowRule::Part(part)
            if matches!(part(context.hparams, &both.a.shape), Ok(RowMap::TileColumns { .. })) =>
        {
            (mapped(both.a)?, plain(both.b))
        }
        // The rows are found by the tokenizer, and runtimes apply no pair to such an output.
        RowRule::Part(part) if matches!(part(context.hparams, &both.b.shape), Ok(RowMap::Pick { .. })) => {
            return refuse("the file contains only two rows of the matrix");
        }
        // PEFT has the outputs of a transposed matrix as rows of B.
        RowRule::Columns(map) => {
            let shape = part_shape(&map, &both.b.shape).map_err(|expected| wrong(both.b, expected))?;
            let (sources, element) = (vec![both.b.name.clone()], ElementMap::Identity);
            (plain(both.a), (shape, Data::Rows { sources, rows: map, element }))
        }
        _ => (plain(both.a), mapped(both.b)?),
    };
    if let Data::Rows { element, .. } | Data::Columns { element, .. } = &mut b.1 {
        let Some(composed) = scaled(*element, factor) else {
            return refuse("the values of the matrix differ in GGUF files");
        };
        *element = composed;
    }
    for (half, (shape, data)) in [("a", a), ("b", b)] {
        let name = format!("{name}.lora_{half}");
        tensors.push(OutTensor { name, shape, data, float: FloatType::OfFile, stored_dtype: None });
    }
    Ok(())
}

/// A and B of the experts of a layer, each in one tensor.
fn stacked(
    context: &Context<'_>,
    bid: u64,
    n_experts: u64,
    stack: &Stack<'_>,
    tensors: &mut Vec<OutTensor>,
) -> Result<(), ArchError> {
    let spelled = |rule: &rules::TensorRule, xid| {
        rules::fill(rule.hf.first().copied().unwrap_or_default(), bid, xid) + ".weight"
    };
    // The reference waits for all matrices of all experts. Runtimes apply each stack by itself.
    let is_in_stack = |rule: &&rules::TensorRule| stack.keys().any(|(gguf, _)| *gguf == rule.gguf);
    for rule in context.stacked().filter(is_in_stack) {
        let gguf = rule.gguf;
        if let Some(xid) = (0..n_experts).find(|xid| !stack.contains_key(&(gguf, *xid))) {
            let reason = "other experts of the layer have a pair, and a stack needs one for each expert";
            return Err(ArchError::AdapterTarget { name: spelled(rule, xid), reason });
        }
        let (all, factors): (Vec<Both<'_>>, Vec<f32>) =
            (0..n_experts).filter_map(|xid| stack.get(&(rule.gguf, xid)).copied()).unzip();
        let name = rules::fill(rule.gguf, bid, 0) + ".weight";
        let Some(factor) = factors.first().copied() else { continue };
        if factors.iter().any(|other| *other != factor) {
            let reason = "experts of one layer have different scales";
            return Err(ArchError::AdapterTarget { name: spelled(rule, 0), reason });
        }
        let element = scaled(ElementMap::Identity, factor).unwrap_or(ElementMap::Identity);
        let halves: [(&str, Vec<&SourceTensor>, ElementMap); 2] = [
            ("a", all.iter().map(|both| both.a).collect(), ElementMap::Identity),
            ("b", all.iter().map(|both| both.b).collect(), element),
        ];
        for (half, sources, element) in halves {
            let Some(first) = sources.first() else { continue };
            if let Some(other) = sources.iter().find(|source| source.shape != first.shape) {
                return Err(wrong(other, format!("{} as of `{}`", first.shape, first.name)));
            }
            let name = format!("{name}.lora_{half}");
            let dims = [first.shape.dims(), &[n_experts]].concat();
            let shape = shape_of(&name, &dims)?;
            tensors.push(OutTensor {
                name,
                shape,
                data: rows(&sources, element),
                float: FloatType::OfFile,
                stored_dtype: None,
            });
        }
    }
    Ok(())
}

fn rows(sources: &[&SourceTensor], element: ElementMap) -> Data {
    Data::Rows {
        sources: sources.iter().map(|source| source.name.clone()).collect(),
        rows: RowMap::Concat,
        element,
    }
}

fn wrong(source: &SourceTensor, expected: String) -> ArchError {
    ArchError::TensorShape { name: source.name.clone(), found: source.shape, expected }
}

impl Base<'_> {
    /// Checks that a pair fits itself and the base model, whose `weight` it changes.
    fn check(&self, weight: Option<&SourceTensor>, all: &[Found], both: Both<'_>) -> Result<(), ArchError> {
        // A (rank, in), B (out, rank): dimensions row length first are [in, rank] and [rank, out].
        let (a, b) = (both.a.shape.dims(), both.b.shape.dims());
        let (&[inner, rank], &[rank_of_b, outer]) = (a, b) else {
            let source = if a.len() == 2 { both.b } else { both.a };
            return Err(wrong(source, "a matrix".to_owned()));
        };
        if rank != rank_of_b {
            return Err(wrong(both.b, format!("rows of {rank} elements, the rank of `{}`", both.a.name)));
        }
        // The matrices of an embedding are those of its transpose.
        let is_embedding = all.iter().any(|found| found.rule.gguf == "token_embd");
        let (inner, outer) = if is_embedding { (outer, inner) } else { (inner, outer) };
        let (inner_factor, outer_factor) = if is_embedding { (both.b, both.a) } else { (both.a, both.b) };
        let is_transposed = all.iter().any(|found| matches!(found.rule.rows, RowRule::Columns(_)));
        let stated = weight.and_then(|weight| match weight.shape.dims() {
            &[first, second] => {
                let (inner, outer) = if is_transposed { (second, first) } else { (first, second) };
                Some((Some(inner), Some(outer), format!("those of `{}`, {}", weight.name, weight.shape)))
            }
            _ => None,
        });
        let (stated_inner, stated_outer, of) = stated.unwrap_or_else(|| {
            let (inner, outer) = widths(all, self.width);
            (inner, outer, "the width of the base model".to_owned())
        });
        if let Some(stated_size) = stated_inner.filter(|stated_size| *stated_size != inner) {
            return Err(wrong(inner_factor, format!("{stated_size} columns of the matrix: {of}")));
        }
        match stated_outer.filter(|stated_size| *stated_size != outer) {
            Some(stated_size) => Err(wrong(outer_factor, format!("{stated_size} rows of the matrix: {of}"))),
            None => Ok(()),
        }
    }
}

/// Columns and rows of a matrix that equal the width of the model, according to its name.
fn widths(all: &[Found], width: Option<u64>) -> (Option<u64>, Option<u64>) {
    let part = all.first().and_then(|found| found.rule.gguf.rsplit('.').next()).unwrap_or_default();
    // The width of the model goes into Q, K, V, gate and up, and comes out of the output and down
    // projections.
    match part {
        "attn_q" | "attn_k" | "attn_v" | "attn_qkv" | "ffn_gate" | "ffn_up" | "ffn_gate_exps"
        | "ffn_up_exps" | "output" | "token_embd" => (width, None),
        "attn_output" | "ffn_down" | "ffn_down_exps" => (None, width),
        _ => (None, None),
    }
}
