//! Tensors of a checkpoint whose codes can be kept as ggml blocks.
//!
//! Rows may move, but elements may not change. Then blocks store the checkpoint's values bit for bit, without
//! quantizing a second time.

use gguf_checkpoint::{Checkpoint, Repacks};
use gguf_layout::{Data, ElementMap, FloatType, Layout, OutTensor};
use gguf_types::DType;

use crate::Error;

/// Treatment of a tensor's values if codes are to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repacked {
    /// Values that are not codes.
    Plain,
    /// Codes that blocks of this type can store.
    Kept(DType),
    /// Codes that are decoded, and requantized if the target type requires it; with the reason, for display.
    Decoded(String),
}

impl Repacked {
    /// Type of the blocks.
    pub fn dtype(&self) -> Option<DType> {
        match self {
            Repacked::Kept(dtype) => Some(*dtype),
            Repacked::Plain | Repacked::Decoded(_) => None,
        }
    }
}

/// Treatment of each tensor of a layout. Reads scales and zeros, and codes if a type may be too small for
/// them.
pub(crate) fn repacked(checkpoint: &Checkpoint, layout: &Layout) -> Result<Vec<Repacked>, Error> {
    layout.tensors.iter().map(|tensor| repack_tensor(checkpoint, tensor)).collect()
}

fn repack_tensor(checkpoint: &Checkpoint, tensor: &OutTensor) -> Result<Repacked, Error> {
    let decoded = |reason: &str| Ok(Repacked::Decoded(reason.to_owned()));
    let is_stored = |name: &String| checkpoint.tensor(name).is_some_and(|tensor| tensor.stored.is_some());
    // The reference keeps these blocks only for float types; here they are always kept.
    if let Some(dtype) = tensor.stored_dtype {
        return Ok(Repacked::Kept(dtype));
    }
    let (sources, element) = match &tensor.data {
        Data::Rows { sources, element, .. } => (sources, *element),
        Data::Columns { source, .. } if is_stored(source) => {
            return decoded("its rows are stored as columns");
        }
        _ => return Ok(Repacked::Plain),
    };
    match sources.iter().filter(|name| is_stored(name)).count() {
        0 => return Ok(Repacked::Plain),
        n if n < sources.len() => return decoded("a part of it is not quantized"),
        _ if element != ElementMap::Identity => return decoded("its values change in the conversion"),
        _ if tensor.float != FloatType::OfFile => return decoded("its type is always f32"),
        _ => {}
    }
    let mut common: Option<Vec<DType>> = None;
    for name in sources {
        let Some(source) = checkpoint.tensor(name) else { continue };
        if source.row_elems() != tensor.row_view().row_elems {
            return decoded("its rows are split in the conversion");
        }
        let types = match checkpoint.repacks_to(source).map_err(Error::Read)? {
            Some(Repacks::To(types)) => types,
            Some(Repacks::Not(reason)) => return Ok(Repacked::Decoded(reason)),
            None => Vec::new(),
        };
        // The smallest type that can store all parts: experts of one stack may need different ones.
        common = Some(match common {
            None => types,
            Some(common) => common.into_iter().filter(|dtype| types.contains(dtype)).collect(),
        });
    }
    let common = common.unwrap_or_default();
    match common.iter().find(|dtype| tensor.moves_blocks(**dtype)) {
        Some(dtype) => Ok(Repacked::Kept(*dtype)),
        None if common.is_empty() => decoded("no ggml type can hold all its parts"),
        None => decoded("its rows are reordered in pieces smaller than a block"),
    }
}
