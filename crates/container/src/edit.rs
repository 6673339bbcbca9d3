//! Changes the metadata of a file: in place if the new header has the length of the old one, otherwise by a
//! new file with a copy of the data.
//!
//! Data starts after the header, at the next multiple of the alignment. So a header can only be changed in
//! place if its length, rounded up, stays the same. A file with *slack* has a key ([`SLACK_KEY`]) whose text
//! of spaces absorbs other changes; a chat template that fits is then set without touching the data.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    Endian, Error, File, Metadata, Output, TensorInfo, Value,
    output::{LockedFile, Share, hidden_path, is_at, read_exact_at, write_all_at},
    plan::check_metadata,
    write::Bytes,
};

/// Key whose text reserves room in a header.
pub const SLACK_KEY: &str = "gguf_tools.slack";

/// Treatment of reserved room in a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slack {
    /// Uses the room if it suffices; otherwise the room stays unchanged.
    Use,
    /// Reserves this many bytes; 0 removes the key.
    Set(u64),
}

/// A header that replaces that of a file.
#[derive(Debug, Clone)]
pub struct Edit {
    metadata: Metadata,
    /// The new header, including padding.
    header: Vec<u8>,
    /// Everything before the data, as stored now.
    old: Vec<u8>,
    old_len: u64,
}

/// A header without its padding.
fn header_of(metadata: &Metadata, tensors: &[TensorInfo], endian: Endian) -> Bytes {
    let mut header = Bytes::header(endian, tensors.len(), metadata);
    for tensor in tensors {
        // Tensors keep their offsets, including gaps.
        header.tensor_info(&tensor.name, tensor.shape, tensor.dtype, tensor.offset);
    }
    header
}

impl Edit {
    /// Plans a file with the tensors of `file` at their offsets and other metadata. It has version 3 and the
    /// byte order of the file.
    ///
    /// # Errors
    /// Those of [`Plan::new`](crate::Plan::new) for metadata; the alignment cannot be changed.
    pub fn new(file: &File, mut metadata: Metadata, slack: Slack) -> Result<Edit, Error> {
        check_metadata(&metadata, file.alignment(), &mut Vec::new())?;
        let (tensors, data_offset) = (file.tensors(), file.data_offset());
        let spaces = |n: u64| Value::String(vec![b' '; n as usize]);
        match slack {
            Slack::Set(0) => {
                metadata.remove(SLACK_KEY);
            }
            Slack::Set(n) => metadata.set(SLACK_KEY, spaces(n)),
            Slack::Use if metadata.contains(SLACK_KEY) => {
                let as_it_is = metadata.get(SLACK_KEY).cloned();
                metadata.set(SLACK_KEY, "");
                let least = header_of(&metadata, tensors, file.endian()).len() as u64;
                let text = match data_offset.checked_sub(least) {
                    // The header then ends at the start of the data.
                    Some(room) => spaces(room),
                    None => as_it_is.unwrap_or_else(|| spaces(0)),
                };
                metadata.set(SLACK_KEY, text);
            }
            Slack::Use => {}
        }
        let mut header = header_of(&metadata, tensors, file.endian());
        header.pad(file.alignment());
        let old = file.bytes().get(..data_offset as usize).unwrap_or(file.bytes()).to_vec();
        Ok(Edit { metadata, header: header.into_vec(), old, old_len: file.bytes().len() as u64 })
    }

    /// Metadata of the new file.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// True if the data can stay in place.
    pub fn is_in_place(&self) -> bool {
        self.header.len() == self.old.len()
    }

    /// True if the file stays the same.
    pub fn changes_nothing(&self) -> bool {
        self.header == self.old
    }

    /// Length of the new file in bytes.
    pub fn file_len(&self) -> u64 {
        self.header.len() as u64 + self.old_len.saturating_sub(self.old.len() as u64)
    }

    /// Changes the file at `path`, for which this was planned and which must no longer be mapped: in place if
    /// possible, otherwise by a new file. Simultaneous edits of one file exclude each other.
    ///
    /// # Errors
    /// [`Error::Busy`] during another edit; those of [`Edit::write_in_place`] and [`Edit::write_new`].
    pub fn replace(&self, path: &Path) -> Result<(), Error> {
        let lock =
            LockedFile::open(&hidden_path(path, "edit"), Share::Alone).map_err(|error| match error {
                Error::Busy { .. } => Error::Busy { path: path.to_owned() },
                error => error,
            })?;
        let written =
            if self.is_in_place() { self.write_in_place(path) } else { self.write_new(path, path, true) };
        // Removed while locked: the next owner checks that its lock file still has its name.
        let removed = fs::remove_file(lock.path()).map_err(|source| Error::io("remove", lock.path(), source));
        written.and(removed)
    }

