//! From tensors and a request to planned files, for the converter and the quantizer.
//!
//! Source: `llama_model_quantize_impl` in `src/llama-quant.cpp` for the order of steps and of keys,
//! `split_strategy` in `tools/gguf-split/gguf-split.cpp` and `GGUFWriter` in `gguf-py/gguf/gguf_writer.py`
//! for shards, llama.cpp as vendored in llama-cpp-python 0.3.36.

use gguf_container::{
    DEFAULT_ALIGNMENT, Metadata, Plan, SPLIT_COUNT_KEY, SPLIT_NO_KEY, SPLIT_TENSORS_KEY, Value,
};
use gguf_layout::{DiffusionFile, Families};
use gguf_types::{DType, Shape};

use crate::{
    Error,
    imatrix::{MissingPolicy, provenance, raised},
    planned::{Choice, FileOf, PlannedFile},
    prune::Pruning,
    recipes::{
        Assignment, Fallback, ModelFacts, Overrides, Reason, Recipe, TensorFacts, TensorType, assign,
        label_warning,
    },
    repair::repair,
    request::{OutputRequest, Request, Shards},
};

pub(crate) struct Base<'a> {
    /// Family-specific rules for the choice of types.
    pub(crate) families: &'a Families,
    /// Metadata before the request is applied.
    pub(crate) metadata: Metadata,
    /// All tensors. [`Choice::tensor`] is an index into them.
    pub(crate) tensors: &'a [TensorFacts<'a>],
    /// Order of tensors in the output.
    pub(crate) order: Vec<usize>,
    /// True if the reference writes such a file with its converter only.
    pub(crate) converted: bool,
    /// Source of each tensor; empty if unknown.
    pub(crate) sources: Vec<Source>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Source {
    /// True if it came from 8-bit floats.
    pub(crate) is_fp8: bool,
    /// Type of blocks that store the codes unchanged, if they are kept.
    pub(crate) repacked: Option<DType>,
    /// Type that the tensor has in every float file.
    pub(crate) forced: Option<DType>,
    /// Index of the input file that contains it.
    pub(crate) shard: usize,
}

impl Base<'_> {
    fn source(&self, tensor: usize) -> Source {
        self.sources.get(tensor).copied().unwrap_or_default()
    }
}

struct PlannedTensor {
    name: String,
    shape: Shape,
    choice: Choice,
}

/// Plans the file of one recipe, or its shards.
pub(crate) fn plan(
    base: &Base<'_>,
    output: &OutputRequest,
    request: &Request<'_>,
) -> Result<Vec<PlannedFile>, Error> {
    let mut metadata = base.metadata.clone();
    // Keys first: a corrected number of layers or experts changes the result of the rules.
    for key in &request.keys {
        key.apply(&mut metadata)?;
    }
    let model = match ModelFacts::of_file(base.families, &metadata, base.tensors) {
        Ok(model) => model,
        // Copying does not depend on the model.
        Err(_) if output.recipe.copy => ModelFacts::default(),
        Err(error) => return Err(Error::Recipe(error)),
    };
    let pruning = Pruning::new(base.tensors.iter().map(|tensor| tensor.name), &request.prune)?;
    let renamed = |name: &str| match &pruning {
        Some(pruning) => pruning.rename(name),
        None => Some(name.to_owned()),
    };
    // The rules and the output refer to layers of a pruned model by new numbers; input, importance matrix and
    // recipe files by old ones.
    let names: Vec<(usize, String)> =
        base.order.iter().filter_map(|&index| Some((index, renamed(base.tensors[index].name)?))).collect();
    let facts: Vec<TensorFacts<'_>> =
        names.iter().map(|(index, name)| TensorFacts { name, ..base.tensors[*index] }).collect();
    let choices = choose(base, output, request, &model, &names, &facts)?;

    // After the choices and in this order, like llama-quantize: the order of keys is part of the bytes.
    if let Some(importance) = request.importance {
        for (key, value) in provenance(importance.imatrix, importance.path, true) {
            metadata.set_last(key, value);
        }
    }
    let mut warnings =
        pruning.map(|pruning| pruning.describe(base.families, &mut metadata)).unwrap_or_default();
    let made =
        facts.iter().zip(&choices).map(|(facts, choice)| TensorFacts { dtype: choice.dtype, ..*facts });
    let made: Vec<TensorFacts<'_>> = made.collect();
    warnings.extend(label_warning(base.families, &metadata, &made));
    let mut planned: Vec<PlannedTensor> = facts
        .iter()
        .zip(choices)
        .map(|(facts, choice)| {
            // A matrix with one column, (n, 1) in torch, is written differently: gguf-py writes dimensions as
            // they are, gguf.cpp drops trailing ones.
            let shape = if base.converted { facts.shape } else { model.ranks().of(facts.shape) };
            PlannedTensor { name: facts.name.to_owned(), shape, choice }
        })
        .collect();
    if request.repair {
        warnings.extend(repair(
            model.diffusion.as_ref(),
            &mut metadata,
            planned.iter_mut().map(|tensor| (tensor.name.as_str(), &mut tensor.shape, &mut tensor.choice)),
        )?);
    }
    if let Some(file) = model.diffusion.as_ref().filter(|_| !output.recipe.copy) {
        let kept = made.iter().zip(&planned).filter(|(tensor, _)| tensor.shape.n_dims() == 2);
        let kept = kept.filter(|(_, planned)| matches!(planned.choice.reason, Reason::Kept(_)));
        let kept = kept.filter(|_| output.recipe.default.is_quantized());
        let kept: Vec<&str> = kept.map(|(tensor, _)| tensor.name).collect();
        warnings.extend(diffusion_warning(file, &kept));
    }
    let mut files = into_files(base, output.recipe, request, metadata, planned)?;
    files.iter_mut().for_each(|file| file.is_diffusion = model.diffusion.is_some());
    if let Some(first) = files.first_mut() {
        first.warnings = warnings;
    }
    Ok(files)
}

