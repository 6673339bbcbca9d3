//! Rows of GGUF tensors on their way back to a checkpoint.

use std::{borrow::Cow, ops::Range};

use arch::{
    ElementMap, RowMap, RowView,
    back::{BackPart, BackTensor},
};
use gguf::{Advice, TensorInfo};
use quant::Level;
use tensor::DType;

use crate::{Error, TensorRows};

/// Rows of a checkpoint tensor, each read where the [`RowMap`] of its part has put it.
#[derive(Debug, Clone)]
pub struct BackRows<'a> {
    parts: Vec<Part<'a>>,
    view: RowView,
}

/// Rows that lie in one GGUF tensor.
#[derive(Debug, Clone)]
struct Part<'a> {
    file: &'a gguf::File,
    tensor: &'a TensorInfo,
    map: RowMap,
    first_row: u64,
    n_rows: u64,
    element: ElementMap,
}

impl<'a> BackRows<'a> {
    /// The rows of `back`, which lie in tensors of `file`.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`].
    pub fn new(file: &'a gguf::File, back: &BackTensor) -> Result<BackRows<'a>, Error> {
        let view = RowView { n_rows: back.shape.n_rows(), row_elems: back.shape.row_elems() };
        let part = |part: &BackPart| {
            let missing = || Error::NoSuchTensor { name: part.source.clone(), wanted_by: back.name.clone() };
            let tensor = file.tensor(&part.source).ok_or_else(missing)?;
            let BackPart { first_row, n_rows, rows: map, element, .. } = *part;
            Ok(Part { file, tensor, map, first_row, n_rows, element })
        };
        Ok(BackRows { parts: back.parts.iter().map(part).collect::<Result<_, Error>>()?, view })
    }

    /// How the elements fall into rows. A vector is one row, even where its elements move.
    pub fn view(&self) -> RowView {
        self.view
    }

    /// The only part, where rows lie in the order of the checkpoint.
    fn plain(&self) -> Option<&Part<'a>> {
        match &self.parts[..] {
            [part] if part.map == RowMap::Concat => Some(part),
            _ => None,
        }
    }

    /// Rows of a head, which move among themselves.
    pub fn group_rows(&self) -> u64 {
        match self.parts.first().map(|part| part.map) {
            Some(RowMap::RopePermute { n_head }) => (self.view.n_rows / n_head.max(1)).max(1),
            _ => 1,
        }
    }

    /// Bytes of the input behind `n_rows` rows.
    pub fn input_bytes(&self, n_rows: u64) -> u64 {
        self.parts.first().map_or(0, |part| part.stored().input_bytes(n_rows))
    }

    /// The stored type, where rows lie in the order of the output.
    pub fn raw_dtype(&self) -> Option<DType> {
        let part = self.plain().filter(|part| part.element == ElementMap::Identity)?;
        part.stored().raw_dtype()
    }

    /// The stored bytes of rows `rows`; only where [`BackRows::raw_dtype`] gives a type.
    ///
    /// # Errors
    /// As [`TensorRows::raw`].
    pub fn raw(&self, rows: Range<u64>) -> Result<Cow<'a, [u8]>, Error> {
        match self.plain() {
            Some(part) => part.stored().raw(part.at(rows)),
            None => Ok(Cow::Borrowed(&[])),
        }
    }

    /// Reads rows `rows` into `out`, which is (rows, row_elems) f32.
    ///
    /// # Errors
    /// As [`TensorRows::read`].
    pub fn read(&self, rows: Range<u64>, level: Level, out: &mut [f32]) -> Result<(), Error> {
        if let Some(part) = self.plain() {
            return part.read(rows, level, out);
        }
        let RowView { n_rows, row_elems } = self.view;
        if n_rows == 1 {
            return self.read_vector(level, out);
        }
        for (row, out) in rows.zip(out.chunks_exact_mut(row_elems.max(1) as usize)) {
            // The layout has given every row to some part.
            let Some(part) = self.parts.iter().find(|part| part.holds(row)) else { continue };
            let row = part.map.output_row(row, part.n_rows);
            part.read(row..row + 1, level, out)?;
        }
        Ok(())
    }

    /// A vector, whose elements have moved or lie in several.
    fn read_vector(&self, level: Level, out: &mut [f32]) -> Result<(), Error> {
        for part in &self.parts {
            let mut values = vec![0.0; part.tensor.shape.n_elems() as usize];
            part.stored().read(0..1, level, &mut values)?;
            part.undo(&mut values);
            for (element, out) in
                out.iter_mut().enumerate().filter(|(element, _)| part.holds(*element as u64))
            {
                *out = values[part.map.output_row(element as u64, part.n_rows) as usize];
            }
        }
        Ok(())
    }

    /// Tells the system how the pages behind rows `rows` will be used. Rows of whole heads lie
    /// together in the file, if not in this order.
    pub fn advise(&self, rows: Range<u64>, advice: Advice) {
        if let [part] = &self.parts[..] {
            part.stored().advise(part.at(rows), advice);
        }
    }
}

impl<'a> Part<'a> {
    /// Whether a row of the checkpoint is one of these.
    fn holds(&self, row: u64) -> bool {
        match self.map {
            RowMap::Groups { group, start, rows, .. } => {
                (start..start + rows).contains(&(row % group.max(1)))
            }
            _ => true,
        }
    }

    fn at(&self, rows: Range<u64>) -> Range<u64> {
        self.first_row + rows.start..self.first_row + rows.end
    }

    fn read(&self, rows: Range<u64>, level: Level, out: &mut [f32]) -> Result<(), Error> {
        self.stored().read(self.at(rows), level, out)?;
        self.undo(out);
        Ok(())
    }

    /// Takes away what was added. Exact for what a sum with one has kept: every f16, and every bf16
    /// from 2^-16 on.
    fn undo(&self, values: &mut [f32]) {
        if self.element == ElementMap::AddOne {
            values.iter_mut().for_each(|value| *value -= 1.0);
        }
    }

    fn stored(&self) -> TensorRows<'a> {
        TensorRows::Gguf { file: self.file, tensor: self.tensor }
    }
}
