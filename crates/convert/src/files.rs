//! From tensors and a request to planned files: what both programs share.
//!
//! Source: `llama_model_quantize_impl` in `src/llama-quant.cpp` for the order of steps and of
//! keys, `split_strategy` in `tools/gguf-split/gguf-split.cpp` and `GGUFWriter` in
//! `gguf-py/gguf/gguf_writer.py` for shards, llama.cpp as vendored in llama-cpp-python 0.3.36.

use gguf::{
    ALIGNMENT_KEY, DEFAULT_ALIGNMENT, Endian, Metadata, Plan, SPLIT_COUNT_KEY, SPLIT_NO_KEY,
    SPLIT_TENSORS_KEY, Value,
};
use tensor::{DType, Shape};

use crate::{
    Choice, Error, PlannedFile, Request, Shards, Target, Weights, Work,
    imatrix::{MissingPolicy, Substitute, provenance, raised, substitute},
    prune::Pruning,
    recipes::{Assignment, ModelFacts, Overrides, Reason, Recipe, TensorFacts, assign, requires_imatrix},
};

/// What files are planned from.
pub(crate) struct Base<'a> {
    pub(crate) recipe: &'static Recipe,
    /// Metadata before anything that the request sets.
    pub(crate) metadata: Metadata,
    /// All tensors. [`Choice::tensor`] is an index into them.
    pub(crate) tensors: &'a [TensorFacts<'a>],
    /// The order of the output.
    pub(crate) order: Vec<usize>,
    /// Whether the file is one that the reference's converter alone writes.
    pub(crate) converted: bool,
    /// The input's file that holds each tensor, where that matters.
    pub(crate) shard_of: Option<Vec<usize>>,
}

/// One tensor of the output.
struct Planned {
    name: String,
    shape: Shape,
    choice: Choice,
}

/// Plans the file of one recipe, or its shards.
pub(crate) fn plan(base: &Base<'_>, request: &Request<'_>) -> Result<Vec<PlannedFile>, Error> {
    let mut metadata = base.metadata.clone();
    for key in &request.keys {
        key.apply(&mut metadata)?;
    }
    let model = match ModelFacts::from_metadata(&metadata) {
        Ok(model) => model,
        // Copying asks nothing of a model.
        Err(_) if base.recipe.copy => ModelFacts::default(),
        Err(error) => return Err(Error::Recipe(error)),
    };
    let pruning = Pruning::new(base.tensors.iter().map(|tensor| tensor.name), &request.prune)?;
    let renamed = |name: &str| match &pruning {
        Some(pruning) => pruning.rename(name),
        None => Some(name.to_owned()),
    };
    let kept: Vec<(usize, String)> =
        base.order.iter().filter_map(|&index| Some((index, renamed(base.tensors[index].name)?))).collect();
    let facts: Vec<TensorFacts<'_>> =
        kept.iter().map(|(index, name)| TensorFacts { name, ..base.tensors[*index] }).collect();
    let choices = choose(base, request, &model, &kept, &facts)?;

    if let Some(importance) = request.importance {
        for (key, value) in provenance(importance.imatrix, importance.path, true) {
            metadata.set_last(key, value);
        }
    }
    if let Some(pruning) = &pruning {
        pruning.describe(&mut metadata);
    }
    let planned = facts
        .iter()
        .zip(choices)
        .map(|(facts, choice)| {
            // gguf-py writes dimensions as they are, gguf.cpp leaves trailing ones out.
            let shape = if base.converted { Ok(facts.shape) } else { without_trailing_ones(facts.shape) };
            let shape = shape.map_err(|source| Error::Shape { tensor: facts.name.to_owned(), source })?;
            Ok(Planned { name: facts.name.to_owned(), shape, choice })
        })
        .collect::<Result<Vec<_>, Error>>()?;
    into_files(base, request.shards, metadata, planned)
}

/// The dimensions that `gguf.cpp` writes.
fn without_trailing_ones(shape: Shape) -> Result<Shape, tensor::ShapeError> {
    let dims: Vec<u64> = (0..shape.n_dims_effective()).map(|i| shape.dim(i)).collect();
    // A shape of no dimensions has one element.
    Shape::new(&dims)
}