/// Warning about a diffusion model whose sensitive tensors are unknown. `kept` are its matrices that are not
/// quantized.
fn diffusion_warning(file: &DiffusionFile, kept: &[&str]) -> Option<String> {
    match (file.row, file.refused) {
        (None, _) if file.is_generic && kept.is_empty() => None,
        (None, _) if file.is_generic => Some(format!(
            "no known diffusion model has these tensors: only matrices in numbered blocks are quantized; kept: {}",
            gguf_types::list_names(kept)
        )),
        (None, _) => Some(
            "no known diffusion model has these tensors: all matrices are quantized except those that stable-diffusion.cpp keeps"
                .to_owned(),
        ),
        (Some(row), Some(name)) => Some(format!(
            "tensor `{name}` has a name of diffusers: the tensors of `{}` that need a high precision are known in the original \
                layout only",
            row.name
        )),
        _ => None,
    }
}

/// Chooses a dtype for each kept tensor, by rules or from a recipe file.
fn choose(
    base: &Base<'_>,
    output: &OutputRequest,
    request: &Request<'_>,
    model: &ModelFacts,
    names: &[(usize, String)],
    facts: &[TensorFacts<'_>],
) -> Result<Vec<Choice>, Error> {
    // If a recipe file names every tensor, the rules are not applied, so that later versions of the rules do
    // not change the result.
    let named: Vec<Option<Assignment>> = names
        .iter()
        .map(|(index, name)| {
            let dtype = *output.dtypes.as_ref()?.get(base.tensors[*index].name)?;
            let requires_imatrix = model.requires_imatrix(name, dtype, output.recipe.file_type);
            Some(Assignment { dtype, reason: Reason::RecipeFile, fallback: None, requires_imatrix })
        })
        .collect();
    let assignments = match named.iter().copied().collect::<Option<Vec<_>>>() {
        Some(all) if output.dtypes.is_some() => all,
        _ => {
            let has_imatrix = request.importance.is_some();
            let mut overrides = Overrides { has_imatrix, ..request.overrides.clone() };
            overrides.tensor_types.splice(0..0, recipe_patterns(base, output, names, &named)?);
            let mut made = assign(output.recipe, model, facts, &overrides).map_err(Error::Recipe)?;
            for ((assignment, facts), (index, _)) in made.iter_mut().zip(facts).zip(names) {
                keep_source(assignment, facts, base, base.source(*index), request.fp8_as);
            }
            made.into_iter().zip(named).map(|(by_rules, named)| named.unwrap_or(by_rules)).collect()
        }
    };
    let choice = |((index, name), assignment): (&(usize, String), Assignment)| {
        let Assignment { dtype, reason, fallback, requires_imatrix } = assignment;
        let tensor = &base.tensors[*index];
        let choice = Choice { tensor: *index, dtype, reason, fallback, raised_from: None, requires_imatrix };
        // Importance data is found by the original name. Copied tensors do not need it.
        let is_bare = requires_imatrix && tensor.dtype != dtype && request.weights_of(tensor)?.is_none();
        if !is_bare || request.missing != MissingPolicy::RaiseType {
            return Ok(choice);
        }
        let dtype = raised(name, choice.dtype, output.recipe.file_type);
        Ok(Choice { dtype, raised_from: Some(choice.dtype), requires_imatrix: false, ..choice })
    };
    names.iter().zip(assignments).map(choice).collect()
}

/// Patterns for the requests of a recipe file: tensor names, which are excluded from the counts of the rules,
/// and keys that match no tensor.
fn recipe_patterns(
    base: &Base<'_>,
    output: &OutputRequest,
    names: &[(usize, String)],
    named: &[Option<Assignment>],
) -> Result<Vec<TensorType>, Error> {
    let Some(dtypes) = &output.dtypes else { return Ok(Vec::new()) };
    let mut patterns = Vec::new();
    for ((_, name), named) in names.iter().zip(named) {
        if let Some(named) = named {
            patterns.push(TensorType::for_name(name, named.dtype).map_err(Error::Recipe)?);
        }
    }
    let is_tensor = |key: &str| base.tensors.iter().any(|tensor| tensor.name == key);
    for (key, dtype) in dtypes.iter().filter(|(key, _)| !is_tensor(key)) {
        patterns.push(TensorType::parse(&format!("{key}={}", dtype.name())).map_err(Error::Recipe)?);
    }
    Ok(patterns)
}

/// Replaces the type chosen by the rules if the source decides it. Later steps take precedence.
fn keep_source(
    assignment: &mut Assignment,
    facts: &TensorFacts<'_>,
    base: &Base<'_>,
    source: Source,
    fp8_as: Option<DType>,
) {
    // The converter fixes the types of more tensors than only those of recipes, and blocks of the checkpoint
    // are kept.
    if base.converted && assignment.reason == Reason::Default {
        assignment.dtype = facts.dtype;
    }
    if is_requested(assignment.reason) {
        return;
    }
    if let Some(dtype) = source.forced {
        assignment.dtype = dtype;
        assignment.fallback = None;
    }
    if let Some(dtype) = fp8_as.filter(|_| source.is_fp8) {
        choose_for_fp8(assignment, facts, dtype);
    }
    if let Some(dtype) = source.repacked
        && !matches!(assignment.reason, Reason::Kept(_))
    {
        assignment.dtype = dtype;
        assignment.reason = Reason::Repacked;
        assignment.fallback = None;
        assignment.requires_imatrix = false;
    }
}

/// True if an option names the type of this tensor.
fn is_requested(reason: Reason) -> bool {
    matches!(reason, Reason::TensorType(_) | Reason::TokenEmbeddingOption | Reason::OutputOption)
}

/// Applies the reference's `--fp8-as-q8` to a tensor from 8-bit floats: not to vectors and norms, and with
/// f16 if rows do not fill blocks.
///
/// Source: `tensor_force_quant` and `prepare_tensors` in `conversion/base.py`.
fn choose_for_fp8(assignment: &mut Assignment, facts: &TensorFacts<'_>, dtype: DType) {
    if facts.shape.n_dims() < 2 || facts.name.ends_with("_norm.weight") {
        return;
    }
    let row_elems = facts.shape.row_elems();
    let fits = row_elems.is_multiple_of(dtype.block_elems());
    assignment.dtype = if fits { dtype } else { DType::F16 };
    assignment.fallback = (!fits).then_some(Fallback { preferred: dtype, row_elems });
    assignment.reason = Reason::Fp8Option;
}

/// Divides the tensors into files and fixes every offset.
fn into_files(
    base: &Base<'_>,
    recipe: &'static Recipe,
    request: &Request<'_>,
    metadata: Metadata,
    planned: Vec<PlannedTensor>,
) -> Result<Vec<PlannedFile>, Error> {
    let (n_tensors, shards) = (planned.len(), request.shards);
    let groups = into_shards(base, shards, planned)?;
    // If one file is enough, the converter gives it a name without shard number.
    let is_split = shards != Shards::One && (groups.len() > 1 || !base.converted);
    let count = groups.len();
    let file = |(no, tensors): (usize, Vec<PlannedTensor>)| {
        // Only the first shard contains metadata of the model.
        let mut metadata = if no == 0 { metadata.clone() } else { Metadata::new() };
        if is_split {
            describe_shard(&mut metadata, base, shards, [no, count, n_tensors])?;
        }
        // Later shards have no alignment key, so the default applies to them.
        let alignment = Plan::alignment_of(&metadata);
        let choices = tensors.iter().map(|tensor| tensor.choice).collect();
        let tensors =
            tensors.into_iter().map(|tensor| (tensor.name, tensor.shape, tensor.choice.dtype)).collect();
        let plan = Plan::new(&metadata, tensors, request.endian, alignment)?;
        // Counted from 1 here; `split.no` counts from 0.
        let shard = is_split.then_some((no as u32 + 1, count as u32));
        let of = FileOf::Model;
        Ok(PlannedFile { recipe, of, plan, choices, shard, warnings: Vec::new(), is_diffusion: false })
    };
    groups.into_iter().enumerate().map(file).collect()
}

/// Tensors of each file; at least one file, even without tensors.
fn into_shards(
    base: &Base<'_>,
    shards: Shards,
    planned: Vec<PlannedTensor>,
) -> Result<Vec<Vec<PlannedTensor>>, Error> {
    let shard_of = |tensor: &PlannedTensor| base.source(tensor.choice.tensor).shard;
    let mut groups: Vec<Vec<PlannedTensor>> = vec![Vec::new()];
    // Bytes in the last group. Limits count stored data including padding after each tensor.
    let mut n_bytes = 0u64;
    for tensor in planned {
        let size = tensor
            .shape
            .n_bytes(tensor.choice.dtype)
            .map_err(|source| Error::Shape { tensor: tensor.name.clone(), source })?;
        // Only compared with a limit; the plan reports sizes beyond 63 bits.
        let size = size.checked_next_multiple_of(DEFAULT_ALIGNMENT.into()).unwrap_or(size);
        let group = groups.last().map_or(&[][..], Vec::as_slice);
        let begins_another = match (shards, group.last()) {
            // A file contains at least one tensor, however large.
            (_, None) | (Shards::One, _) => false,
            // Tensors of one input shard are consecutive.
            (Shards::Kept, Some(before)) => shard_of(before) != shard_of(&tensor),
            (Shards::Limited { max_bytes, max_tensors }, Some(_)) => {
                max_bytes.is_some_and(|max| n_bytes.saturating_add(size) > max)
                    || max_tensors.is_some_and(|max| group.len() as u64 >= max)
            }
        };
        if begins_another {
            groups.push(Vec::new());
            n_bytes = 0;
        }
        n_bytes = n_bytes.saturating_add(size);
        if let Some(group) = groups.last_mut() {
            group.push(tensor);
        }
    }
    Ok(groups)
}

/// Sets the keys of a shard, in the order of the reference program that makes such shards.
fn describe_shard(
    metadata: &mut Metadata,
    base: &Base<'_>,
    shards: Shards,
    [no, count, n_tensors]: [usize; 3],
) -> Result<(), Error> {
    // `split.no` and `split.count` are u16, `split.tensors.count` is i32.
    let too_many = || Error::TooManyShards { count };
    let n_tensors = i32::try_from(n_tensors).map_err(|_| too_many())?;
    let no = (SPLIT_NO_KEY, Value::U16(u16::try_from(no).map_err(|_| too_many())?));
    let of = (SPLIT_COUNT_KEY, Value::U16(u16::try_from(count).map_err(|_| too_many())?));
    let all = (SPLIT_TENSORS_KEY, Value::I32(n_tensors));
    let keys = match shards {
        // llama-quantize omits them for a single file.
        Shards::Kept if count == 1 => return Ok(()),
        // llama-gguf-split sets the count last.
        Shards::Limited { .. } if !base.converted => [no, all, of],
        _ => [no, of, all],
    };
    for (key, value) in keys {
        metadata.set_last(key, value);
    }
    Ok(())
}
