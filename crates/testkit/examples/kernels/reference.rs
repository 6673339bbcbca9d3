//! The reference's own encoders, from a shared library at a given path.
#![expect(unsafe_code, reason = "another program's functions are called through their addresses")]

use std::{ffi::c_void, path::Path, ptr};

use gguf_quant::Rows;
use gguf_types::DType;

/// `ggml_quantize_init` of llama.cpp (as vendored in llama-cpp-python 0.3.36).
type Init = unsafe extern "C" fn(dtype: i32);
/// `ggml_quantize_chunk`: type, source, destination, first element, rows, elements in a row, weights.
type Chunk = unsafe extern "C" fn(i32, *const f32, *mut c_void, i64, i64, i64, *const f32) -> usize;

/// An open `libggml-base`.
pub struct Reference {
    library: libloading::Library,
}

impl Reference {
    /// Opens the library at `path`.
    pub fn open(path: &Path) -> Result<Reference, libloading::Error> {
        // SAFETY: opening runs the library's initializers. The user names the file and vouches for it like
        // for a program that is started; ggml's own initializers only fill static tables.
        let library = unsafe { libloading::Library::new(path)? };
        // Looks up both names once, so that a wrong file is refused at the start.
        let reference = Reference { library };
        reference.chunk()?;
        reference.init()?;
        Ok(reference)
    }

    fn chunk(&self) -> Result<libloading::Symbol<'_, Chunk>, libloading::Error> {
        // SAFETY: `Chunk` is the signature that `ggml.h` declares for this name; `ggml_type` is a C enum, an
        // `int`. The symbol cannot outlive the library that it borrows.
        unsafe { self.library.get(b"ggml_quantize_chunk\0") }
    }

    fn init(&self) -> Result<libloading::Symbol<'_, Init>, libloading::Error> {
        // SAFETY: see `chunk`.
        unsafe { self.library.get(b"ggml_quantize_init\0") }
    }

    /// Builds the type's tables, so that no measurement pays for them.
    pub fn warm_up(&self, dtype: DType) -> Result<(), libloading::Error> {
        let init = self.init()?;
        // SAFETY: the function takes any id of a type and locks its own state.
        unsafe { init(dtype.id() as i32) };
        Ok(())
    }

    /// Encodes rows of a type that files may contain into `out`, like [`gguf_quant::encode`].
    ///
    /// # Panics
    /// If a length is wrong, weights are missing, or the type is not for files: the library would abort.
    pub fn encode(&self, dtype: DType, rows: Rows<'_>, out: &mut [u8]) -> Result<(), libloading::Error> {
        let codec = gguf_quant::codec(dtype).expect("the type has a codec");
        let n_rows = rows.values.len() / rows.row_elems;
        assert!(dtype.is_encodable(), "{dtype} is not for files");
        assert_eq!(rows.values.len(), n_rows * rows.row_elems, "whole rows");
        assert!(rows.row_elems.is_multiple_of(dtype.block_elems() as usize), "whole blocks");
        assert_eq!(
            out.len(),
            rows.values.len() / dtype.block_elems() as usize * dtype.block_bytes() as usize,
            "room for exactly these rows"
        );
        assert!(rows.weights.is_some() || !codec.needs_weights, "{dtype} needs weights");
        assert!(rows.weights.is_none_or(|weights| weights.len() == rows.row_elems), "a weight a column");
        let weights = rows.weights.map_or(ptr::null(), <[f32]>::as_ptr);
        let chunk = self.chunk()?;
        // SAFETY: source, destination and weights are live slices of the lengths asserted above, and the
        // function reads `n_rows * row_elems` values, reads `row_elems` weights if not null, and writes the
        // blocks of these rows: `out.len()` bytes, which it also returns. It keeps no pointer.
        let n_bytes = unsafe {
            chunk(
                dtype.id() as i32,
                rows.values.as_ptr(),
                out.as_mut_ptr().cast(),
                0,
                n_rows as i64,
                rows.row_elems as i64,
                weights,
            )
        };
        assert_eq!(n_bytes, out.len(), "{dtype}: bytes written by the reference");
        Ok(())
    }
}
