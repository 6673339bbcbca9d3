//! Changes that let llama.cpp load a file that it would refuse in the bytes of the reference. They do not change what the model
//! computes.

use gguf_container::{Metadata, Value};
use gguf_types::Shape;

use crate::departure::{Departed, TIED_OUTPUT, WIDTH};
use crate::layout::{Layout, OutTensor};
use crate::loader::{self, Refusal};
use crate::registry::Families;

/// Makes the changes that are possible, and records each. `is_tied` states that the embedding serves as the output.
pub fn make_loadable(families: &Families, layout: &mut Layout, embedding: &str, is_tied: bool) {
    let Some(found) = refusals(families, &layout.metadata, &layout.tensors) else { return };
    let lacks_output = |found: &[Refusal]| {
        found.iter().any(|refusal| matches!(refusal, Refusal::MissingTensor { name, .. } if name == OUTPUT))
    };
    if is_tied && lacks_output(&found) {
        write_output(layout, embedding);
    }
    if found.iter().any(is_width) {
        state_width(families, layout);
    }
}

const OUTPUT: &str = TIED_OUTPUT.subject;

/// Reasons why llama.cpp would refuse a file with these keys and tensors.
fn refusals(families: &Families, metadata: &Metadata, tensors: &[OutTensor]) -> Option<Vec<Refusal>> {
    let shapes = tensors.iter().map(|tensor| (tensor.name.as_str(), tensor.shape));
    loader::refusals(families, metadata, shapes)
}

/// Writes a tied embedding a second time as the output.
fn write_output(layout: &mut Layout, embedding: &str) {
    let Some(tensor) = layout.tensors.iter().find(|tensor| tensor.name == embedding) else { return };
    let output = OutTensor { name: OUTPUT.to_owned(), ..tensor.clone() };
    layout.tensors.push(output);
    layout.departed.push(Departed { name: OUTPUT.to_owned(), row: &TIED_OUTPUT });
}

/// True for a feed-forward matrix or bias of another width than the keys give.
fn is_width(refusal: &Refusal) -> bool {
    let Refusal::TensorShape { name, .. } = refusal else { return false };
    let part = gguf_types::layer_and_part(name).map(|(_, part)| part);
    let is_dense =
        |part: &str| ["ffn_up.", "ffn_down.", "ffn_gate."].iter().any(|prefix| part.starts_with(prefix));
    part.is_some_and(is_dense)
}

/// Gives the feed-forward length the width of the matrices, if all layers have the same and llama.cpp then accepts it.
pub fn state_width(families: &Families, layout: &mut Layout) {
    let key = format!("{}.feed_forward_length", layout.architecture);
    let Some(stated) = layout.metadata.get(&key).and_then(Value::as_u64) else { return };
    let is_down =
        |tensor: &&OutTensor| tensor.name.starts_with("blk.") && tensor.name.ends_with(".ffn_down.weight");
    let widths = || layout.tensors.iter().filter(is_down).map(|tensor| Shape::row_elems(&tensor.shape));
    let Some(width) = widths().next().and_then(|width| u32::try_from(width).ok()) else { return };
    if u64::from(width) == stated || widths().any(|other| other != u64::from(width)) {
        return;
    }
    let mut metadata = layout.metadata.clone();
    metadata.set(key.clone(), width);
    if refusals(families, &metadata, &layout.tensors).is_some_and(|left| !left.iter().any(is_width)) {
        layout.metadata = metadata;
        layout.departed.push(Departed { name: key, row: &WIDTH });
    }
}
