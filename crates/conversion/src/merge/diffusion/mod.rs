//! Adapters of diffusion models merged into their checkpoint while it is read.
//!
//! Trainers write adapters in several layouts: names of kohya's scripts (`lora_unet_`, with `_` instead of
//! `.`), of diffusers and PEFT (`transformer.`, `unet.`), of ComfyUI (`diffusion_model.`) and of XLabs. All
//! contain pairs of matrices, their products (LoHa, LoKr), rotations (OFT) or differences of full weights, for modules of the model in its original or
//! diffusers' layout. `parts.rs` sorts the tensors by module, `places.rs` finds a module's rows in the
//! checkpoint's tensors, and `patched.rs` states the arithmetic.
//!
//! The factor of a pair is its `alpha` divided by its rank, or that of the adapter's config, which PEFT's
//! folders have and which diffusers stores in `__metadata__`; otherwise 1. Values equal those of `fuse_lora`
//! of diffusers 0.39 for a model in f32; those of products and rotations equal PEFT's and LyCORIS'.

mod lycoris;
mod parts;
mod patched;
mod places;
mod products;
mod rotated;

use std::{
    collections::HashMap,
    mem,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use gguf_checkpoint::{Checkpoint, Part, Tensor, Tensors, read_columns};
use gguf_layout::RowRange;
use serde_json::{Map, Value as Json};

pub use self::places::ModuleNames;
use self::{
    lycoris::Lycoris,
    parts::{Module, Sorted},
    patched::{Patch, Patched, as_row, is_kernel, matrix_columns, matrix_rows, reshaped},
    places::{Place, Places},
    products::Product,
    rotated::{Rotated, Rotation},
};
use super::{
    LoraAdapter, MergeError,
    config::{Config, Target},
    error::shape_error,
    low_rank::{Change, Dora, Factor, Merged},
};

/// Weights of a diffusion model, into which adapters are merged.
#[derive(Debug, Default)]
pub struct DiffusionWeights {
    /// Weights files; those of adapters are added.
    pub parts: Vec<Part>,
    /// Tensors. Changed ones keep their data type, which determines their type in float files.
    pub tensors: Tensors,
    /// Reports of the merges.
    pub notes: Vec<String>,
}

impl DiffusionWeights {
    /// Merges adapters, in order. Only factors are read; every shape is checked.
    ///
    /// # Errors
    /// The name of an adapter that does not fit, and the reason.
    pub fn merge(
        &mut self,
        adapters: &[LoraAdapter],
        names: ModuleNames<'_>,
    ) -> Result<(), (PathBuf, Box<MergeError>)> {
        for adapter in adapters {
            let merged = take(self, adapter, names);
            merged.map_err(|error| (adapter.name.clone(), Box::new(error)))?;
        }
        Ok(())
    }
}

/// Merges adapters into the checkpoint of a diffusion model, in order.
///
/// # Errors
/// Those of [`DiffusionWeights::merge`].
pub fn merge_diffusion(
    mut checkpoint: Checkpoint,
    adapters: &[LoraAdapter],
    names: ModuleNames<'_>,
) -> Result<Checkpoint, (PathBuf, Box<MergeError>)> {
    let Checkpoint { parts, tensors, notes, .. } = &mut checkpoint;
    let mut weights =
        DiffusionWeights { parts: mem::take(parts), tensors: mem::take(tensors), notes: mem::take(notes) };
    weights.merge(adapters, names)?;
    (checkpoint.parts, checkpoint.tensors, checkpoint.notes) =
        (weights.parts, weights.tensors, weights.notes);
    Ok(checkpoint)
}

/// Changes of one adapter, by tensor name.
#[derive(Debug, Default)]
struct Changes<'a> {
    patches: HashMap<String, Vec<Patch>>,
    /// Rotated rows, their first rows in the module, and the rotations, by tensor name.
    rotations: HashMap<String, Vec<(std::ops::Range<u64>, u64, Rotation)>>,
    /// Pairs with magnitudes, by tensor name.
    magnitudes: HashMap<String, (Dora, Change)>,
    /// Rows that have a pair, with one half of the pair, by tensor name.
    taken: HashMap<String, Vec<(RowRange, &'a Tensor)>>,
}

fn take(
    checkpoint: &mut DiffusionWeights,
    adapter: &LoraAdapter,
    names: ModuleNames<'_>,
) -> Result<(), MergeError> {
    if !adapter.scale.is_finite() {
        return Err(MergeError::Scale { scale: adapter.scale });
    }
    if adapter.takes_tokenizer {
        return Err(MergeError::NoTokenizer);
    }
    let opened = gguf_checkpoint::open_diffusion_adapter(&adapter.folder).map_err(MergeError::Source)?;
    let config = config_of(&opened)?;
    let first_part = checkpoint.parts.len();
    checkpoint.parts.extend(opened.parts);
    // The adapter's weights files become files of the checkpoint.
    let own: Vec<Tensor> =
        opened.tensors.iter().map(|tensor| tensor.clone().after_parts(first_part)).collect();
    if let Some(tensor) = own.iter().find(|tensor| tensor.stored.is_some()) {
        let kind = "an adapter whose tensors are not stored row by row";
        return Err(MergeError::Kind { tensor: tensor.name.clone(), kind });
    }
    let Sorted { modules, n_text } = parts::classify(&own)?;
    let adapter_name = adapter.name.display();
    checkpoint.notes.extend(opened.notes.iter().map(|note| format!("adapter `{adapter_name}`: {note}")));
    if n_text > 0 {
        checkpoint.notes.push(format!(
            "adapter `{adapter_name}`: {} of text encoders not merged; merge them into the text encoders' own files",
            gguf_types::counted(n_text, "tensor")
        ));
    }
    if modules.is_empty() {
        return Err(MergeError::NothingToMerge);
    }
    let places = Places::new(&checkpoint.tensors, names);
    let mut without_place = Vec::new();
    let mut changes = Changes::default();
    for module in &modules {
        let Some(found) = places.find(&module.name) else {
            let tensors = module.of_weight().chain(module.bias_diff);
            without_place.extend(tensors.map(|tensor| tensor.name.clone()));
            continue;
        };
        let scale = Scale { config: config.as_ref(), of_adapter: adapter.scale };
        changes.add(module, found, &places, scale, &checkpoint.parts, &mut without_place)?;
    }
    if !without_place.is_empty() {
        return Err(MergeError::NoPlace { names: without_place });
    }
    let n_changed = changes.apply(checkpoint);
    let times = if adapter.scale == 1.0 { String::new() } else { format!(" {} times", adapter.scale) };
    checkpoint.notes.push(format!(
        "adapter `{adapter_name}`: merged{times} into {}",
        gguf_types::counted(n_changed, "tensor")
    ));
    Ok(())
}

/// Entry of `__metadata__` in which diffusers stores PEFT's config.
const CONFIG_ENTRY: &str = "lora_adapter_metadata";

/// Config of an adapter: from its file, or from the entry of diffusers, without the component's name.
fn config_of(adapter: &Checkpoint) -> Result<Option<Config>, MergeError> {
    if adapter.config.is_object() {
        let kind = adapter.config.get("peft_type").and_then(Json::as_str);
        return match kind {
            Some("LOHA" | "LOKR") => Config::of_products(&adapter.config).map(Some),
            _ => Config::new(&adapter.config, Target::Merged).map(Some),
        };
    }
    let Some(text) = adapter.parts.first().and_then(|part| part.metadata.get(CONFIG_ENTRY)) else {
        return Ok(None);
    };
    let expected = "an object with the config of an adapter";
    let wrong = || MergeError::Config { key: CONFIG_ENTRY, found: text.clone(), expected };
    let entries: Map<String, Json> = serde_json::from_str(text).map_err(|_| wrong())?;
    let mut config = Map::new();
    for (key, value) in entries {
        if let Some(key) = ["transformer.", "unet."].iter().find_map(|start| key.strip_prefix(start)) {
            config.insert(key.to_owned(), value);
        }
    }
    if config.is_empty() {
        return Ok(None);
    }
    config.insert("peft_type".to_owned(), "LORA".into());
    Config::new(&Json::Object(config), Target::Merged).map(Some)
}

#[derive(Clone, Copy)]
struct Scale<'a> {
    config: Option<&'a Config>,
    of_adapter: f64,
}

