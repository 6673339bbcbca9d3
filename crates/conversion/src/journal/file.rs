//! The file of a journal: owner, contents, writing.

use std::{
    ffi::OsStr,
    fs,
    io::{Seek, SeekFrom, Write},
    ops::Range,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use gguf_container::{LockedFile, Output, Share, hidden_path, is_alive, this_process};
use serde_json::{Value, json};

use super::{
    done::{Done, Span, merged, n_bytes},
    fingerprint::{Fingerprint, file_name},
    lines,
};
use crate::{Error, unfinished::Unfinished};

/// Format version in the first line. Other versions are not read.
const VERSION: u64 = 1;

/// Contents of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Process id and host name of the last writer.
    pub owner: (u32, String),
    /// Start time of that process.
    pub began: Option<SystemTime>,
    /// Names of the files that it writes, without their folder.
    pub outputs: Vec<String>,
    /// Time of the last write.
    pub written: Option<SystemTime>,
    /// Fingerprint of the run; `None` if it ended before writing one.
    pub fingerprint: Option<Fingerprint>,
    /// Rows that are on disk.
    pub done: Vec<Done>,
    /// True if everything is on disk, so that files may already have their names.
    pub is_whole: bool,
    /// Bytes of the readable lines.
    n_bytes: u64,
}

impl Found {
    /// True if the run can be resumed.
    pub fn is_resumable(&self) -> bool {
        self.fingerprint.is_some() && (self.is_whole || !self.done.is_empty())
    }

    /// Differences between this run and `now`; empty if both write the same bytes, or if this run ended
    /// before it wrote a fingerprint.
    pub(crate) fn differences(&self, now: &Fingerprint) -> Vec<String> {
        self.fingerprint.iter().flat_map(|earlier| now.differences(earlier)).collect()
    }

    /// Changes of options that would make `now` equal to the earlier run.
    pub(crate) fn advice(&self, now: &Fingerprint) -> Option<String> {
        self.fingerprint.as_ref().and_then(|earlier| now.advice(earlier))
    }

    /// Bytes of the outputs that are done.
    pub fn done_bytes(&self) -> u64 {
        n_bytes(&self.done)
    }

    /// Reads the journal of another process at `path`, if it is readable. On Windows it is not while that
    /// process runs.
    fn read(path: &Path) -> Option<Found> {
        Found::parse(&fs::read(path).ok()?, fs::metadata(path).ok()?.modified().ok())
    }

    fn read_locked(locked: &LockedFile) -> Result<Option<Found>, Error> {
        let written = locked.file().metadata().ok().and_then(|metadata| metadata.modified().ok());
        Ok(Found::parse(&locked.read()?, written))
    }

    fn parse(bytes: &[u8], written: Option<SystemTime>) -> Option<Found> {
        let (lines, n_bytes) = lines::parse(bytes);
        // A journal of another version is ignored.
        let first = lines.first().filter(|line| line["journal"] == VERSION)?;
        let mut found = Found {
            owner: owner_of(first)?,
            began: None,
            outputs: Vec::new(),
            written,
            fingerprint: None,
            done: Vec::new(),
            is_whole: false,
            n_bytes,
        };
        for line in &lines {
            if let Some(owner) = owner_of(line) {
                let began = line["began"].as_u64().map(Duration::from_secs);
                (found.owner, found.began) = (owner, began.and_then(|since| UNIX_EPOCH.checked_add(since)));
                let names = line["outputs"].as_array().map(Vec::as_slice).unwrap_or_default();
                // Named files are removed, so names must not leave the folder.
                let is_plain = |name: &&str| Path::new(name).file_name() == Some(OsStr::new(name));
                found.outputs = names
                    .iter()
                    .filter_map(|name| name.as_str().filter(is_plain).map(str::to_owned))
                    .collect();
            }
            found.fingerprint = found.fingerprint.or_else(|| Fingerprint::from_json(&line["fingerprint"]));
            let done = line["done"].as_array().map(Vec::as_slice).unwrap_or_default();
            found.done.extend(done.iter().filter_map(Done::from_json));
            found.is_whole |= line["whole"] == true;
        }
        Some(found)
    }

