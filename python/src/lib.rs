//! The Python package `gguf_tools`: the calls of `gguf_toolkit`, without further logic.
//!
//! Work runs on a separate thread while Python's thread waits without the interpreter's lock ([`work`]), so
//! that Ctrl-C and progress reach it, and other threads continue.

mod arrays;
mod calls;
mod errors;
mod events;
mod files;
mod lent;
mod memory;
mod model;
mod stream;
mod values;
mod work;
mod writer;

use std::{ffi::OsString, path::PathBuf};

use pyo3::{exceptions::PyValueError, prelude::*};

/// Runs a program of the command line and returns its exit code. Help and invalid arguments end the process.
#[pyfunction]
fn run_command(py: Python<'_>, binary: &str, called: PathBuf, arguments: Vec<OsString>) -> PyResult<u8> {
    let programs = gguf_tools::commands::BINARIES;
    let Some(program) = programs.iter().find(|program| program.name == binary) else {
        return Err(PyValueError::new_err(format!("`{binary}` is not a program of this package")));
    };
    Ok(py.detach(|| gguf_tools::commands::run(program.name, &called, arguments)))
}

/// The native half of the package.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<files::File>()?;
    module.add_function(wrap_pyfunction!(calls::call, module)?)?;
    module.add_function(wrap_pyfunction!(calls::check_file_types, module)?)?;
    module.add_function(wrap_pyfunction!(calls::hub_from_environment, module)?)?;
    module.add_function(wrap_pyfunction!(memory::save, module)?)?;
    module.add_class::<writer::FileWriter>()?;
    module.add_function(wrap_pyfunction!(arrays::encode, module)?)?;
    module.add_function(wrap_pyfunction!(arrays::decode, module)?)?;
    module.add_class::<model::Model>()?;
    module.add_class::<model::Session>()?;
    module.add_class::<stream::TextStream>()?;
    module.add_function(wrap_pyfunction!(values::types, module)?)?;
    module.add_function(wrap_pyfunction!(values::tensor_types, module)?)?;
    module.add_function(wrap_pyfunction!(values::architectures, module)?)?;
    module.add_function(wrap_pyfunction!(run_command, module)?)?;
    Ok(())
}
