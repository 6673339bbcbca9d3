//! The toolkit through its public API.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod calls;
mod check_against;
mod conversions;
mod files;
mod module_order;
mod plans;

use std::path::{Path, PathBuf};

use gguf_toolkit::{Convert, FileType};

/// A checkpoint of two layers.
fn checkpoint() -> PathBuf {
    gguf_testkit::golden_path("arch/llama")
}

/// A conversion of the checkpoint to a file or folder.
fn conversion(file_type: FileType, out: impl Into<PathBuf>) -> Convert {
    let mut convert = Convert::new(checkpoint(), [file_type]);
    convert.output.out = Some(out.into());
    convert
}

/// The checkpoint as a bf16 file.
fn bf16(sandbox: &Path) -> PathBuf {
    let path = sandbox.join("bf16.gguf");
    let report = conversion(FileType::BF16, &path).run(&()).unwrap();
    assert_eq!(report.paths(), [path.as_path()]);
    path
}
