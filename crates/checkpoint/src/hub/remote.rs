//! A model of the Hub as a folder: small files are copied, weights are fetched while they are read.

use std::{
    collections::BTreeMap,
    fs, io,
    io::{Read, Write},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use sha2::Digest;
use tempfile::{NamedTempFile, TempDir, TempPath};

use super::{
    HubError, Repo, Settings,
    fetch::{FetchedFile, Fetcher},
    http::Client,
    listing::{Checksum, Entry, Tree, tree_of},
    repo::is_commit,
    transfer::RemoteFile,
};
use crate::{
    FamilyForm, Folder, MAX_FILE_BYTES, ReadError, dense,
    part::Fetched,
    small_files::{SOUND_FOLDERS, TEMPLATES, is_small_file},
};

/// Maximum size of a JSON file that is not requested by name, in bytes.
const MAX_OTHER_JSON_BYTES: u64 = 16 << 20;
/// Maximum size of all small files of a model, in bytes.
const MAX_SMALL_BYTES: u64 = 256 << 20;
/// Number of concurrent requests for small files.
const N_REQUESTS: usize = 4;

/// Options for reading a model over the network.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RemoteOptions {
    /// Folder for small files of this process.
    pub temporary: PathBuf,
    /// Folder for fetched weights; those that can only be read as complete files stay while the model is
    /// open.
    pub storage: PathBuf,
    /// True to fetch weights that can only be read as complete files, such as pickles.
    pub whole_weights: bool,
    /// True to store everything fetched in the cache at the end, see [`Remote::keep`].
    pub keep: bool,
    /// Facts about families, with files that mark models.
    pub forms: &'static [FamilyForm],
    /// Set from anywhere to stop.
    pub cancel: Arc<AtomicBool>,
}

impl RemoteOptions {
    /// Options that keep no files; fetched weights are in `storage`, small files in `temporary`.
    pub fn new(temporary: impl Into<PathBuf>, storage: impl Into<PathBuf>) -> RemoteOptions {
        let (temporary, storage, cancel) = (temporary.into(), storage.into(), Arc::default());
        RemoteOptions { temporary, storage, whole_weights: true, keep: false, forms: &[], cancel }
    }

    /// Sets facts about families, like [`Folder::forms`].
    pub fn forms(self, forms: &'static [FamilyForm]) -> RemoteOptions {
        RemoteOptions { forms, ..self }
    }

    /// Sets whether to fetch weights that can only be read as complete files.
    pub fn whole_weights(self, whole_weights: bool) -> RemoteOptions {
        RemoteOptions { whole_weights, ..self }
    }

    /// Sets whether to keep everything fetched.
    pub fn keep(self, keep: bool) -> RemoteOptions {
        RemoteOptions { keep, ..self }
    }

    /// Sets the flag that stops it.
    pub fn cancel(self, cancel: Arc<AtomicBool>) -> RemoteOptions {
        RemoteOptions { cancel, ..self }
    }
}

/// Weights files that are read by ranges.
#[derive(Debug, Clone, Default)]
pub struct Downloads {
    files: Vec<Arc<FetchedFile>>,
    /// Set after the first successful check.
    verified: Arc<OnceLock<()>>,
}

impl Downloads {
    /// Fetches the missing bytes of each file and compares its checksum; for files that are kept.
    ///
    /// # Errors
    /// [`HubError`].
    pub fn verify(&self) -> Result<(), HubError> {
        if self.verified.get().is_some() {
            return Ok(());
        }
        for file in &self.files {
            let entry = file.remote().entry();
            file.complete().map_err(|error| match error {
                ReadError::Interrupted => HubError::Interrupted,
                error => HubError::Answer { address: entry.path.clone(), problem: error.to_string() },
            })?;
            let path = file.path();
            let mut bytes = fs::File::open(path).map_err(io_error(path))?;
            check(entry, checksum_of(&entry.checksum, entry.n_bytes, &mut bytes).map_err(io_error(path))?)?;
        }
        self.verified.get_or_init(|| ());
        Ok(())
    }
}