    fn busy(&self, path: &Path) -> Error {
        let (process, host) = self.owner.clone();
        Error::Busy { path: path.to_owned(), process, host, began: self.began }
    }
}

fn owner_of(line: &Value) -> Option<(u32, String)> {
    let process = u32::try_from(line["pid"].as_u64()?).ok()?;
    Some((process, line["host"].as_str()?.to_owned()))
}

impl Found {
    /// The unfinished run of the journal at `path`.
    pub fn unfinished(&self, path: &Path) -> Unfinished {
        let temporary = self.outputs.iter().map(|name| Output::temporary_path_of(&path.with_file_name(name)));
        Unfinished {
            files: [path.to_owned()].into_iter().chain(temporary).filter(|path| path.exists()).collect(),
            outputs: self.outputs.clone(),
            done_bytes: self.done_bytes(),
            total_bytes: self.fingerprint.as_ref().map_or(0, Fingerprint::output_bytes),
            age: self.written.and_then(|written| written.elapsed().ok()),
        }
    }
}

/// The interrupted run to these outputs that can be resumed.
pub fn unfinished(paths: &[PathBuf]) -> Option<Unfinished> {
    let path = Journal::path_of(paths.first()?);
    let found = Found::read(&path).filter(Found::is_resumable)?;
    Some(found.unfinished(&path))
}

/// The journal of an active run.
pub struct Journal<'a> {
    locked: LockedFile,
    /// Computes the fingerprint. Called once, before the first record.
    fingerprint: &'a (dyn Fn() -> Fingerprint + Sync),
    state: Mutex<State>,
    /// Held while a line is written.
    lines: Mutex<()>,
    /// True if all spans get checksums.
    is_for_others: bool,
}

#[derive(Default)]
struct State {
    /// Rows in all outputs that are not recorded yet.
    pending: Vec<Done>,
    is_described: bool,
}

impl std::fmt::Debug for Journal<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("path", &self.locked.path()).finish_non_exhaustive()
    }
}

impl<'a> Journal<'a> {
    /// The path of the journal of a run whose first output is `first`.
    pub fn path_of(first: &Path) -> PathBuf {
        hidden_path(first, "journal")
    }

    /// Opens and locks the journal at `path` and returns its contents. Writes nothing yet.
    ///
    /// # Errors
    /// [`Error::Busy`] if another process has it open, [`Error::Gguf`].
    pub fn open(
        path: &Path,
        fingerprint: &'a (dyn Fn() -> Fingerprint + Sync),
    ) -> Result<(Journal<'a>, Option<Found>), Error> {
        let (locked, found) = Journal::lock(path)?;
        let (state, lines) = (Mutex::default(), Mutex::default());
        Ok((Journal { locked, fingerprint, state, lines, is_for_others: false }, found))
    }

    /// Contents of the journal at `path`, if it exists and no process has it open.
    pub fn inspect(path: &Path) -> Result<Option<Found>, Error> {
        if path.exists() { Journal::lock(path).map(|(_, found)| found) } else { Ok(None) }
    }

    fn lock(path: &Path) -> Result<(LockedFile, Option<Found>), Error> {
        let locked = match LockedFile::open(path, Share::Alone) {
            Err(gguf_container::Error::Busy { .. }) => {
                return Err(match Found::read(path) {
                    Some(found) => found.busy(path),
                    None => Error::Gguf(gguf_container::Error::Busy { path: path.to_owned() }),
                });
            }
            locked => locked?,
        };
        let found = Found::read_locked(&locked)?;
        // Without locks, only the owner's process id can be checked, and only on its own machine.
        if !locked.is_sure()
            && let Some(found) = &found
        {
            let (own, host) = this_process();
            let (process, on) = &found.owner;
            if *on != host || (*process != own && is_alive(*process)) {
                return Err(found.busy(path));
            }
        }
        Ok((locked, found))
    }

