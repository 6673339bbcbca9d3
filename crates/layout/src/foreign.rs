//! Formats of other runtimes: files that are not GGUF, of models of one architecture.
//!
//! The layout of such a file comes from a row of the usual kind whose tensor table has the names of the format. The
//! format adds the header of the file and the header that precedes each tensor.

use std::fmt;

use gguf_types::{DType, Shape};

use crate::arch::{Arch, DECODER};
use crate::layout::{Layout, OutTensor};
use crate::{ArchError, Input};

/// A file format other than GGUF.
#[derive(Clone, Copy)]
pub struct ForeignFormat {
    /// Its name: that of the runtime that reads it.
    pub name: &'static str,
    /// Extension of its files, without the dot.
    pub extension: &'static str,
    /// A row whose tensor table has the names of the format.
    pub arch: &'static Arch,
    /// Type that every value is rounded to before anything else.
    pub via: Option<DType>,
    /// File types, the default one first.
    pub types: &'static [ForeignType],
    /// Completes the layout of `arch`: checks what the runtime requires, puts tensors in the order of the file, and
    /// writes the header.
    pub finish: fn(&Input<'_>, Layout) -> Result<ForeignLayout, ArchError>,
    /// Returns the type of a tensor in a file whose matrices have the given type.
    pub dtype: fn(&OutTensor, DType) -> DType,
    /// Returns the header that precedes the data of a tensor, by its name, shape and type.
    pub tensor_header: fn(&str, &Shape, DType) -> Vec<u8>,
}

/// A file type of a [`ForeignFormat`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForeignType {
    /// Its name.
    pub name: &'static str,
    /// Type of the matrices.
    pub dtype: DType,
    /// Its number in the header.
    pub number: u32,
    /// A warning about files of this type.
    pub warning: Option<&'static str>,
}

/// A layout for a [`ForeignFormat`].
#[derive(Debug, Clone)]
pub struct ForeignLayout {
    /// The layout, with tensors in the order of the file.
    pub layout: Layout,
    /// Header of the file.
    pub header: Vec<u8>,
    /// Position in the header of the number of the file type, a little-endian u32.
    pub type_at: usize,
}

impl ForeignLayout {
    /// The header of a file of the type with this number.
    pub fn header_of(&self, number: u32) -> Vec<u8> {
        let mut header = self.header.clone();
        if let Some(bytes) = header.get_mut(self.type_at..self.type_at.saturating_add(4)) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
        header
    }
}

impl ForeignFormat {
    /// A format without types.
    pub const NONE: ForeignFormat = ForeignFormat {
        name: "",
        extension: "",
        arch: &DECODER,
        via: None,
        types: &[],
        finish: |_, layout| Ok(ForeignLayout { layout, header: Vec::new(), type_at: 0 }),
        dtype: |_, dtype| dtype,
        tensor_header: |_, _, _| Vec::new(),
    };
}

impl fmt::Debug for ForeignFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ForeignFormat").field(&self.name).finish()
    }
}

impl PartialEq for ForeignFormat {
    fn eq(&self, other: &ForeignFormat) -> bool {
        self.name == other.name
    }
}

impl Eq for ForeignFormat {}
