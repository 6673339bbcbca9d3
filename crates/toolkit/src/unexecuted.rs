//! Matrices that no run of a model reaches.

use gguf_runtime::{Model, importance::matrices};

use crate::text::printable;

/// Matrices of layers that are not executed.
pub fn names(model: &Model) -> Vec<String> {
    matrices(model).into_iter().filter(|name| !model.is_executed(name)).collect()
}

/// A line that names them; none for a model that is executed whole.
pub fn line(model: &Model) -> Option<String> {
    let names = names(model);
    let (first, rest) = names.split_first()?;
    let mtp = gguf_layout::mtp_layers(model.file().metadata());
    let is_mtp = |name: &String| gguf_layout::mtp_layer_of(&mtp, name).is_some();
    let what = if names.iter().all(is_mtp) {
        match mtp.end - mtp.start {
            1 => format!("MTP layer {} is", mtp.start),
            _ => format!("MTP layers {} to {} are", mtp.start, mtp.end - 1),
        }
    } else {
        "some layers are".to_owned()
    };
    let first = printable(first);
    let matrices = match rest.len() {
        0 => format!("`{first}` has"),
        n => format!("`{first}` and {n} more matrices have"),
    };
    Some(format!("{what} not executed, so {matrices} no importance data"))
}
