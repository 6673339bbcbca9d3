//! Headers of GGUF files on the web, and files without weights. Weights are not downloaded.

use std::{fs, io::Write as _, path::PathBuf};

use gguf_checkpoint::hub::without_secrets;
use gguf_container::{Header, Plan};

use crate::{error::Error, events::Events, hub::HubOptions};

/// The header of a file on the web.
pub struct RemoteHeader {
    /// The header.
    pub header: Header,
    #[cfg(feature = "remote")]
    name: String,
    #[cfg(feature = "remote")]
    bytes: Vec<u8>,
    /// Length of the file, if the server states it.
    #[cfg(feature = "remote")]
    n_bytes: Option<u64>,
}

/// The headers of a model by the address of its file, or of any of its shards; in the order of the shards.
///
/// # Errors
/// An address that cannot be read, shards that do not belong together; an interruption.
#[cfg(feature = "remote")]
pub fn headers(
    address: &str,
    hub_options: &HubOptions,
    events: &dyn Events,
) -> Result<Vec<RemoteHeader>, Error> {
    use gguf_container::{SPLIT_COUNT_KEY, Value, parse_shard_file_name, shard_file_name};

    // A signed URL has a query after its path.
    let (path, query) = address.split_once('?').map_or((address, None), |(path, query)| (path, Some(query)));
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let shown = without_secrets(address);
    let count_in = |header: &Header| header.get(SPLIT_COUNT_KEY).and_then(Value::as_u64);
    let Some((prefix, no, count)) = parse_shard_file_name(name).filter(|(.., count)| *count > 1) else {
        let fetched = fetch(address, name, hub_options, events)?;
        if let Some(n_shards) = count_in(&fetched.header).filter(|count| *count > 1) {
            let message = format!("{shown}: shard of {n_shards} without a shard number in its name");
            return Err(Error::new(message));
        }
        return Ok(vec![fetched]);
    };
    if query.is_some() {
        let message = format!("{shown}: shard {no} of {count} needs a separate URL");
        return Err(Error::new(message).hint(["use a URL without `?`, or local files"]));
    }
    let mut found = Vec::new();
    for shard in 1..=count {
        let name = shard_file_name(prefix, shard, count);
        let fetched = fetch(&format!("{folder}/{name}"), &name, hub_options, events)?;
        let stated = count_in(&fetched.header);
        if stated != Some(u64::from(count)) {
            let found = stated.map_or("nothing".to_owned(), |stated| stated.to_string());
            let message =
                format!("{shown}: expected `{SPLIT_COUNT_KEY}` {count} in shard {shard}, found {found}");
            return Err(Error::new(message));
        }
        found.push(fetched);
    }
    Ok(found)
}

#[cfg(not(feature = "remote"))]
pub fn headers(address: &str, _: &HubOptions, _: &dyn Events) -> Result<Vec<RemoteHeader>, Error> {
    Err(Error::new(format!("{}: built without the feature `remote`", without_secrets(address))))
}

/// Size of the first request, which covers small headers.
#[cfg(feature = "remote")]
const FIRST_BYTES: u64 = 256 << 10;
/// Limit of a header in bytes; with a vocabulary of 260,000 tokens it has 12 MB.
#[cfg(feature = "remote")]
const MAX_HEADER_BYTES: u64 = 256 << 20;

