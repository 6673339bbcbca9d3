//! Changes the metadata of a file: in place if the new header has the length of the old one, otherwise by a
//! new file with the same data.
//!
//! Data starts after the header, at the next multiple of the alignment. So a header can only be changed in
//! place if its length, rounded up, stays the same. A file with *slack* has a key ([`SLACK_KEY`]) whose text
//! of spaces absorbs other changes; a chat template that fits is then set without touching the data.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    Endian, Error, File, Metadata, Output, TensorInfo, Value, output::write_all_at, plan::check_metadata,
    write::Bytes,
};

/// The key whose text keeps room in a header.
pub const SLACK_KEY: &str = "gguf_tools.slack";

/// Treatment of the room in a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slack {
    /// Uses the reserved room if it suffices; otherwise the room stays unchanged.
    Use,
    /// The header has so many bytes of it; 0 takes the key out.
    Set(u64),
}

/// A header that is to take the place of that of a file.
#[derive(Debug, Clone)]
pub struct Edit {
    metadata: Metadata,
    /// The new header, padding included.
    header: Vec<u8>,
    /// Everything before the data, as it is now.
    old: Vec<u8>,
    old_len: u64,
}

/// A header without its padding.
fn header_of(metadata: &Metadata, tensors: &[TensorInfo], endian: Endian) -> Bytes {
    let mut header = Bytes::header(endian, tensors.len(), metadata);
    for tensor in tensors {
        // Tensors stay where they are in the data, whatever lies between them.
        header.tensor_info(&tensor.name, tensor.shape, tensor.dtype, tensor.offset);
    }
    header
}

impl Edit {
    /// Plans a file with the tensors of `file`, where they are, and other metadata. It is of version 3, in the byte order of the
    /// file.
    ///
    /// # Errors
    /// As [`Plan::new`](crate::Plan::new) for metadata; the alignment cannot be changed.
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
                    // The header then ends where the data begin.
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

    /// The metadata that the file will have.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// True if the data can stay in place.
    pub fn is_in_place(&self) -> bool {
        self.header.len() == self.old.len()
    }

    /// True if nothing changes.
    pub fn changes_nothing(&self) -> bool {
        self.header == self.old
    }

    /// The length of the new file in bytes.
    pub fn file_len(&self) -> u64 {
        self.header.len() as u64 + self.old_len.saturating_sub(self.old.len() as u64)
    }

    /// Writes the bytes of the header that change over those of the file at `path`, which must be the one that this was planned
    /// for, and must not be mapped any more.
    ///
    /// The old header is in [`backup_path`] until the new one has reached the disk, so that a power cut in between loses nothing.
    ///
    /// # Errors
    /// [`Error::UnfinishedEdit`]; [`Error::Io`]; [`Error::Length`] where the new header does not fit or the file has another length.
    pub fn write_in_place(&self, path: &Path) -> Result<(), Error> {
        let io = |action| move |source| Error::io(action, path, source);
        let file = fs::File::options().write(true).open(path).map_err(io("open"))?;
        let found = file.metadata().map_err(io("inspect"))?.len();
        if !self.is_in_place() || found != self.old_len {
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

    /// Writes a whole new file to `to`, with the data of the file at `from`, which is the one that this was planned for. `to` may be
    /// `from`: the old file is there until the new one is whole.
    ///
    /// # Errors
    /// As [`Output::create`], [`Output::copy_range`] and [`Output::finish`].
    pub fn write_new(&self, from: &Path, to: &Path, force: bool) -> Result<(), Error> {
        let source = fs::File::open(from).map_err(|source| Error::io("open", from, source))?;
        let output = Output::create(to, self.file_len(), force)?;
        output.write_at(0, &self.header)?;
        let (old, new) = (self.old.len() as u64, self.header.len() as u64);
        output.copy_range(&source, old, self.file_len() - new, new)?;
        // Windows cannot replace an open file.
        drop(source);
        output.finish()
    }
}

/// Path of the old header while a file is edited in place.
pub fn backup_path(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".header-backup");
    path.with_file_name(name)
}
