//! Shapes of tensors whose matrices are stored transposed in the checkpoint.

use gguf_types::Shape;

use super::rules::Transposed;
use crate::layout::Matrix;

/// The shape of the transposed matrices, and which rows of the source they are: (columns, rows, ..) of the
/// source becomes (rows, columns, ..), dimensions row length first.
pub(super) fn transposed(source: &Shape) -> Result<(Shape, Matrix), String> {
    let mut dims = source.dims().to_vec();
    let matrix = match dims.as_mut_slice() {
        [columns, rows, ..] => {
            std::mem::swap(columns, rows);
            Matrix { group: *columns, start: 0 }
        }
        _ => return Err("a matrix".into()),
    };
    Ok((Shape::new(&dims).map_err(|error| error.to_string())?, matrix))
}

/// The shape of matrices that are transposed as `transposed` says, in three dimensions always: (rows of a matrix,
/// columns, number of matrices).
pub(super) fn transposed_parts(source: &Shape, transposed: &Transposed) -> Result<Shape, String> {
    let Transposed { matrix: Matrix { group, start }, rows, .. } = *transposed;
    let all: u64 = source.dims().iter().skip(1).product();
    // `rows` source rows of every `group` from `start` on are one matrix, and every source row is in a
    // group.
    let inside = rows > 0 && start.checked_add(rows).is_some_and(|end| end <= group);
    if source.n_dims() < 2 || !inside || !all.is_multiple_of(group) {
        return Err(format!("matrices of {group} rows, of which {rows} from {start} on are taken"));
    }
    Shape::new(&[rows, source.dim(0), all / group]).map_err(|error| error.to_string())
}
