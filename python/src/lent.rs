//! Arrays of Python as bytes that Rust threads read. This is the only unsafe code of the package.
#![expect(unsafe_code, reason = "threads that do not hold the interpreter's lock read an array's memory")]

use numpy::{PyArray1, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::{exceptions::PyValueError, prelude::*, types::PyWeakrefReference};

/// Bytes of an array, which this value keeps alive.
pub struct Lent {
    /// Keeps the memory: NumPy frees it with the last reference.
    _array: Py<PyArray1<u8>>,
    /// Keeps the memory in place: NumPy refuses to resize an array with a weak reference, also with `refcheck=False`.
    _pin: Py<PyWeakrefReference>,
    start: *const u8,
    len: usize,
}

// SAFETY: nothing is written through the pointer, and the memory is neither freed nor moved before the references to the
// array are dropped, which may happen on any thread. Owners other than NumPy arrays (tensors of torch, buffers) do not move
// memory that an array refers to. The array must not be written meanwhile:
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
        // The array may be a view; its owner is the one that could be resized.
        let mut owner = array.clone().into_any();
        loop {
            let base = owner.getattr("base")?;
            if base.cast::<PyUntypedArray>().is_err() {
                break;
            }
            owner = base;
        }
        let pin = PyWeakrefReference::new(&owner)?.unbind();
        Ok(Lent {
            start: array.data().cast_const(),
            len: array.len(),
            _array: array.clone().unbind(),
            _pin: pin,
        })
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: a contiguous array of `len` bytes begins at `start`. `_pin` keeps NumPy from moving it, and `_array` keeps it alive.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}