impl Scale<'_> {
    /// Factor of a module's pairs, which have the rank that is the first dimension of `ranked`. A config applies its factor
    /// to a LoKr without pairs too.
    fn of(self, module: &Module<'_>, ranked: Option<&Tensor>, parts: &[Part]) -> Result<f32, MergeError> {
        let rank = ranked.map_or(1, |tensor| tensor.shape.first().copied().unwrap_or(0).max(1));
        let Some(alpha) = alpha_of(module, parts)? else {
            let Some(config) = self.config else { return Ok(self.of_adapter as f32) };
            let name = module_in_config(&module.name);
            let expected = config.rank_of(name);
            return match ranked {
                Some(down) if rank != expected => {
                    Err(MergeError::Rank { tensor: down.name.clone(), found: rank, expected })
                }
                _ => Ok(config.scaling_of(name, self.of_adapter)),
            };
        };
        let with_rank = |_| self.of_adapter * f64::from(alpha) / rank as f64;
        Ok(ranked.map_or(self.of_adapter, with_rank) as f32)
    }
}

/// The alpha of a module.
fn alpha_of(module: &Module<'_>, parts: &[Part]) -> Result<Option<f32>, MergeError> {
    let Some(alpha) = module.alpha else { return Ok(None) };
    let n_elems: u64 = alpha.shape.iter().product();
    let mut value = [0.0];
    if n_elems == 1 {
        read_columns(parts, &as_row(alpha), 0..1, 0..1, &mut value).map_err(MergeError::Read)?;
    }
    if n_elems != 1 || !value[0].is_finite() {
        let found = if n_elems == 1 { value[0].to_string() } else { format!("{:?}", alpha.shape) };
        return Err(MergeError::Alpha { tensor: alpha.name.clone(), found });
    }
    Ok(Some(value[0]))
}

