//! The tensors that a checkpoint would have of which a file was made: the table read from right to left.

use std::collections::BTreeMap;

use gguf_container::{Array, Value};
use gguf_types::Shape;

use super::error::ExportError;
use super::layout::{ArchFile, is_computed};
use crate::SourceTensor;
use crate::arch::{Arch, Class};
use crate::tensors::rules::{self, Need, RowRule, TensorRule};
use crate::tensors::{CORRECTION_BIAS, Context, Found, SUFFIXES};

/// A tensor of the file that a rule has made of a source tensor or a part.
struct Made<'a> {
    found: Found,
    /// Its name and shape in the file.
    name: &'a str,
    shape: Shape,
    /// Its dimensions before the rule gave it others.
    dims: Vec<u64>,
}

/// Names and shapes of the source tensors, sorted by name.
///
/// # Errors
/// [`ExportError::UnusedTensors`] for what no rule makes, [`ExportError::NotExpressible`] for what no
/// source tensor of any shape could have led to.
pub fn sources(
    context: &Context<'_>,
    file: &ArchFile<'_>,
    class: Class,
) -> Result<Vec<SourceTensor>, ExportError> {
    let (arch, input) = (file.arch, file.input);
    let mut sources: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut shared: BTreeMap<String, Vec<Made<'_>>> = BTreeMap::new();
    let mut unused = Vec::new();
    for (name, shape) in input.tensors.iter().filter(|(name, _)| !is_computed(name)) {
        let places = places(context, arch, name);
        if places.is_empty() {
            unused.push(name.clone());
        }
        for found in places {
            let dims = match found.rule.shape {
                Some(shape_rule) if !matches!(found.rule.rows, RowRule::Fuse(_)) => {
                    (shape_rule.inverse)(shape.dims())
                }
                _ => shape.dims().to_vec(),
            };
            match found.rule.rows {
                // (row, rows, n) in the file is n matrices (row, rows).
                RowRule::StackExperts => {
                    let [row, rows, n] = dims[..] else { continue };
                    sources.extend((0..n).map(|xid| (spelled(&found, class.spelling, xid), vec![row, rows])));
                }
                // The last dimension counts the parts, each of the shape before it.
                RowRule::Fuse(n_parts) => {
                    let n = n_parts(context.hparams).min(shape.n_elems() as usize);
                    let own = dims.split_last().map_or(&[][..], |(_, own)| own);
                    let own = found.rule.shape.map_or(own.to_vec(), |shape_rule| (shape_rule.inverse)(own));
                    for part in 0..n {
                        sources.insert(spelled(&found, part, part as u64), own.clone());
                    }
                }
                // Several outputs may share one source (Q, K and V of one matrix): its shape is found below.
                _ => {
                    let source = spelled(&found, class.spelling, found.xid);
                    shared.entry(source).or_default().push(Made { found, name, shape: *shape, dims });
                }
            }
        }
    }
    if !unused.is_empty() {
        return Err(ExportError::UnusedTensors { names: unused });
    }
    for rule in arch.numbers {
        let n_numbers = match input.metadata.get(rule.key) {
            Some(Value::Array(Array::F32(numbers))) if rule.is_of_layers() => numbers.len() as u64,
            Some(Value::F32(_)) if !rule.is_of_layers() => 1,
            _ => continue,
        };
        sources.extend((0..n_numbers).map(|bid| (rules::fill(rule.hf, bid, 0), rule.dims.to_vec())));
    }
    // Try the shapes that may be meant, and take the first from which the rules make all outputs again.
    for (name, made) in shared {
        let fits = |dims: &Vec<u64>| {
            let source =
                Shape::new(dims).ok().map(|shape| SourceTensor { name: name.clone(), shape, folded: None });
            source.is_some_and(|source| {
                made.iter().all(|made| {
                    let again = context.one(&made.found, &source);
                    again.is_ok_and(|again| again.name == made.name && again.shape == made.shape)
                })
            })
        };
        let dims = candidates(&made).into_iter().find(fits).ok_or_else(|| ExportError::NotExpressible {
            subject: format!("tensor `{}` of shape {}", made[0].name, made[0].shape),
        })?;
        sources.insert(name, dims);
    }
    let source = |(name, dims): (String, Vec<u64>)| match Shape::new(&dims) {
        Ok(shape) => {
            let name = (arch.export_name)(context.hparams, class, &name).unwrap_or(name);
            // If only the inner part has a class, the names of the table lose its prefix.
            let name = name.strip_prefix(class.prefix).unwrap_or(&name).to_owned();
            Ok(SourceTensor { name, shape, folded: None })
        }
        Err(_) => Err(ExportError::NotExpressible { subject: format!("tensor `{name}` of shape {dims:?}") }),
    };
    sources.into_iter().map(source).collect()
}

