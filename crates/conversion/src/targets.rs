//! Checks that planned files can be written, and assigns importance weights to each target.

use crate::{
    Error,
    imatrix::{MissingPolicy, neighbour},
    job::{Target, TensorTask, Weights},
    planned::{Choice, PlannedFile},
    recipes::{Reason, TensorFacts},
    request::Request,
};

/// Checks before any work that everything in a plan can be done. `may_requantize` allows quantizing weights in blocks again.
pub(crate) fn check(
    file: &PlannedFile,
    tensors: &[TensorFacts<'_>],
    request: &Request<'_>,
    may_requantize: bool,
) -> Result<(), Error> {
    for choice in &file.choices {
        let (tensor, dtype) = (&tensors[choice.tensor], choice.dtype);
        // Copied tensors need nothing.
        if tensor.dtype == dtype || choice.reason == Reason::Repacked {
            continue;
        }
        let name = || tensor.name.to_owned();
        // Even where weights are not needed, an entry of the wrong size means a matrix of another model.
        let has_weights = request.weights_of(tensor)?.is_some();
        if choice.requires_imatrix && !has_weights {
            match request.missing {
                MissingPolicy::Error if request.importance.is_none() => {
                    let (recipe, is_diffusion) = (file.recipe.name, file.is_diffusion);
                    return Err(Error::NeedsImatrix { tensor: name(), dtype, recipe, is_diffusion });
                }
                MissingPolicy::Error => {
                    let mtp_layer = mtp_layer_of(file, tensor.name);
                    return Err(Error::NotInImatrix { tensor: name(), dtype, mtp_layer });
                }
                // Checks for a neighbor to take weights from.
                _ => {
                    stand_in(tensor, choice, request)?;
                }
            }
        }
        if tensor.dtype.is_quantized() && !may_requantize {
            return Err(Error::Requantize { tensor: name(), from: tensor.dtype, to: dtype });
        }
        // Both directions have to be known: the input is decoded to f32, and not every type can be encoded.
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

/// The MTP layer that a tensor belongs to.
fn mtp_layer_of(file: &PlannedFile, tensor: &str) -> Option<u64> {
    let header = gguf_container::Header::parse(file.plan.header_bytes()).ok()?;
    gguf_layout::mtp_layer_of(&gguf_layout::mtp_layers(header.metadata()), tensor)
}

/// Substitutes for missing importance weights.
fn stand_in<'a>(
    tensor: &TensorFacts<'_>,
    choice: &Choice,
    request: &Request<'a>,
) -> Result<Option<Weights<'a>>, Error> {
    match request.missing {
        // `check` refuses the former; the plan has another type for the latter.
        MissingPolicy::Error | MissingPolicy::RaiseType => Ok(None),
        MissingPolicy::Ones => Ok(Some(Weights::Ones)),
        MissingPolicy::Neighbour => {
            let imatrix = request.importance.map(|importance| importance.imatrix);
            // The type that is wanted, not the one that is stored.
            let target = TensorFacts { dtype: choice.dtype, ..*tensor };
            let weights = neighbour(imatrix, &target).map_err(Error::Imatrix)?;
            Ok(Some(by_expert(tensor, weights)))
        }
    }
}

/// Weights of a tensor, (n_experts, row_elems).
fn by_expert<'a>(tensor: &TensorFacts<'_>, values: &'a [f32]) -> Weights<'a> {
    Weights::Rows { values, rows_per_expert: tensor.shape.dim(1).max(1) }
}

/// Gives the task of each tensor its places in `file`, which is the output of this number.
///
/// # Errors
/// [`Error::Imatrix`].
pub(crate) fn add_targets<'a>(
    tasks: &mut [TensorTask<'a>],
    file: &PlannedFile,
    output: usize,
    tensors: &[TensorFacts<'_>],
    request: &Request<'a>,
) -> Result<(), Error> {
    for (choice, planned) in file.choices.iter().zip(file.plan.tensors()) {
        let (tensor, dtype) = (&tensors[choice.tensor], choice.dtype);
        // Floats use no weights. Each target has its own: of two files from one pass, one may need
        // substitutes while the other needs none.
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
