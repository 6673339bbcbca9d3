//! Checks that planned files can be written, and assigns importance weights to each target.

use crate::{
    Error,
    imatrix::{MissingPolicy, neighbour, same_input},
    job::{Target, TensorTask, Weights},
    planned::{Choice, PlannedFile},
    recipes::{Reason, TensorFacts},
    request::Request,
};

/// Tensors that are not copied, with their choices.
fn encoded<'a, 'n>(
    file: &'a PlannedFile,
    tensors: &'a [TensorFacts<'n>],
) -> impl Iterator<Item = (&'a Choice, &'a TensorFacts<'n>)> {
    let choices = file.choices.iter().map(|choice| (choice, &tensors[choice.tensor]));
    choices.filter(|(choice, tensor)| {
        tensor.dtype != choice.dtype && !matches!(choice.reason, Reason::Repacked | Reason::Repaired)
    })
}

/// Checks that each tensor has the importance data that its type needs.
pub(crate) fn check_importance(
    file: &PlannedFile,
    tensors: &[TensorFacts<'_>],
    request: &Request<'_>,
) -> Result<(), Error> {
    for (choice, tensor) in encoded(file, tensors) {
        let (name, dtype) = (|| tensor.name.to_owned(), choice.dtype);
        // Even if weights are not needed, an entry of the wrong size indicates a matrix of another model.
        let has_weights = request.weights_of(tensor)?.is_some();
        if choice.requires_imatrix && !has_weights {
            match request.missing {
                MissingPolicy::Error if of_same_input(tensor, request).is_some() => {}
                MissingPolicy::Error if request.importance.is_none() => {
                    let (recipe, is_diffusion) = (file.recipe.name, file.is_diffusion);
                    return Err(Error::NeedsImatrix { tensor: name(), dtype, recipe, is_diffusion });
                }
                MissingPolicy::Error => {
                    let mtp_layer = mtp_layer_of(file, tensor.name);
                    let is_expert = tensor.shape.n_dims_effective() > 2;
                    return Err(Error::NotInImatrix { tensor: name(), dtype, mtp_layer, is_expert });
                }
                // Checks for a neighbor to take weights from.
                _ => {
                    stand_in(tensor, choice, request)?;
                }
            }
        }
    }
    Ok(())
}

/// Checks before any work that types can be converted. `may_requantize` permits requantizing blocks.
pub(crate) fn check_types(
    file: &PlannedFile,
    tensors: &[TensorFacts<'_>],
    may_requantize: bool,
) -> Result<(), Error> {
    for (choice, tensor) in encoded(file, tensors) {
        let (name, dtype) = (|| tensor.name.to_owned(), choice.dtype);
        if tensor.dtype.is_quantized() && !may_requantize {
            return Err(Error::Requantize { tensor: name(), from: tensor.dtype, to: dtype });
        }
        // Both directions are needed: the input is decoded to f32, and not every type can be encoded.
        let no_codec = |dtype, verb| {
            Err(Error::Encode { tensor: name(), error: gguf_quant::CodecError::NoCodec { dtype, verb } })
        };
        if gguf_quant::codec(tensor.dtype).is_none() {
            return no_codec(tensor.dtype, "decode");
        }
        if !dtype.is_encodable() || gguf_quant::codec(dtype).is_none_or(|codec| codec.encode.is_none()) {
            return no_codec(dtype, "encode");
        }
    }
    Ok(())
}

fn mtp_layer_of(file: &PlannedFile, tensor: &str) -> Option<u64> {
    let header = gguf_container::Header::parse(file.plan.header_bytes()).ok()?;
    gguf_layout::mtp_layer_of(&gguf_layout::mtp_layers(header.metadata()), tensor)
}

fn stand_in<'a>(
    tensor: &TensorFacts<'_>,
    choice: &Choice,
    request: &Request<'a>,
) -> Result<Option<Weights<'a>>, Error> {
    match request.missing {
        // `check_importance` refuses tensors without such data.
        MissingPolicy::Error => Ok(of_same_input(tensor, request)),
        // The plan has another type.
        MissingPolicy::RaiseType => Ok(None),
        MissingPolicy::Ones => Ok(Some(Weights::Ones)),
        MissingPolicy::Neighbour => {
            let imatrix = request.importance.map(|importance| importance.imatrix);
            // The target type, not the stored one.
            let target = TensorFacts { dtype: choice.dtype, ..*tensor };
            let weights = neighbour(imatrix, &target).map_err(Error::Imatrix)?;
            Ok(Some(by_expert(tensor, weights)))
        }
    }
}

fn of_same_input<'a>(tensor: &TensorFacts<'_>, request: &Request<'a>) -> Option<Weights<'a>> {
    let (_, weights) = same_input(request.importance?.imatrix, tensor)?;
    Some(by_expert(tensor, weights))
}

/// Weights (n_experts, row_elems).
fn by_expert<'a>(tensor: &TensorFacts<'_>, values: &'a [f32]) -> Weights<'a> {
    Weights::Rows { values, rows_per_expert: tensor.shape.dim(1).max(1) }
}

/// Adds targets in `file`, the output with this index, to the tasks of its tensors.
pub(crate) fn add_targets<'a>(
    tasks: &mut [TensorTask<'a>],
    file: &PlannedFile,
    output: usize,
    tensors: &[TensorFacts<'_>],
    request: &Request<'a>,
) -> Result<(), Error> {
    for (choice, planned) in file.choices.iter().zip(file.plan.tensors()) {
        let (tensor, dtype) = (&tensors[choice.tensor], choice.dtype);
        // Floats use no weights. Weights are per target: of two files from one pass, only one may need
        // substitutes.
        let weights = if dtype.is_quantized() && choice.reason != Reason::Repacked {
            // An entry of the wrong size has been refused, unless its tensor is only copied.
            let found = request.weights_of(tensor).ok().flatten();
            match found {
                Some(values) => Some(by_expert(tensor, values)),
                None if choice.requires_imatrix && tensor.dtype != dtype => {
                    stand_in(tensor, choice, request)?
                }
                None => None,
            }
        } else {
            None
        };
        let (endian, offset) = (file.plan.endian(), planned.offset);
        tasks[choice.tensor].targets.push(Target { output, dtype, endian, offset, weights });
    }
    Ok(())
}
