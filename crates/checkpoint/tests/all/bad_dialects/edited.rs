//! Modified goldens of `golden/dialects`: results of opening and reading them.

use std::{collections::BTreeMap, fs, path::PathBuf};

use gguf_checkpoint::{Checkpoint, Error};
use serde_json::Value as Json;
use tempfile::TempDir;

pub fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../golden/dialects").join(name)
}

#[derive(Debug, Clone)]
pub struct Stored {
    pub dtype: String,
    pub shape: Vec<u64>,
    pub bytes: Vec<u8>,
}

/// A modifiable golden of `golden/dialects`.
#[derive(Debug, Clone)]
pub struct Edited {
    pub config: Json,
    pub metadata: Option<Json>,
    pub tensors: BTreeMap<String, Stored>,
}

impl Edited {
    pub fn of(name: &str) -> Edited {
        let config = gguf_testkit::read_json(golden(name).join("config.json"));
        let file = fs::read(golden(name).join("model.safetensors")).unwrap();
        let metadata = gguf_testkit::safetensors_header(&file).0.remove("__metadata__");
        let tensors = gguf_testkit::read_safetensors(&file).into_iter();
        let tensors = tensors.map(|(name, (dtype, shape, bytes))| (name, Stored { dtype, shape, bytes }));
        Edited { config, metadata, tensors: tensors.collect() }
    }

    pub fn tensor(&mut self, name: &str) -> &mut Stored {
        self.tensors.get_mut(name).unwrap_or_else(|| panic!("no tensor {name}"))
    }

    pub fn remove(&mut self, name: &str) {
        self.tensors.remove(name).unwrap_or_else(|| panic!("no tensor {name}"));
    }

    /// Replaces the bytes of a vector or scalar by bytes of equal length.
    pub fn set(&mut self, name: &str, bytes: &[u8]) {
        let tensor = self.tensor(name);
        if !tensor.shape.is_empty() {
            tensor.shape = vec![bytes.len() as u64];
        }
        tensor.bytes = bytes.to_vec();
    }

    /// Replaces an element of a tensor of F32.
    pub fn set_f32(&mut self, name: &str, index: usize, value: f32) {
        self.tensor(name).bytes[4 * index..][..4].copy_from_slice(&value.to_le_bytes());
    }

    /// Replaces a text in a tensor that contains text.
    pub fn respell(&mut self, name: &str, from: &str, to: &str) {
        let text = String::from_utf8(self.tensor(name).bytes.clone()).unwrap();
        assert!(text.contains(from), "{text}");
        self.set(name, text.replace(from, to).as_bytes());
    }

    pub fn file(&self) -> Vec<u8> {
        let tensors = self.tensors.iter();
        let tensors =
            tensors.map(|(name, tensor)| (&name[..], &tensor.dtype[..], &tensor.shape, &tensor.bytes));
        gguf_testkit::safetensors_with(self.metadata.as_ref(), tensors)
    }

    pub fn folder(&self) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.json"), self.config.to_string()).unwrap();
        fs::write(folder.path().join("model.safetensors"), self.file()).unwrap();
        folder
    }

    pub fn open(&self) -> Result<Checkpoint, Error> {
        crate::open(self.folder().path())
    }
}

/// Reads all values; returns the first error.
pub fn read_all(checkpoint: &Checkpoint) -> Result<(), String> {
    for tensor in &checkpoint.tensors {
        let mut values = vec![0.0; (tensor.n_rows() * tensor.row_elems()) as usize];
        let read = checkpoint.read_rows(tensor, tensor.row_elems(), 0..tensor.n_rows(), &mut values);
        read.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Checks the error of opening a modified golden.
#[track_caller]
pub fn refused(name: &str, edit: impl FnOnce(&mut Edited), expected: &str) {
    let mut edited = Edited::of(name);
    edit(&mut edited);
    let error: Error = edited.open().expect_err("the checkpoint is wrong");
    assert_eq!(error.to_string(), expected);
}

/// Checks the error of reading a modified golden.
#[track_caller]
pub fn no_value(name: &str, edit: impl FnOnce(&mut Edited), expected: &str) {
    let mut edited = Edited::of(name);
    edit(&mut edited);
    let folder = edited.folder();
    let checkpoint = crate::open(folder.path()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(read_all(&checkpoint).expect_err("a value is wrong"), expected);
}
