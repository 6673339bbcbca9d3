//! Arrays of Python as bytes that Rust threads read. This is the only unsafe code of the package.
#![expect(unsafe_code, reason = "threads that do not hold the interpreter's lock read an array's memory")]

use numpy::{PyArray1, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::{exceptions::PyValueError, prelude::*};

/// Bytes of an array, which this value keeps alive.
pub struct Lent {
    /// Reference that keeps the memory: NumPy frees it with the last reference, and does not resize an array that
    /// has references.
    _array: Py<PyArray1<u8>>,
    start: *const u8,
    len: usize,
}

// SAFETY: nothing is written through the pointer, and the memory is not freed before the reference to the
// array is dropped, which may happen on any thread. The array must not be written meanwhile:
// `gguf_tools.save` documents this, and a Python thread that does it anyway changes numbers, not lengths or
// addresses.
unsafe impl Send for Lent {}
// SAFETY: as above; all access is reading.
unsafe impl Sync for Lent {}

impl Lent {
    /// Lends an array of bytes, which must be contiguous.
    pub fn new(array: &Bound<'_, PyArray1<u8>>) -> PyResult<Lent> {
        if !array.is_contiguous() {
            return Err(PyValueError::new_err("the bytes of a tensor are not contiguous"));
        }
        Ok(Lent { start: array.data().cast_const(), len: array.len(), _array: array.clone().unbind() })
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: a contiguous array of `len` bytes begins at `start`. NumPy does not move it, and `_array` keeps it alive.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}
