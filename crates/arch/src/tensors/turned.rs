//! Tensors whose matrices lie transposed in the checkpoint, and weights that come as blocks.

use tensor::Shape;

use super::rules::Turned;
use super::{Context, Found, drops, part_shape, rules};
use crate::layout::{Data, Matrix, OutTensor, RowMap};
use crate::{ArchError, SourceTensor};

/// Elements of a block of MXFP4, and the bytes of its codes.
const BLOCK: (u64, u64) = (32, 16);

/// The shape of the transposed matrices, and which rows they are.
pub(super) fn turned(source: &Shape) -> Result<(Shape, Matrix), String> {
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

/// The shape of matrices that are transposed as `how` says: always three dimensions.
pub(super) fn turned_parts(source: &Shape, how: &Turned) -> Result<Shape, String> {
    let Turned { matrix: Matrix { group, start }, rows, .. } = *how;
    let all: u64 = source.dims().iter().skip(1).product();
    let inside = rows > 0 && start.checked_add(rows).is_some_and(|end| end <= group);
    if source.n_dims() < 2 || !inside || !all.is_multiple_of(group) {
        return Err(format!("matrices of {group} rows, of which {rows} from {start} on are taken"));
    }
    Shape::new(&[rows, source.dim(0), all / group]).map_err(|error| error.to_string())
}

/// The name of the codes that belong to scales, and the other way round.
pub(super) fn partner(name: &str) -> Option<String> {
    let swapped = |from: &str, to: &str| name.strip_suffix(from).map(|base| format!("{base}{to}"));
    swapped("_scales", "_blocks").or_else(|| swapped("_blocks", "_scales"))
}

impl Context<'_> {
    /// The tensor of blocks that scales and codes make.
    pub(super) fn packed(
        &self,
        found: &Found<'_>,
        rows: RowMap,
        scales: &SourceTensor,
        codes: Option<&SourceTensor>,
    ) -> Result<OutTensor, ArchError> {
        let missing = || ArchError::MissingTensors { names: partner(&scales.name).into_iter().collect() };
        let codes = codes.ok_or_else(missing)?;
        let wrong = |source: &SourceTensor, expected| ArchError::TensorShape {
            name: source.name.clone(),
            found: source.shape,
            expected,
        };
        if codes.shape.dims() != [&[BLOCK.1], scales.shape.dims()].concat() {
            let expected = format!("16 codes for each of the {} scales of `{}`", scales.shape, scales.name);
            return Err(wrong(codes, expected));
        }
        let mut dims =
            part_shape(&rows, &scales.shape).map_err(|expected| wrong(scales, expected))?.dims().to_vec();
        let name = rules::fill(found.rule.gguf, found.bid, 0) + found.suffix;
        if let Some(row_elems) = dims.first_mut() {
            *row_elems = row_elems.saturating_mul(BLOCK.0);
        }
        let shape = Shape::new(&dims).map_err(|source| ArchError::Shape { name: name.clone(), source })?;
        Ok(OutTensor {
            keep_f32: drops::keep_f32(&name, shape.n_dims()),
            name,
            shape,
            data: Data::Mxfp4 { codes: codes.name.clone(), scales: scales.name.clone(), rows },
        })
    }
}
