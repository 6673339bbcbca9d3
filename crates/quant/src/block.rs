//! Views of bytes as blocks: the only byte casts of this crate.