/// A model that is read over the network.
#[derive(Debug)]
pub struct Remote {
    folder: Folder,
    commit: String,
    downloads: Downloads,
    /// Temporary files of weights to be kept.
    incomplete: Vec<TempPath>,
    /// Complete files, each with a verified checksum or from the cache.
    whole: Vec<Entry>,
    cache: CacheFolder,
    revision: String,
}

#[derive(Debug, Clone)]
struct CacheFolder(PathBuf);

impl CacheFolder {
    fn blobs(&self) -> PathBuf {
        self.0.join("blobs")
    }

    fn blob(&self, entry: &Entry) -> PathBuf {
        self.blobs().join(entry.checksum.digits())
    }

    fn has(&self, entry: &Entry) -> bool {
        fs::metadata(self.blob(entry))
            .is_ok_and(|metadata| metadata.is_file() && metadata.len() == entry.n_bytes)
    }
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> HubError + use<> {
    let path = path.to_owned();
    move |error| HubError::Io { path: path.clone(), error }
}

impl Remote {
    /// Lists a model on the Hub and fetches its small files. Weights in safetensors are fetched while they
    /// are read.
    ///
    /// # Errors
    /// [`HubError`].
    pub fn open(settings: &Settings, repo: &Repo, options: &RemoteOptions) -> Result<Remote, HubError> {
        let client = Arc::new(Client::new(settings, Arc::clone(&options.cancel))?);
        let Tree { commit, files } = tree_of(&client, repo)?;
        let cache = CacheFolder(settings.cache.join(repo.cache_folder()));
        let by_ranges: Vec<Entry> =
            files.iter().filter(|entry| is_read_by_ranges(&entry.path)).cloned().collect();
        // If there are safetensors, other copies of the weights are ignored.
        let takes_whole = options.whole_weights && by_ranges.is_empty();
        let has = |file: &&str| files.iter().any(|entry| entry.path == **file);
        let marked = options.forms.iter().flat_map(|form| form.marked);
        let marked = marked.filter(|marked| marked.files.iter().all(&has));
        let tokenizers: Vec<&str> =
            marked.filter_map(|marked| marked.folders).map(|folders| folders.tokenizer).collect();
        let is_tokenizer = |entry: &Entry| {
            entry.n_bytes <= MAX_FILE_BYTES
                && entry
                    .path
                    .split_once('/')
                    .is_some_and(|(folder, name)| tokenizers.contains(&folder) && is_small_file(name))
        };
        let is_whole = |entry: &&Entry| {
            is_small(entry)
                || marks(options.forms, entry)
                || is_tokenizer(entry)
                || (takes_whole && is_weights(&entry.path))
        };
        let whole: Vec<Entry> = files.iter().filter(is_whole).cloned().collect();
        let small_bytes = whole.iter().filter(|entry| !is_weights(&entry.path)).map(|entry| entry.n_bytes);
        let small_bytes = small_bytes.fold(0, u64::saturating_add);
        if small_bytes > MAX_SMALL_BYTES {
            let problem =
                format!("expected at most {MAX_SMALL_BYTES} bytes of small files, found {small_bytes}");
            return Err(HubError::Answer { address: repo.to_string(), problem });
        }
        let has_weights = whole.iter().any(|entry| is_weights(&entry.path));
        if options.keep {
            fs::create_dir_all(cache.blobs()).map_err(io_error(&cache.blobs()))?;
        }
        let parent = if has_weights { &options.storage } else { &options.temporary };
        let prefix = format!(".{}-hub-", std::process::id());
        let staging =
            tempfile::Builder::new().prefix(&prefix).tempdir_in(parent).map_err(io_error(parent))?;
        let place = Staging { client: &client, repo, commit: &commit, cache: &cache, folder: &staging };
        place.fetch_all(&whole, options.keep)?;

        let fetcher = Fetcher::new();
        let mut model = Remote {
            folder: Folder::at(staging.path()),
            commit: commit.clone(),
            downloads: Downloads::default(),
            incomplete: Vec::new(),
            whole,
            cache: cache.clone(),
            revision: repo.revision().to_owned(),
        };
        let mut fetched: BTreeMap<String, Arc<dyn Fetched>> = BTreeMap::new();
        for entry in by_ranges {
            if cfg!(unix) && cache.has(&entry) {
                place.link_blob(&entry)?;
                model.whole.push(entry);
                continue;
            }
            let (file, path) = if options.keep {
                let file = incomplete_in(&cache)?;
                let (file, path) = file.into_parts();
                let shown = path.to_path_buf();
                model.incomplete.push(path);
                (file, shown)
            } else {
                let storage = &options.storage;
                (tempfile::tempfile_in(storage).map_err(io_error(storage))?, storage.clone())
            };
            let name = entry.path.clone();
            let remote = RemoteFile::new(Arc::clone(&client), repo, &commit, entry)?;
            let file = Arc::new(FetchedFile::new(&fetcher, remote, file, path, !options.keep)?);
            model.downloads.files.push(Arc::clone(&file));
            fetched.insert(name, file);
        }
        model.folder = Folder::at(staging.path()).named(repo.name()).with_fetched(fetched, Arc::new(staging));
        Ok(model)
    }