/// A dtype for each tensor that is kept: by rules, or as a recipe file has it.
fn choose(
    base: &Base<'_>,
    request: &Request<'_>,
    model: &ModelFacts,
    kept: &[(usize, String)],
    facts: &[TensorFacts<'_>],
) -> Result<Vec<Choice>, Error> {
    let assignments = match &request.dtypes {
        Some(dtypes) => {
            let file_type = base.recipe.file_type;
            let replay = |(index, name): &(usize, String)| {
                let original = base.tensors[*index].name;
                let dtype = *dtypes
                    .get(original)
                    .ok_or_else(|| Error::NotInRecipeFile { tensor: original.to_owned() })?;
                Ok((dtype, Reason::RecipeFile, None, requires_imatrix(name, dtype, file_type)))
            };
            kept.iter().map(replay).collect::<Result<Vec<_>, Error>>()?
        }
        None => {
            let has_imatrix = request.importance.is_some();
            let overrides = Overrides { has_imatrix, ..request.overrides.clone() };
            let mut made = assign(base.recipe, model, facts, &overrides).map_err(Error::Recipe)?;
            if base.converted {
                keep_stored(&mut made, facts);
            }
            made.into_iter().map(|it| (it.dtype, it.reason, it.fallback, it.requires_imatrix)).collect()
        }
    };
    let choice = |((index, name), (dtype, reason, fallback, requires_imatrix)): (&(usize, String), _)| {
        let tensor = &base.tensors[*index];
        let choice = Choice { tensor: *index, dtype, reason, fallback, raised_from: None, requires_imatrix };
        let is_bare = requires_imatrix && tensor.dtype != dtype && !has_weights(tensor, request)?;
        if !is_bare || request.missing != MissingPolicy::RaiseType {
            return Ok(choice);
        }
        let dtype = raised(name, choice.dtype, base.recipe.file_type);
        Ok(Choice { dtype, raised_from: Some(choice.dtype), requires_imatrix: false, ..choice })
    };
    kept.iter().zip(assignments).map(choice).collect()
}

/// The converter keeps more tensors in f32 than recipes leave alone, and weights that are blocks
/// already stay so.
fn keep_stored(assignments: &mut [Assignment], facts: &[TensorFacts<'_>]) {
    for (assignment, facts) in assignments.iter_mut().zip(facts) {
        let stays = facts.dtype == DType::F32 || facts.dtype.is_quantized();
        if stays && assignment.reason == Reason::Default {
            assignment.dtype = facts.dtype;
        }
    }
}

fn has_weights(tensor: &TensorFacts<'_>, request: &Request<'_>) -> Result<bool, Error> {
    match request.importance {
        None => Ok(false),
        Some(importance) => {
            let weights = importance.imatrix.weights(tensor.name, tensor).map_err(Error::Imatrix)?;
            Ok(weights.is_some())
        }
    }
}

fn into_files(
    base: &Base<'_>,
    shards: Shards,
    metadata: Metadata,
    planned: Vec<Planned>,
) -> Result<Vec<PlannedFile>, Error> {
    let n_tensors = planned.len();
    let mut cut: Vec<Vec<Planned>> = Vec::new();
    let (mut n_bytes, mut shard) = (0u64, usize::MAX);
    for tensor in planned {
        let size = tensor
            .shape
            .n_bytes(tensor.choice.dtype)
            .map_err(|source| Error::Shape { tensor: tensor.name.clone(), source })?;
        let size = size.checked_next_multiple_of(DEFAULT_ALIGNMENT.into()).unwrap_or(size);
        let is_full = match (shards, cut.last()) {
            (_, None) => true,
            (Shards::One, _) => false,
            (Shards::Kept, _) => {
                let now = base.shard_of.as_ref().map_or(0, |shard_of| shard_of[tensor.choice.tensor]);
                std::mem::replace(&mut shard, now) != now
            }
            (Shards::Limited { max_bytes, max_tensors }, Some(last)) => {
                max_bytes.is_some_and(|max| n_bytes.saturating_add(size) > max)
                    || max_tensors.is_some_and(|max| last.len() as u64 >= max)
            }
        };
        if is_full {
            cut.push(Vec::new());
            n_bytes = 0;
            shard = base.shard_of.as_ref().map_or(0, |shard_of| shard_of[tensor.choice.tensor]);
        }
        n_bytes = n_bytes.saturating_add(size);
        if let Some(last) = cut.last_mut() {
            last.push(tensor);
        }
    }
    if cut.is_empty() {
        cut.push(Vec::new());
    }
    // The converter gives the one file of a model that needs no more its plain name.
    let is_split = shards != Shards::One && (cut.len() > 1 || !base.converted);
    let count = cut.len();
    let file = |(no, tensors): (usize, Vec<Planned>)| {
        let mut metadata = if no == 0 { metadata.clone() } else { Metadata::new() };
        if is_split {
            describe_shard(&mut metadata, base, shards, [no, count, n_tensors])?;
        }
        let alignment = match metadata.get(ALIGNMENT_KEY) {
            Some(Value::U32(stated)) => *stated,
            _ => DEFAULT_ALIGNMENT,
        };
        let choices = tensors.iter().map(|tensor| tensor.choice).collect();
        let tensors = tensors.into_iter().map(|it| (it.name, it.shape, it.choice.dtype)).collect();
        let plan = Plan::new(&metadata, tensors, Endian::Little, alignment).map_err(Error::Gguf)?;
        let shard = is_split.then_some((no as u32 + 1, count as u32));
        Ok(PlannedFile { recipe: base.recipe, plan, choices, shard })
    };
    cut.into_iter().enumerate().map(file).collect()
}

/// The keys of a shard in the order in which the program that makes such shards sets them.
fn describe_shard(
    metadata: &mut Metadata,
    base: &Base<'_>,
    shards: Shards,
    [no, count, n_tensors]: [usize; 3],
) -> Result<(), Error> {
    let too_many = || Error::TooManyShards { count };
    let n_tensors = i32::try_from(n_tensors).map_err(|_| too_many())?;
    let no = (SPLIT_NO_KEY, Value::U16(u16::try_from(no).map_err(|_| too_many())?));
    let of = (SPLIT_COUNT_KEY, Value::U16(u16::try_from(count).map_err(|_| too_many())?));
    let all = (SPLIT_TENSORS_KEY, Value::I32(n_tensors));
    let keys = match shards {
        // llama-quantize leaves them out where all is in one file.
        Shards::Kept if count == 1 => return Ok(()),
        // llama-gguf-split knows the count last.
        Shards::Limited { .. } if !base.converted => [no, all, of],
        _ => [no, of, all],
    };
    for (key, value) in keys {
        metadata.set_last(key, value);
    }
    Ok(())
}

/// Checks that everything that a plan asks for can be done, before anything is.
pub(crate) fn check(
    file: &PlannedFile,
    tensors: &[TensorFacts<'_>],
    request: &Request<'_>,
    allow_requantize: bool,
) -> Result<(), Error> {
    for choice in &file.choices {
        let (tensor, dtype) = (&tensors[choice.tensor], choice.dtype);
        // What is only copied needs nothing.
        if tensor.dtype == dtype {
            continue;
        }
        let name = || tensor.name.to_owned();
        if !has_weights(tensor, request)? && choice.requires_imatrix {
            match request.missing {
                MissingPolicy::Error if request.importance.is_none() => {
                    return Err(Error::NeedsImatrix { tensor: name(), dtype, recipe: file.recipe.name });
                }
                MissingPolicy::Error => return Err(Error::NotInImatrix { tensor: name(), dtype }),
                _ => {
                    stand_in(tensor, choice, file.recipe, request)?;
                }
            }
        }
        if tensor.dtype.is_quantized() && !allow_requantize {
            return Err(Error::Requantize { tensor: name(), from: tensor.dtype, to: dtype });
        }
        let no_codec = |dtype, verb| {
            Err(Error::Encode { tensor: name(), error: quant::CodecError::NoCodec { dtype, verb } })
        };
        if quant::codec(tensor.dtype).is_none() {
            return no_codec(tensor.dtype, "decode");
        }
        if !dtype.is_encodable() || quant::codec(dtype).is_none_or(|codec| codec.encode.is_none()) {
            return no_codec(dtype, "encode");
        }
    }
    Ok(())
}

fn stand_in<'a>(
    tensor: &TensorFacts<'_>,
    choice: &Choice,
    recipe: &Recipe,
    request: &Request<'a>,
) -> Result<Substitute<'a>, Error> {
    let imatrix = request.importance.map(|importance| importance.imatrix);
    let target = TensorFacts { dtype: choice.dtype, ..*tensor };
    substitute(request.missing, imatrix, &target, recipe.file_type).map_err(Error::Imatrix)
}

/// As many weights of one as a tensor of `files` could need in the place of missing ones.
pub fn ones_for(files: &[PlannedFile]) -> Vec<f32> {
    let tensors = files.iter().flat_map(|file| file.choices.iter().zip(file.plan.tensors()));
    let needy = tensors.filter(|(choice, _)| choice.requires_imatrix);
    let n_ones = needy.map(|(_, tensor)| tensor.shape.row_elems() * tensor.shape.dim(2)).max();
    vec![1.0; n_ones.unwrap_or(0) as usize]
}

/// Gives each work its weights and its places in `files`. `ones` is what [`ones_for`] gives.
pub(crate) fn add_targets<'a>(
    works: &mut [Work<'a>],
    files: &[PlannedFile],
    tensors: &[TensorFacts<'_>],
    request: &Request<'a>,
    ones: &'a [f32],
) -> Result<(), Error> {
    let rows_per_expert = |tensor: &TensorFacts<'_>| tensor.shape.dim(1).max(1);
    if let Some(importance) = request.importance {
        for (work, tensor) in works.iter_mut().zip(tensors) {
            // An entry of the wrong size has been refused, unless its tensor is only copied.
            let values = importance.imatrix.weights(tensor.name, tensor).ok().flatten();
            let rows_per_expert = rows_per_expert(tensor);
            work.weights = values.map(|values| Weights { values, rows_per_expert });
        }
    }
    for (output, file) in files.iter().enumerate() {
        for (choice, planned) in file.choices.iter().zip(file.plan.tensors()) {
            let (work, tensor) = (&mut works[choice.tensor], &tensors[choice.tensor]);
            let is_bare = work.weights.is_none() && choice.requires_imatrix && tensor.dtype != choice.dtype;
            if is_bare {
                let rows_per_expert = rows_per_expert(tensor);
                let weights = |values| Some(Weights { values, rows_per_expert });
                work.stand_in = match stand_in(tensor, choice, file.recipe, request)? {
                    Substitute::Ones(count) => weights(&ones[..count as usize]),
                    Substitute::Neighbour { weights: values, .. } => weights(values),
                    Substitute::Raise(_) => None,
                };
            }
            let (dtype, offset) = (choice.dtype, planned.offset);
            work.targets.push(Target { output, dtype, offset, needs_weights: choice.requires_imatrix });
        }
    }
    Ok(())
}
