//! An open checkpoint with the facts for a report.

use std::path::Path;

use gguf_conversion::CheckpointInput;

use super::{report::stored_as, run_args::OpenInput};
use crate::layout_notes::{Notes, dropped};

/// An input with the facts of its layouts.
pub(super) fn opened(input: CheckpointInput, path: &Path) -> OpenInput<'_, CheckpointInput> {
    let checkpoint = input.checkpoint();
    let layouts: Vec<_> = [input.layout()].into_iter().chain(input.projector()).collect();
    OpenInput {
        path,
        files: Vec::new(),
        format: checkpoint.format,
        architecture: input.layout().architecture.to_owned(),
        notes: Notes::of(&checkpoint.notes, &layouts).with_warnings(&checkpoint.warnings),
        dropped: dropped(&layouts),
        stored_as: layouts
            .iter()
            .flat_map(|layout| layout.tensors.iter().map(|tensor| stored_as(checkpoint, &tensor.data)))
            .collect(),
        repacked: Vec::new(),
        input,
    }
}