/// The header of a file on the web: ranges, each as long as all before it, until it is whole.
#[cfg(feature = "remote")]
fn fetch(
    address: &str,
    name: &str,
    hub_options: &HubOptions,
    events: &dyn Events,
) -> Result<RemoteHeader, Error> {
    use gguf_checkpoint::hub::RemoteHead;

    use crate::text::human_bytes;

    let settings = hub_options.settings();
    let shown = without_secrets(address);
    if settings.offline {
        return Err(Error::new(format!("{shown}: HF_HUB_OFFLINE is set")));
    }
    let mut head = RemoteHead::new(&settings, address, events.cancel()).map_err(Error::new)?;
    let mut wanted = FIRST_BYTES;
    loop {
        let has_more = head.fetch(wanted).map_err(Error::new)?;
        let is_cut = |error: &gguf_container::Error| {
            matches!(
                error,
                gguf_container::Error::Truncated { .. } | gguf_container::Error::CountTooLarge { .. }
            )
        };
        match Header::parse(head.bytes()) {
            Ok(header) => {
                let n_bytes = head.bytes().len() as u64;
                let of = head.n_bytes().map_or(String::new(), |whole| format!(" of {}", human_bytes(whole)));
                events.note(format!("{shown}: read {}{of}", human_bytes(n_bytes)));
                let (name, bytes) = (name.to_owned(), head.bytes().to_vec());
                return Ok(RemoteHeader { header, name, bytes, n_bytes: head.n_bytes() });
            }
            Err(error) if has_more && is_cut(&error) && wanted < MAX_HEADER_BYTES => wanted *= 2,
            Err(error) => return Err(Error::at(std::path::Path::new(&shown), error)),
        }
    }
}

/// Files that have the headers of a model, and holes for its weights, which take no space.
#[derive(Debug)]
pub struct HollowFiles {
    folder: tempfile::TempDir,
    first: String,
}

impl HollowFiles {
    fn new(hub_options: &HubOptions) -> Result<HollowFiles, Error> {
        let folder = match &hub_options.temporary {
            Some(place) => tempfile::tempdir_in(place),
            None => tempfile::tempdir(),
        };
        let folder =
            folder.map_err(|error| Error::new(format_args!("cannot make a temporary folder: {error}")))?;
        Ok(HollowFiles { folder, first: String::new() })
    }

    /// Adds a file of `n_bytes` that begins with `header`.
    fn write(&mut self, name: &str, header: &[u8], n_bytes: u64) -> Result<(), Error> {
        let path = self.folder.path().join(name);
        let written = fs::File::create_new(&path).and_then(|mut file| {
            file.write_all(header)?;
            file.set_len(n_bytes.max(header.len() as u64))
        });
        written.map_err(|error| Error::at(&path, format_args!("cannot write: {error}")))?;
        if self.first.is_empty() {
            self.first = name.to_owned();
        }
        Ok(())
    }

    /// Writes the header of a planned file to a temporary folder, which exists as long as the value.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn of_plan(plan: &Plan, hub_options: &HubOptions) -> Result<HollowFiles, Error> {
        let mut files = HollowFiles::new(hub_options)?;
        files.write("model.gguf", plan.header_bytes(), plan.file_len())?;
        Ok(files)
    }

    /// Like [`HollowFiles::of_plan`], with the headers of the model at an address.
    ///
    /// # Errors
    /// As [`headers`]; a file that cannot be written.
    #[cfg(feature = "remote")]
    pub fn fetch(address: &str, hub_options: &HubOptions, events: &dyn Events) -> Result<HollowFiles, Error> {
        let found = headers(address, hub_options, events)?;
        let mut files = HollowFiles::new(hub_options)?;
        for RemoteHeader { header, name, bytes, n_bytes } in found {
            let of_tensors =
                header.tensors().iter().map(|tensor| tensor.offset.saturating_add(tensor.n_bytes));
            let needed = header.data_offset().saturating_add(of_tensors.max().unwrap_or(0));
            // The names of addresses may mean something else to a file system.
            let is_plain = !name.starts_with('.')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.%+".contains(c));
            let name = if is_plain { name } else { "model.gguf".to_owned() };
            files.write(&name, &bytes, n_bytes.unwrap_or(needed))?;
        }
        Ok(files)
    }

    /// Fails: this build reads nothing over the network.
    #[cfg(not(feature = "remote"))]
    pub fn fetch(address: &str, hub_options: &HubOptions, events: &dyn Events) -> Result<HollowFiles, Error> {
        headers(address, hub_options, events)?;
        HollowFiles::new(hub_options)
    }

    /// Path of the file, or of the first shard.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join(&self.first)
    }
}
