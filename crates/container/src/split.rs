//! Models split over several files.
//!
//! Sources: `llama_split_path` and `llama_split_prefix` in `src/llama.cpp`, the loading of further
//! files in `src/llama-model-loader.cpp`, `tools/gguf-split` (llama-cpp-python 0.3.36).

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
};

use crate::{Error, File, Metadata, TensorInfo, Value};

/// Key of a shard's own number, from 0 (u16).
pub const SPLIT_NO_KEY: &str = "split.no";
/// Key of the number of shards (u16).
pub const SPLIT_COUNT_KEY: &str = "split.count";
/// Key of the total number of tensors in all shards (i32).
pub const SPLIT_TENSORS_KEY: &str = "split.tensors.count";

/// `PREFIX-00001-of-00003.gguf`: the file name of shard `no` (from 1) of `count`.
pub fn shard_file_name(prefix: &str, no: u32, count: u32) -> String {
    format!("{prefix}-{no:05}-of-{count:05}.gguf")
}

/// Prefix, number (from 1) and count of a shard's file name; `None` for other names. Numbers have at least 5
/// digits.
pub fn parse_shard_file_name(file_name: &str) -> Option<(&str, u32, u32)> {
    let rest = file_name.strip_suffix(".gguf")?;
    let (rest, count) = rest.rsplit_once("-of-")?;
    let (prefix, no) = rest.rsplit_once('-')?;
    let (no, count): (u32, u32) = (no.parse().ok()?, count.parse().ok()?);
    let is_shard = no >= 1 && no <= count && shard_file_name(prefix, no, count) == file_name;
    is_shard.then_some((prefix, no, count))
}

/// A model in one file or in several, read as one.
#[derive(Debug, Clone)]
pub struct Model {
    shards: Vec<(PathBuf, File)>,
    by_name: HashMap<String, (usize, usize)>,
}

impl Model {
    /// Opens the model of the file at `path`. Any shard of a split model is accepted (the reference requires
    /// the first).
    ///
    /// # Errors
    /// [`Error::Shard`] for an error in one of several files; [`Error::ShardMissing`], [`Error::ShardName`],
    /// [`Error::ShardKey`], [`Error::ShardTensors`] and [`Error::DuplicateTensor`] for inconsistent shards;
    /// those of [`File::open`] for a single file.
    pub fn open(path: &Path) -> Result<Model, Error> {
        let file = File::open(path)?;
        let count = match file.get(SPLIT_COUNT_KEY) {
            None => 1,
            Some(_) => split_number(&file, SPLIT_COUNT_KEY, path)?,
        };
        if count <= 1 {
            return Model::new(vec![(path.to_owned(), file)]);
        }

        let no = split_number(&file, SPLIT_NO_KEY, path)?;
        let own = (no.saturating_add(1).min(u32::MAX.into()) as u32, count.min(u32::MAX.into()) as u32);
        let name = path.file_name().and_then(|name| name.to_str()).and_then(parse_shard_file_name);
        let (prefix, own_no, count) = match name {
            Some((prefix, no, count)) if (no, count) == own => (prefix, no, count),
            _ => return Err(Error::ShardName { path: path.to_owned(), no: own.0, count: own.1 }),
        };
        let stated = split_number(&file, SPLIT_TENSORS_KEY, path)?;

        let mut shards = Vec::new();
        for no in 1..=count {
            let path = path.with_file_name(shard_file_name(prefix, no, count));
            let file = if no == own_no { file.clone() } else { open_shard(&path, no, count)? };
            check_number(&file, SPLIT_NO_KEY, &path, (no - 1).into())?;
            check_number(&file, SPLIT_COUNT_KEY, &path, count.into())?;
            shards.push((path, file));
        }
        let model = Model::new(shards)?;
        let found = model.by_name.len() as u64;
        if stated != found {
            return Err(Error::ShardTensors { expected: stated, found });
        }
        Ok(model)
    }