    /// Folder to be opened.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Commit that is read.
    pub fn commit(&self) -> &str {
        &self.commit
    }

    /// Number and bytes of weights files that are read by ranges. Their checksums are not verified unless
    /// they are kept.
    pub fn by_ranges(&self) -> (usize, u64) {
        (self.downloads.files.len(), self.downloads.files.iter().map(|file| file.n_bytes()).sum())
    }

    /// Number and bytes of files that were fetched completely or found in the cache.
    pub fn whole(&self) -> (usize, u64) {
        (self.whole.len(), self.whole.iter().map(|entry| entry.n_bytes).sum())
    }

    /// Weights files, to be verified before the outputs get their names.
    pub fn downloads(&self) -> &Downloads {
        &self.downloads
    }

    /// Fetches the missing bytes of each weights file, verifies checksums and moves all files into the cache;
    /// for a model that was opened with `keep`.
    ///
    /// # Errors
    /// [`HubError`]; files already in the cache stay there.
    pub fn keep(self) -> Result<PathBuf, HubError> {
        let mut stored = self.whole;
        self.downloads.verify()?;
        for (file, incomplete) in self.downloads.files.iter().zip(self.incomplete) {
            let entry = file.remote().entry();
            persist(incomplete, &self.cache.blob(entry))?;
            stored.push(entry.clone());
        }
        let snapshot = self.cache.0.join("snapshots").join(&self.commit);
        for entry in &stored {
            let path = snapshot.join(&entry.path);
            let parent = path.parent().unwrap_or(&snapshot);
            fs::create_dir_all(parent).map_err(io_error(parent))?;
            // From snapshots/COMMIT/.., one level up for each folder.
            let up = "../".repeat(2 + entry.path.matches('/').count());
            let to = PathBuf::from(up).join("blobs").join(entry.checksum.digits());
            link(&to, &self.cache.blob(entry), &path).map_err(io_error(&path))?;
        }
        if !is_commit(&self.revision) {
            let path = self.cache.0.join("refs").join(&self.revision);
            let parent = path.parent().unwrap_or(&path);
            fs::create_dir_all(parent).map_err(io_error(parent))?;
            fs::write(&path, &self.commit).map_err(io_error(&path))?;
        }
        Ok(snapshot)
    }
}

/// A file of the cache that is being written.
fn incomplete_in(cache: &CacheFolder) -> Result<NamedTempFile, HubError> {
    let blobs = cache.blobs();
    tempfile::Builder::new().suffix(".incomplete").tempfile_in(&blobs).map_err(io_error(&blobs))
}

/// Renames a file in the cache and makes it readable for everybody who may read the folder.
fn persist(file: TempPath, to: &Path) -> Result<(), HubError> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).map_err(io_error(&file))?;
    }
    file.persist(to).map_err(|error| HubError::Io { path: to.to_owned(), error: error.error })
}