    /// Overwrites the changed bytes of the header of the file at `path`, for which this was planned and which
    /// must no longer be mapped.
    ///
    /// The old header is in [`backup_path`] until the new one is on disk, so that it survives a power cut.
    ///
    /// # Errors
    /// [`Error::UnfinishedEdit`]; [`Error::Io`]; [`Error::Length`] if the new header does not fit;
    /// [`Error::Changed`] if the file is no longer the planned one.
    pub fn write_in_place(&self, path: &Path) -> Result<(), Error> {
        let io = |action| move |source| Error::io(action, path, source);
        let file = fs::File::options().read(true).write(true).open(path).map_err(io("open"))?;
        self.check_unchanged(&file, path)?;
        if !self.is_in_place() {
            let found = self.file_len();
            return Err(Error::Length { path: path.to_owned(), expected: self.old_len, found });
        }
        let Some(first) = self.header.iter().zip(&self.old).position(|(new, old)| new != old) else {
            return Ok(());
        };
        let backup = backup_path(path);
        if fs::symlink_metadata(&backup).is_ok() {
            return Err(Error::UnfinishedEdit { path: path.to_owned(), backup });
        }
        Output::write_whole(&backup, &self.old, false)?;
        // Equal bytes at the end are not written: a vocabulary after a changed name does not move.
        let n_same =
            self.header.iter().rev().zip(self.old.iter().rev()).take_while(|(new, old)| new == old).count();
        let changed = &self.header[first..self.header.len() - n_same];
        write_all_at(&file, changed, first as u64).map_err(|source| Error::Io {
            action: "write",
            path: path.to_owned(),
            offset: Some(first as u64),
            source,
        })?;
        file.sync_data().map_err(io("sync"))?;
        fs::remove_file(&backup).map_err(|source| Error::io("remove", &backup, source))
    }

    /// Writes a new file to `to`, with the data of the file at `from`, for which this was planned. `to` may
    /// be `from`: the old file stays until the new one is complete.
    ///
    /// # Errors
    /// Those of [`Output::create`], [`Output::copy_range`] and [`Output::finish`]; [`Error::Changed`] if the
    /// file at `from` is no longer the planned one.
    pub fn write_new(&self, from: &Path, to: &Path, force: bool) -> Result<(), Error> {
        let source = fs::File::open(from).map_err(|source| Error::io("open", from, source))?;
        let output = Output::create(to, self.file_len(), force)?;
        output.write_at(0, &self.header)?;
        let (old, new) = (self.old.len() as u64, self.header.len() as u64);
        output.copy_range(&source, old, self.file_len() - new, new)?;
        output.prepare()?;
        self.check_unchanged(&source, from)?;
        // Windows cannot replace an open file.
        drop(source);
        output.finish()
    }

    /// Checks that an open file is the one at `path` and has the length and header that this edit was planned
    /// for.
    fn check_unchanged(&self, file: &fs::File, path: &Path) -> Result<(), Error> {
        let changed = |change: &str| Error::Changed { path: path.to_owned(), change: change.to_owned() };
        let mut header = vec![0; self.old.len()];
        let n_bytes = file.metadata().map_err(|source| Error::io("inspect", path, source))?.len();
        if n_bytes != self.old_len || read_exact_at(file, &mut header, 0).is_err() || header != self.old {
            return Err(changed("its header was modified"));
        }
        // The path may be a link if the edit goes to another file.
        if !is_at(file, &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())) {
            return Err(changed("it was replaced"));
        }
        Ok(())
    }
}

/// Path of the old header while a file is edited in place.
pub fn backup_path(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".header-backup");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;

    #[test]
    fn second_of_two_edits_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.gguf");
        let mut metadata = Metadata::new();
        metadata.set("general.name", "abc");
        let plan = Plan::new(&metadata, Vec::new(), Endian::Little, 32).unwrap();
        fs::write(&path, plan.header_bytes()).unwrap();
        let edit = |name: &str| {
            let file = File::open(&path).unwrap();
            let mut metadata = file.metadata().clone();
            metadata.set("general.name", name);
            Edit::new(&file, metadata, Slack::Use).unwrap()
        };
        // In place and by a new file: both planned for one header.
        for name in ["xyz", &"long".repeat(40)] {
            let (first, second) = (edit(name), edit("def"));
            let busy = LockedFile::open(&hidden_path(&path, "edit"), Share::Alone).unwrap();
            assert!(matches!(first.replace(&path), Err(Error::Busy { path: named }) if named == path));
            drop(busy);
            first.replace(&path).unwrap();
            assert!(matches!(second.replace(&path), Err(Error::Changed { .. })), "{name}");
            let found = File::open(&path).unwrap();
            assert_eq!(found.metadata().get("general.name").and_then(Value::as_str), Some(name));
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no lock file is left");
    }
}