/// Name of a module in the config, which omits the component's name.
fn module_in_config(name: &str) -> &str {
    ["base_model.model.", "transformer.", "unet."].iter().find_map(|s| name.strip_prefix(s)).unwrap_or(name)
}

impl<'a> Changes<'a> {
    /// Adds the changes of a module, whose rows may be spread over several tensors.
    fn add(
        &mut self,
        module: &Module<'a>,
        found: &[Place],
        places: &Places<'_>,
        scale: Scale<'_>,
        parts: &[Part],
        without_place: &mut Vec<String>,
    ) -> Result<(), MergeError> {
        let needs_magnitude = scale.config.is_some_and(|config| config.use_dora);
        if needs_magnitude && module.down.is_some() && module.magnitude.is_none() {
            return Err(MergeError::Missing {
                names: vec![format!("{}.lora_magnitude_vector", module.name)],
            });
        }
        let whole_scale = scale.of_adapter as f32;
        let lycoris = Lycoris::of(module)?;
        let pair_scale = match (module.down, &lycoris) {
            (None, None) => whole_scale,
            (down, lycoris) => scale.of(module, down.or_else(|| lycoris.as_ref()?.ranked()), parts)?,
        };
        let of_bias = [(module.bias, pair_scale), (module.bias_diff, whole_scale)];
        // Each tensor once per error.
        let mut missing: Vec<&Tensor> = Vec::new();
        let mut targets = Vec::new();
        for place in found {
            match places.weight(place) {
                Some(weight) => targets.push((place, weight)),
                None => missing.extend(module.of_weight()),
            }
        }
        let all: Vec<_> = targets
            .iter()
            .map(|(place, weight)| {
                let [n_rows, n_columns] = [matrix_rows(weight), matrix_columns(weight)];
                place.relation.ranges(n_rows, n_columns)
            })
            .collect();
        let n_outputs = all.iter().flatten().flatten().map(|range| range.rows.end - range.rows.start).sum();
        for ((place, weight), ranges) in targets.iter().zip(&all) {
            let rows = Rows { ranges: ranges.as_deref(), n_outputs };
            if let (Some(down), Some(up)) = (module.down, module.up) {
                self.add_pair(module, rows, weight, [down, up], pair_scale)?;
            }
            if let Some(lycoris) = &lycoris {
                let half = module.factors[0].1;
                let Some(ranges) = rows.of_matrix(weight) else { return Err(not_divided(half, weight)) };
                let product = lycoris.product(weight, n_outputs, pair_scale)?;
                self.add_product(half, ranges, n_outputs, weight, product)?;
            }
            if let Some(blocks) = module.rotation {
                let Some(ranges) = rows.of_matrix(weight) else { return Err(not_divided(blocks, weight)) };
                let limit = alpha_of(module, parts)?.unwrap_or(0.0);
                let rotation = Rotation::of(module, blocks, n_outputs, limit, whole_scale, weight, parts)?;
                self.add_rotation(blocks, ranges, n_outputs, weight, &rotation)?;
            }
            if let Some(diff) = module.diff {
                self.add_whole(diff, rows, weight, whole_scale)?;
            }
            for (values, scale) in of_bias {
                match (values, places.bias(place)) {
                    (Some(values), Some(target)) => self.add_whole(values, rows, target, scale)?,
                    (Some(values), None) => missing.push(values),
                    (None, _) => {}
                }
            }
        }
        for tensor in missing {
            if !without_place.contains(&tensor.name) {
                without_place.push(tensor.name.clone());
            }
        }
        Ok(())
    }