    fn new(shards: Vec<(PathBuf, File)>) -> Result<Model, Error> {
        let mut by_name = HashMap::new();
        for (s, (_, file)) in shards.iter().enumerate() {
            for (t, tensor) in file.tensors().iter().enumerate() {
                if by_name.insert(tensor.name.clone(), (s, t)).is_some() {
                    return Err(Error::DuplicateTensor { name: tensor.name.clone() });
                }
            }
        }
        Ok(Model { shards, by_name })
    }

    /// Files with their paths, in order; one for a model that is not split.
    pub fn shards(&self) -> &[(PathBuf, File)] {
        &self.shards
    }

    /// The first file, which contains the metadata.
    pub fn first(&self) -> &File {
        &self.shards[0].1
    }

    /// Metadata of the first file, including the `split.*` keys of a split model.
    pub fn metadata(&self) -> &Metadata {
        self.first().metadata()
    }

    /// The value of a metadata key of the first file.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.first().get(key)
    }

    /// Every tensor with its file, in order.
    pub fn tensors(&self) -> impl Iterator<Item = (&File, &TensorInfo)> {
        self.shards.iter().flat_map(|(_, file)| file.tensors().iter().map(move |tensor| (file, tensor)))
    }

    /// Bytes of all tensors.
    pub fn tensor_bytes(&self) -> u64 {
        self.tensors().map(|(_, tensor)| tensor.n_bytes).fold(0, u64::saturating_add)
    }

    /// Bits per weight, scales included.
    pub fn bits_per_weight(&self) -> f64 {
        let n_elems = self.tensors().map(|(_, tensor)| tensor.shape.n_elems()).fold(0, u64::saturating_add);
        gguf_types::bits_per_weight(n_elems, self.tensor_bytes())
    }

    /// Bytes of all files.
    pub fn file_bytes(&self) -> u64 {
        self.shards.iter().map(|(_, file)| file.bytes().len() as u64).sum()
    }

    /// The tensor with this name, and its file.
    pub fn tensor(&self, name: &str) -> Option<(&File, &TensorInfo)> {
        let &(s, t) = self.by_name.get(name)?;
        let file = &self.shards[s].1;
        Some((file, &file.tensors()[t]))
    }
}

fn open_shard(path: &Path, no: u32, count: u32) -> Result<File, Error> {
    match File::open(path) {
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Err(Error::ShardMissing { path: path.to_owned(), no, count })
        }
        Err(source) => Err(Error::Shard { path: path.to_owned(), source: Box::new(source) }),
        Ok(file) => Ok(file),
    }
}

fn found(file: &File, key: &str) -> String {
    file.get(key).map_or_else(|| "missing".to_owned(), |value| format!("`{value}`"))
}

fn split_number(file: &File, key: &'static str, path: &Path) -> Result<u64, Error> {
    file.get(key).and_then(Value::as_u64).ok_or_else(|| Error::ShardCount {
        path: path.to_owned(),
        key,
        found: found(file, key),
    })
}

fn check_number(file: &File, key: &'static str, path: &Path, expected: u64) -> Result<(), Error> {
    if file.get(key).and_then(Value::as_u64) == Some(expected) {
        return Ok(());
    }
    Err(Error::ShardKey { path: path.to_owned(), key, expected, found: found(file, key) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shard_file_names_are_parsed() {
        assert_eq!(shard_file_name("a-b", 3, 9), "a-b-00003-of-00009.gguf");
        assert_eq!(parse_shard_file_name("a-b-00003-of-00009.gguf"), Some(("a-b", 3, 9)));
        assert_eq!(parse_shard_file_name("-00001-of-00001.gguf"), Some(("", 1, 1)));
        assert_eq!(parse_shard_file_name("x-100000-of-100001.gguf"), Some(("x", 100_000, 100_001)));
        for bad in [
            "a.gguf",
            "a-00003-of-00009",
            "a-3-of-9.gguf",
            "a-00000-of-00009.gguf",
            "a-00010-of-00009.gguf",
            "a-+0001-of-00009.gguf",
            "a-000001-of-00009.gguf",
            "a-99999999999-of-99999999999.gguf",
            "00001-of-00002.gguf",
        ] {
            assert_eq!(parse_shard_file_name(bad), None, "{bad}");
        }
    }
}
