//! Common imports of the files of families about conversion.

pub(crate) use gguf_layout::prelude::*;
