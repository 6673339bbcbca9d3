//! Element-wise functions between a checkpoint and a file.

use gguf_layout::ElementMap;
use gguf_quant::round::{f16_to_f32, f32_to_f16};

/// Applies an element map to rows from `first_row` on, as torch does: f16 values (`half`) are rounded after
/// every operation; other types are computed in single precision.
pub(super) fn map_elements(
    element: ElementMap,
    half: bool,
    first_row: u64,
    row_elems: u64,
    values: &mut [f32],
) {
    // Most tensors: skip the values.
    if element == ElementMap::Identity {
        return;
    }
    let round = |value: f32| if half { f16_to_f32(f32_to_f16(value)) } else { value };
    for (row, values) in (first_row..).zip(values.chunks_mut(row_elems.max(1) as usize)) {
        for value in values {
            *value = element.apply(row, *value, round);
        }
    }
}