/// Links a name to a blob: symbolic if the system supports it, else a copy. An existing file stays.
fn link(to: &Path, blob: &Path, path: &Path) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    #[cfg(unix)]
    {
        let _ = blob;
        std::os::unix::fs::symlink(to, path)
    }
    #[cfg(not(unix))]
    {
        let _ = to;
        fs::copy(blob, path).map(drop)
    }
}

struct Staging<'a> {
    client: &'a Arc<Client>,
    repo: &'a Repo,
    commit: &'a str,
    cache: &'a CacheFolder,
    folder: &'a TempDir,
}

impl Staging<'_> {
    /// Fetches complete files, several at a time.
    fn fetch_all(&self, entries: &[Entry], keep: bool) -> Result<(), HubError> {
        let next = AtomicUsize::new(0);
        let failed = Mutex::new(None);
        let work = || {
            while let Some(entry) = entries.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(error) = self.fetch(entry, keep) {
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    next.store(entries.len(), Ordering::Relaxed);
                }
            }
        };
        gguf_container::run_in_threads(N_REQUESTS.min(entries.len()), work);
        failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    fn fetch(&self, entry: &Entry, keep: bool) -> Result<(), HubError> {
        if self.cache.has(entry) {
            return self.link_blob(entry);
        }
        if keep {
            let mut file = incomplete_in(self.cache)?;
            self.fetch_into(entry, file.as_file_mut())?;
            persist(file.into_temp_path(), &self.cache.blob(entry))?;
            return self.link_blob(entry);
        }
        let path = self.path_of(entry)?;
        let mut file = fs::File::create_new(&path).map_err(io_error(&path))?;
        self.fetch_into(entry, &mut file)
    }

    /// Fetches a complete file and compares its checksum.
    fn fetch_into(&self, entry: &Entry, file: &mut fs::File) -> Result<(), HubError> {
        let path = Path::new(&entry.path);
        let remote = RemoteFile::new(Arc::clone(self.client), self.repo, self.commit, entry.clone())?;
        let mut hash = Hash::new(&entry.checksum, entry.n_bytes);
        remote.read(0..entry.n_bytes, &mut |_, piece| {
            hash.update(piece);
            file.write_all(piece).map_err(io_error(path))
        })?;
        check(entry, hash.digits())
    }

    /// Path of a file; creates its folders.
    fn path_of(&self, entry: &Entry) -> Result<PathBuf, HubError> {
        let path = self.folder.path().join(&entry.path);
        let parent = path.parent().unwrap_or(self.folder.path());
        fs::create_dir_all(parent).map_err(io_error(parent))?;
        Ok(path)
    }

    fn link_blob(&self, entry: &Entry) -> Result<(), HubError> {
        let (path, blob) = (self.path_of(entry)?, self.cache.blob(entry));
        let absolute = std::path::absolute(&blob).map_err(io_error(&blob))?;
        link(&absolute, &blob, &path).map_err(io_error(&path))
    }
}

/// True if weights are read by ranges: formats with the header at the front.
fn is_read_by_ranges(path: &str) -> bool {
    !path.contains('/') && path.ends_with(".safetensors")
}

/// True for a weights file of any format.
fn is_weights(path: &str) -> bool {
    let endings = [".bin", ".pth", ".pt", ".ckpt"];
    !path.contains('/')
        && !is_small_file(path)
        && endings.iter().any(|ending| path.ends_with(ending))
        && ["pytorch_model", "consolidated", "adapter_model", "model", "qmodel"]
            .iter()
            .any(|start| path.starts_with(start))
}

/// True for a small file that marks a model.
fn marks(forms: &[FamilyForm], entry: &Entry) -> bool {
    let marked = forms.iter().flat_map(|form| form.marked.iter().chain(form.adapters));
    let mut files = marked.flat_map(|marked| marked.files);
    entry.n_bytes <= MAX_FILE_BYTES
        && !is_read_by_ranges(&entry.path)
        && files.any(|file| *file == entry.path)
}