/// The names that the tensors of the file may have had, whatever the config says; their shapes are of no
/// account.
pub fn names(file: &ArchFile<'_>) -> Vec<SourceTensor> {
    let (arch, input) = (file.arch, file.input);
    let name = |name: &String| {
        let rules = arch.tensors.iter().flat_map(|part| part.iter());
        let found = rules.into_iter().find_map(|rule| found(rule, name))?;
        Shape::new(&[1]).ok().map(|shape| SourceTensor {
            name: spelled(&found, 0, found.xid),
            shape,
            folded: None,
        })
    };
    input.tensors.iter().filter_map(|(tensor, _)| name(tensor)).collect()
}

/// The name in the file of a tensor that a checkpoint lacks.
pub fn output_name(arch: &'static Arch, class: Class, name: &str) -> String {
    let whole = format!("{}{name}", class.prefix);
    let place = arch.rules().find_map(|rule| {
        let endings: &[&str] = if rule.bare.is_some() { &[""] } else { &SUFFIXES };
        endings.iter().find_map(|ending| {
            let base = whole.strip_suffix(ending)?;
            let (bid, xid) = rule.hf.iter().find_map(|pattern| rules::parse(pattern, base))?;
            Some(rules::fill(rule.gguf, bid, xid) + rule.bare.unwrap_or(ending))
        })
    });
    place.unwrap_or_else(|| name.to_owned())
}

/// A tensor's place in a rule, if it has one.
fn found(rule: &'static TensorRule, name: &str) -> Option<Found> {
    let endings: &[&'static str] = match &rule.bare {
        Some(ending) => std::slice::from_ref(ending),
        None => &SUFFIXES,
    };
    endings.iter().find_map(|suffix| {
        let (bid, xid) = rules::parse(rule.gguf, name.strip_suffix(suffix)?)?;
        Some(Found { rule, pattern: rule.hf.first().copied().unwrap_or_default(), suffix, bid, xid })
    })
}

/// The rule that has made a tensor: among possible rules, the first that the config needs, else the
/// first. More than one if a tensor is put together of differently named parts is not a case yet.
fn places(context: &Context<'_>, arch: &'static Arch, name: &str) -> Vec<Found> {
    let n_experts = context.hparams.n_experts().unwrap_or(0);
    let rules = arch.tensors.iter().flat_map(|part| part.iter());
    // Blocks are floats in a checkpoint that is exported.
    let rules = rules.filter(|rule| !matches!(rule.rows, RowRule::Blocks(_)));
    let all: Vec<Found> = rules
        .filter_map(|rule| found(rule, name))
        .filter(|found| found.bid < context.n_layers(found.rule))
        .filter(|found| found.rule.holds(context.hparams, found.bid))
        .collect();
    let stated = |found: &Found| matches!(found.rule.need, Need::If(_));
    let needed = |found: &&Found| stated(found) && found.rule.needed(context.hparams, n_experts, found.bid);
    let first = all.iter().find(needed).or_else(|| all.first()).copied();
    first.into_iter().collect()
}

/// The name of a source tensor.
fn spelled(found: &Found, name: usize, xid: u64) -> String {
    let ending = if found.rule.bare.is_some() { "" } else { found.suffix };
    let pattern = found.rule.hf.get(name).or(found.rule.hf.last()).copied().unwrap_or_default();
    let name = rules::fill(pattern, found.bid, xid) + ending;
    name.replace(CORRECTION_BIAS.1, CORRECTION_BIAS.0)
}

/// Shapes that a source tensor may have had of which these were made, likely ones first.
fn candidates(made: &[Made<'_>]) -> Vec<Vec<u64>> {
    let first = &made[0].dims;
    let is_transposed =
        |made: &&Made<'_>| matches!(made.found.rule.rows, RowRule::Transposed(_) | RowRule::AsShape(_));
    if let Some(transposed) = made.iter().find(is_transposed) {
        let total: u64 = made.iter().fold(0, |sum, made| sum.saturating_add(made.shape.n_elems()));
        let dim = |dims: &[u64], at: usize| dims.get(at).copied().unwrap_or(1);
        let columns = |of: &mut dyn Iterator<Item = &Made<'_>>| {
            of.fold(0u64, |sum, made| sum.saturating_add(dim(&made.dims, 1)))
        };
        let widths = [columns(&mut made.iter().filter(is_transposed)), dim(&transposed.dims, 1)];
        let flat = widths.iter().filter(|width| **width > 0).map(|width| vec![*width, total / width]);
        let deep =
            widths.iter().map(|width| vec![*width, dim(&transposed.dims, 0), dim(&transposed.dims, 2)]);
        return flat.chain(deep).collect();
    }
    if let (RowRule::Columns(_), [columns, rows, outer @ ..]) = (made[0].found.rule.rows, &first[..])
        && made[0].found.suffix != ".bias"
    {
        return vec![[&[*rows, *columns], outer].concat()];
    }
    // Parts together, in the rows or in the elements of each.
    let along = |at: usize| {
        let mut dims = first.clone();
        if let Some(dim) = dims.get_mut(at) {
            *dim =
                made.iter().fold(0, |sum, made| sum.saturating_add(made.dims.get(at).copied().unwrap_or(0)));
        }
        dims
    };
    match made {
        [_] => vec![first.clone()],
        _ => vec![along(first.len().saturating_sub(1).min(1)), along(0)],
    }
}