    fn add_pair(
        &mut self,
        module: &Module<'a>,
        rows: Rows<'_>,
        target: &Tensor,
        [down, up]: [&'a Tensor; 2],
        scale: f32,
    ) -> Result<(), MergeError> {
        let [n_rows, n_columns] = [matrix_rows(target), matrix_columns(target)];
        let Some(ranges) = rows.of_matrix(target) else { return Err(not_divided(up, target)) };
        let n_outputs = rows.n_outputs;
        let (rank, up_rank) = (down.shape.first().copied().unwrap_or(0), matrix_columns(up));
        // Inputs and kernel; with a core, the kernel is that of the core.
        let kernel = match module.mid {
            Some(mid)
                if mid.shape.get(..2) == Some(&[rank; 2])
                    && down.shape.get(1) == Some(&matrix_columns(down)) =>
            {
                [&down.shape[1..2], &mid.shape[2..]].concat()
            }
            Some(mid) => return Err(shape_error(mid, &format!("a core ({rank}, {rank}, kernel)"), target)),
            None => down.shape.get(1..).unwrap_or_default().to_vec(),
        };
        // `up` is a matrix, or a convolution with kernel size 1.
        let is_pair = down.shape.len() >= 2
            && up.shape.len() >= 2
            && up.shape[1] == up_rank
            && up_rank == rank
            && up.shape[0] == n_outputs
            && kernel.iter().try_fold(1u64, |n, size| n.checked_mul(*size)) == Some(n_columns)
            && is_kernel(&kernel, &target.shape[1..])
            && are_inside(ranges, n_outputs);
        if !is_pair {
            let expected = format!(
                "a pair (rank, {n_columns}) and ({n_outputs}, rank), found {:?} and {:?}",
                down.shape, up.shape
            );
            return Err(shape_error(down, &expected, target));
        }
        let as_matrix = |tensor: &Tensor| reshaped(tensor, vec![tensor.shape[0], matrix_columns(tensor)]);
        let core = module.mid.map(as_matrix).map(Box::new);
        let pair = |first: u64, matrix_rows: u64| Change::LowRank {
            left: Factor { offset: first, ..Factor::whole(&as_matrix(up), false) },
            right: Factor { core: core.clone(), ..Factor::whole(&as_matrix(down), true) },
            rank: rank as usize,
            scale,
            matrix_rows,
        };
        if let Some(magnitude) = module.magnitude {
            let is_vector = magnitude.shape.first() == Some(&n_rows) && matrix_columns(magnitude) == 1;
            let is_whole = ranges == [RowRange { rows: 0..n_rows, first: 0 }] && n_outputs == n_rows;
            if !is_whole || target.shape.len() != 2 || !is_vector {
                let kind = "a DoRA for a part of a tensor, for a convolution or with magnitudes of inputs";
                return Err(MergeError::Kind { tensor: magnitude.name.clone(), kind });
            }
            self.claim(ranges, target, down)?;
            let dora = Dora {
                magnitude: as_row(magnitude),
                outputs_are_rows: true,
                unmerged: target.clone(),
                is_first: target.stored.is_none(),
                factors: OnceLock::new(),
            };
            self.magnitudes.insert(target.name.clone(), (dora, pair(0, n_rows)));
            return Ok(());
        }
        self.add_product(down, ranges, n_outputs, target, |first, n_rows| Product::Pair(pair(first, n_rows)))
    }

    /// Adds a change of rows, which `product` makes of the row of the module and the number of rows.
    fn add_product(
        &mut self,
        half: &'a Tensor,
        ranges: &[RowRange],
        n_outputs: u64,
        target: &Tensor,
        product: impl Fn(u64, u64) -> Product,
    ) -> Result<(), MergeError> {
        if !are_inside(ranges, n_outputs) {
            return Err(not_divided(half, target));
        }
        self.claim(ranges, target, half)?;
        let patches = self.patches.entry(target.name.clone()).or_default();
        for RowRange { rows, first } in ranges.iter().cloned() {
            let change = Arc::new(product(first, rows.end - rows.start));
            patches.push(Patch::Pair { rows, change });
        }
        Ok(())
    }

    fn add_rotation(
        &mut self,
        blocks: &'a Tensor,
        ranges: &[RowRange],
        n_outputs: u64,
        target: &Tensor,
        rotation: &Rotation,
    ) -> Result<(), MergeError> {
        let is_whole = |range: &RowRange| {
            let n_rows = range.rows.end - range.rows.start;
            [range.first, n_rows].iter().all(|row| row.is_multiple_of(rotation.size))
        };
        if !are_inside(ranges, n_outputs) || !ranges.iter().all(is_whole) {
            return Err(shape_error(blocks, "blocks of the rows of one tensor", target));
        }
        self.claim(ranges, target, blocks)?;
        let rotations = self.rotations.entry(target.name.clone()).or_default();
        rotations.extend(ranges.iter().map(|range| (range.rows.clone(), range.first, rotation.clone())));
        Ok(())
    }

    /// Records the rows that a pair, product or rotation changes.
    ///
    /// # Errors
    /// [`MergeError::SameTarget`] for rows that already have a pair.
    fn claim(&mut self, ranges: &[RowRange], target: &Tensor, half: &'a Tensor) -> Result<(), MergeError> {
        let taken = self.taken.entry(target.name.clone()).or_default();
        for range in ranges {
            let meets =
                |other: &RowRange| range.rows.start < other.rows.end && other.rows.start < range.rows.end;
            if let Some((_, first)) = taken.iter().find(|(other, _)| meets(other)) {
                return Err(MergeError::SameTarget {
                    first: first.name.clone(),
                    second: half.name.clone(),
                    target: target.name.clone(),
                });
            }
        }
        taken.extend(ranges.iter().map(|range| (range.clone(), half)));
        Ok(())
    }

    /// Adds a difference of a complete tensor, or of its rows that belong to a module.
    fn add_whole(
        &mut self,
        values: &Tensor,
        Rows { ranges, n_outputs }: Rows<'_>,
        target: &Tensor,
        scale: f32,
    ) -> Result<(), MergeError> {
        let mut shape = target.shape.clone();
        if let Some(first) = shape.first_mut() {
            *first = n_outputs;
        }
        let is_inside = |ranges: &&[RowRange]| {
            let n_rows = matrix_rows(target);
            ranges.iter().all(|range| range.rows.end <= n_rows) && are_inside(ranges, n_outputs)
        };
        let Some(ranges) = ranges.filter(is_inside).filter(|_| values.shape == shape) else {
            return Err(shape_error(values, &format!("{shape:?}"), target));
        };
        let own_columns = matrix_columns(target);
        let patches = self.patches.entry(target.name.clone()).or_default();
        for RowRange { rows, first } in ranges.iter().cloned() {
            let first = first * own_columns;
            patches.push(Patch::Whole { rows, values: values.clone(), first, scale });
        }
        Ok(())
    }

    /// Replaces the tensors of the checkpoint with their changed forms; returns their number.
    fn apply(mut self, checkpoint: &mut DiffusionWeights) -> usize {
        let mut tensors = checkpoint.tensors.to_vec();
        let mut n_changed = 0;
        for tensor in &mut tensors {
            let (dora, patches) = (self.magnitudes.remove(&tensor.name), self.patches.remove(&tensor.name));
            let rotations = self.rotations.remove(&tensor.name);
            n_changed += usize::from(dora.is_some() || patches.is_some() || rotations.is_some());
            if let Some(rotations) = rotations {
                let base = tensor.clone();
                tensor.stored = Some(Arc::new(Rotated { base, rotations }));
            }
            if let Some((dora, change)) = dora {
                let base = tensor.clone();
                tensor.stored = Some(Arc::new(Merged { base, change, dora: Some(dora) }));
            }
            if let Some(patches) = patches {
                let (base, n_columns) = (tensor.clone(), matrix_columns(tensor));
                tensor.stored = Some(Arc::new(Patched { base, n_columns, patches }));
            }
        }
        checkpoint.tensors = Tensors::from(tensors);
        n_changed
    }
}

/// Rows of a tensor that belong to a module, if it can be divided, and the module's number of outputs.
#[derive(Clone, Copy)]
struct Rows<'a> {
    ranges: Option<&'a [RowRange]>,
    n_outputs: u64,
}

impl<'a> Rows<'a> {
    /// The rows, if the tensor is a matrix or a convolution.
    fn of_matrix(self, target: &Tensor) -> Option<&'a [RowRange]> {
        self.ranges.filter(|_| target.shape.len() >= 2)
    }
}

/// Error for a tensor that does not have the rows of a module.
fn not_divided(half: &Tensor, target: &Tensor) -> MergeError {
    shape_error(half, "a matrix that can be divided into its modules", target)
}

/// True if all ranges are among the outputs of a module.
fn are_inside(ranges: &[RowRange], n_outputs: u64) -> bool {
    let end = |range: &RowRange| range.first.checked_add(range.rows.end - range.rows.start);
    ranges.iter().all(|range| end(range).is_some_and(|end| end <= n_outputs))
}