/// True for a file with information about a model besides its weights.
fn is_small(entry: &Entry) -> bool {
    let is_other_json = |name: &str| name.ends_with(".json") && entry.n_bytes <= MAX_OTHER_JSON_BYTES;
    entry.n_bytes <= MAX_FILE_BYTES
        && match entry.path.split_once('/') {
            None => {
                let name = entry.path.as_str();
                is_small_file(name)
                    || is_other_json(name)
                    || ["config.json", "generation_config.json", "README.md"].contains(&name)
                    || name.ends_with(".index.json")
            }
            Some((TEMPLATES, name)) => name.ends_with(".jinja") && !name.contains('/'),
            // The pooling module of sentence-transformers, its dense modules, and audio tokenizers.
            Some((folder, name)) => {
                let is_sound = SOUND_FOLDERS.contains(&folder);
                name == "config.json" && (is_sound || folder.ends_with("Pooling"))
                    || name == dense::FILE && (is_sound || dense::FOLDERS.contains(&folder))
            }
        }
}

fn check(entry: &Entry, found: String) -> Result<(), HubError> {
    let expected = entry.checksum.digits().to_lowercase();
    if expected == found {
        return Ok(());
    }
    Err(HubError::Checksum { file: entry.path.clone(), expected, found })
}

enum Hash {
    Sha256(sha2::Sha256),
    Git(sha1::Sha1),
}

impl Hash {
    fn new(kind: &Checksum, n_bytes: u64) -> Hash {
        match kind {
            Checksum::Sha256(_) => Hash::Sha256(sha2::Sha256::new()),
            // git hashes the kind and the length before the bytes.
            Checksum::Git(_) => Hash::Git(sha1::Sha1::new_with_prefix(format!("blob {n_bytes}\0"))),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Hash::Sha256(hash) => hash.update(bytes),
            Hash::Git(hash) => hash.update(bytes),
        }
    }

    fn digits(self) -> String {
        match self {
            Hash::Sha256(hash) => gguf_types::hex(&hash.finalize()),
            Hash::Git(hash) => gguf_types::hex(&hash.finalize()),
        }
    }
}

fn checksum_of(kind: &Checksum, n_bytes: u64, from: &mut impl Read) -> io::Result<String> {
    let mut hash = Hash::new(kind, n_bytes);
    let mut piece = vec![0; 1 << 20];
    loop {
        match from.read(&mut piece)? {
            0 => return Ok(hash.digits()),
            n => hash.update(&piece[..n]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_sha256sum_and_git() {
        // `printf abc | sha256sum` and `printf abc | git hash-object --stdin`.
        let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let git = "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f";
        for kind in [Checksum::Sha256(sha256.to_owned()), Checksum::Git(git.to_owned())] {
            assert_eq!(checksum_of(&kind, 3, &mut &b"abc"[..]).unwrap(), kind.digits());
        }
    }

    #[test]
    fn needed_files_are_selected() {
        let entry = |path: &str, n_bytes| Entry {
            path: path.to_owned(),
            n_bytes,
            checksum: Checksum::Git(String::new()),
        };
        for (path, n_bytes, is) in [
            ("config.json", 10, true),
            ("tokenizer.model", 10, true),
            ("model.safetensors.index.json", 100 << 20, true),
            ("odd.json", 100 << 20, false),
            ("tokenizer.json", 1 << 40, false),
            ("1_Pooling/config.json", 10, true),
            ("onnx/config.json", 10, false),
            ("additional_chat_templates/rag.jinja", 10, true),
            ("model.safetensors", 10, false),
            ("training_args.bin", 10, false),
            ("logo.png", 10, false),
        ] {
            assert_eq!(is_small(&entry(path, n_bytes)), is, "{path}");
        }
        for (path, is) in [
            ("pytorch_model.bin", true),
            ("pytorch_model-00001-of-00002.bin", true),
            ("consolidated.00.pth", true),
            ("training_args.bin", false),
            ("original/consolidated.00.pth", false),
            ("mergeable_ranks.bin", false),
        ] {
            assert_eq!(is_weights(path), is, "{path}");
        }
        assert!(
            is_read_by_ranges("model-00001-of-00002.safetensors")
                && !is_read_by_ranges("x/model.safetensors")
        );
    }
}