    /// Gives every range a checksum, so that readers do not have to recompute any.
    pub fn for_others(self) -> Journal<'a> {
        Journal { is_for_others: true, ..self }
    }

    /// Span of a job's bytes, which may be cheap to recompute.
    pub(crate) fn span(&self, bytes: &[u8], is_cheap: bool) -> Span {
        if is_cheap && !self.is_for_others {
            Span { checksum: None, n_bytes: bytes.len() as u64 }
        } else {
            Span::of(bytes)
        }
    }

    /// Fails if another journal is about one of `paths`, the outputs of a run whose own journal is not
    /// considered.
    ///
    /// # Errors
    /// [`Error::Busy`] if its run is active, [`Error::Unfinished`] if it was interrupted.
    pub fn check_others(paths: &[PathBuf]) -> Result<(), Error> {
        let Some(first) = paths.first() else { return Ok(()) };
        let own = Journal::path_of(first);
        let names: Vec<String> = paths.iter().map(|path| file_name(path)).collect();
        let folder = own.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let (name, path) = (entry.file_name(), entry.path());
            let name = name.to_string_lossy();
            let is_journal = name.starts_with('.') && name.ends_with(".journal");
            if !is_journal || own.file_name().is_some_and(|own| own.to_string_lossy() == name) {
                continue;
            }
            let Some(found) = Found::read(&path) else {
                // A journal that another process has locked cannot be read on Windows, so its name decides.
                if paths.iter().any(|path| is_named_after(&name, path)) && is_busy(&path) {
                    return Err(Error::Gguf(gguf_container::Error::Busy { path }));
                }
                continue;
            };
            let Some(output) = found.outputs.iter().find(|output| names.contains(output)) else { continue };
            let output = path.with_file_name(output);
            match LockedFile::open(&path, Share::Many) {
                Err(gguf_container::Error::Busy { .. }) => return Err(found.busy(&output)),
                Ok(_) if found.is_resumable() => {
                    let run = Box::new(found.unfinished(&path));
                    return Err(Error::Unfinished { path: output, run });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Starts an empty journal for a run that writes `outputs`. The fingerprint is written before the first
    /// rows.
    ///
    /// # Errors
    /// [`Error::Gguf`].
    pub fn begin(&self, outputs: &[PathBuf]) -> Result<(), Error> {
        self.locked.file().set_len(0).map_err(|source| self.error("empty", source))?;
        self.append(&owner_line(outputs))
    }

    /// Continues a journal, in a run that writes the same `outputs`.
    ///
    /// # Errors
    /// [`Error::Gguf`].
    pub fn resume(&self, found: &Found, outputs: &[PathBuf]) -> Result<(), Error> {
        // An incomplete line would hide all later lines.
        self.locked.file().set_len(found.n_bytes).map_err(|source| self.error("cut", source))?;
        self.state().is_described = found.fingerprint.is_some();
        self.append(&owner_line(outputs))
    }

    /// Adds rows that are in all outputs, though maybe not on disk.
    pub(crate) fn wrote(&self, task: usize, rows: Range<u64>, spans: Vec<Span>) {
        self.state().pending.push(Done::from_job(task, rows, spans));
    }

    /// Records rows written so far, after `sync` has flushed them to disk, and syncs the journal. Without
    /// `sync` the system flushes both at some point, which is sufficient unless it crashes.
    ///
    /// # Errors
    /// [`Error::Gguf`]. The system reports a failed sync only once.
    pub fn checkpoint(&self, sync: Option<&dyn Fn() -> Result<(), Error>>) -> Result<(), Error> {
        // Taken before the sync: rows written meanwhile belong to the next one.
        let pending = std::mem::take(&mut self.state().pending);
        if pending.is_empty() {
            return Ok(());
        }
        if let Some(sync) = sync {
            sync()?;
        }
        self.describe()?;
        let done: Vec<Value> = merged(pending).iter().map(Done::to_json).collect();
        self.append(&json!({ "done": done }))?;
        if sync.is_some() { self.sync() } else { Ok(()) }
    }

    /// Writes the fingerprint, unless it was written already.
    fn describe(&self) -> Result<(), Error> {
        if !std::mem::replace(&mut self.state().is_described, true) {
            self.append(&json!({"fingerprint": (self.fingerprint)().to_json()}))?;
        }
        Ok(())
    }

    /// True if a later run could use the journal.
    pub(crate) fn is_resumable(&self) -> bool {
        self.state().is_described
    }

    /// Records that everything is on disk. From now on files may get their names.
    ///
    /// # Errors
    /// [`Error::Gguf`].
    pub fn whole(&self) -> Result<(), Error> {
        self.checkpoint(None)?;
        // A part without rows is complete too.
        self.describe()?;
        self.append(&json!({"whole": true}))?;
        self.sync()
    }

    /// Removes the file if it is empty.
    pub(crate) fn remove_empty(&self) {
        if self.locked.file().metadata().is_ok_and(|metadata| metadata.len() == 0) {
            let _ = fs::remove_file(self.locked.path());
        }
    }

    /// Removes the file.
    pub fn remove(self) {
        // While locked, so that no process opens a file that is being removed. If removing fails, the file
        // stays.
        let _ = fs::remove_file(self.locked.path());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sync(&self) -> Result<(), Error> {
        self.locked.file().sync_data().map_err(|source| self.error("sync", source))
    }

    fn append(&self, value: &Value) -> Result<(), Error> {
        let line = lines::line(value);
        let _guard = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let mut file = self.locked.file();
        // In one write, so that a line is complete or truncated.
        let written = file.seek(SeekFrom::End(0)).and_then(|_| file.write_all(line.as_bytes()));
        written.map_err(|source| self.error("write", source))
    }

    fn error(&self, action: &'static str, source: std::io::Error) -> Error {
        let path = self.locked.path().to_owned();
        Error::Gguf(gguf_container::Error::Io { action, path, offset: None, source })
    }
}

fn owner_line(outputs: &[PathBuf]) -> Value {
    let (process, host) = this_process();
    let began = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let outputs: Vec<String> = outputs.iter().map(|path| file_name(path)).collect();
    json!({"journal": VERSION, "pid": process, "host": host, "began": began, "outputs": outputs})
}

/// True if the journal's name is that of a run, or of a part of a run, that writes the output at `path`.
fn is_named_after(journal: &str, path: &Path) -> bool {
    let whole = Journal::path_of(path);
    let whole = whole.file_name().unwrap_or_default().to_string_lossy();
    let beginning = whole.strip_suffix("journal").unwrap_or(&whole);
    journal.strip_prefix(beginning).is_some_and(|rest| rest == "journal" || rest.starts_with("part-"))
}

/// True if a process has locked the file at `path`.
fn is_busy(path: &Path) -> bool {
    matches!(LockedFile::open(path, Share::Many), Err(gguf_container::Error::Busy { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_journal_blocks_its_output() {
        let folder = tempfile::tempdir().unwrap();
        let (own, other) = (folder.path().join("x.gguf"), folder.path().join("y.gguf"));
        let journal = folder.path().join(".x.gguf.part-1-of-2.journal");
        // Unreadable, like a locked file on Windows.
        fs::write(&journal, "?").unwrap();
        let held = LockedFile::open(&journal, Share::Alone).unwrap();
        let busy = Journal::check_others(std::slice::from_ref(&own));
        assert!(matches!(busy, Err(Error::Gguf(gguf_container::Error::Busy { .. }))), "{busy:?}");
        assert!(Journal::check_others(&[other]).is_ok());
        drop(held);
        assert!(Journal::check_others(&[own]).is_ok());
    }

    #[test]
    fn output_names_stay_in_their_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".x.journal");
        let names = ["x", "../y", "/y", "a/y", "y/", ".", "..", "", "z.gguf"];
        let first = json!({"journal": VERSION, "pid": 1, "host": "a", "began": u64::MAX, "outputs": names});
        let done = json!({"done": [[0, 0, 1, 1, [[1, u64::MAX], [null, 2]]]]});
        fs::write(&path, [lines::line(&first), lines::line(&done)].concat()).unwrap();
        let found = Found::read(&path).unwrap();
        assert_eq!(found.outputs, ["x", "z.gguf"]);
        assert_eq!((found.began, found.done_bytes()), (None, u64::MAX));
    }
}
