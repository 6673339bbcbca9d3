//! Named inputs that determine the bytes of a run, so that a later run can report changes.

use std::{
    fs,
    hash::Hasher,
    io::{self, Read},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use gguf_container::{Mapped, Plan};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use twox_hash::XxHash3_64;

use crate::job::{TensorTask, Weights};

/// A file that is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFile {
    /// Name, for messages and lookup.
    pub name: String,
    /// Length in bytes.
    #[serde(rename = "bytes")]
    pub n_bytes: u64,
    /// Modification time in nanoseconds since 1970, if known.
    pub modified: Option<u64>,
    /// Identity of content that is not on this machine: a commit.
    pub tag: Option<String>,
}

impl InputFile {
    /// Describes the file at `path`.
    pub fn of(path: &Path) -> io::Result<InputFile> {
        let metadata = fs::metadata(path)?;
        let modified = metadata.modified().ok().and_then(nanoseconds);
        Ok(InputFile { name: full_name(path), n_bytes: metadata.len(), modified, tag: None })
    }

    /// Describes the files of the folder at `path` and its readable subfolders, or the file itself. Hidden
    /// files are skipped.
    pub fn all_of(path: &Path) -> io::Result<Vec<InputFile>> {
        let mut files = Vec::new();
        if !fs::metadata(path)?.is_dir() {
            return Ok(vec![InputFile::of(path)?]);
        }
        let is_hidden =
            |path: &Path| path.file_name().is_none_or(|name| name.as_encoded_bytes().first() == Some(&b'.'));
        let entries = |path: &Path| -> io::Result<Vec<PathBuf>> {
            let mut paths =
                fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<PathBuf>>>()?;
            paths.retain(|path| !is_hidden(path));
            paths.sort();
            Ok(paths)
        };
        for entry in entries(path)? {
            // A dangling link is never read.
            let Ok(metadata) = fs::metadata(&entry) else { continue };
            let inside = if metadata.is_dir() { entries(&entry).unwrap_or_default() } else { vec![entry] };
            files.extend(
                inside.iter().filter(|file| file.is_file()).filter_map(|file| InputFile::of(file).ok()),
            );
        }
        Ok(files)
    }

    /// Description of the change to `now`; `None` if there is no change.
    fn change(&self, now: &InputFile) -> Option<String> {
        let name = &self.name;
        match () {
            () if self.tag != now.tag => {
                let tag = |tag: &Option<String>| tag.clone().unwrap_or_else(|| "a file".to_owned());
                Some(format!("`{name}` was {} and is now {}", tag(&self.tag), tag(&now.tag)))
            }
            () if self.n_bytes != now.n_bytes => {
                Some(format!("`{name}` had {} bytes and now has {}", self.n_bytes, now.n_bytes))
            }
            () if self.modified != now.modified => Some(format!("`{name}` was modified")),
            () => None,
        }
    }
}

/// XXH3 of a file, read in chunks.
pub fn file_checksum(path: &Path) -> io::Result<u64> {
    let (mut file, mut buffer, mut hasher) = (fs::File::open(path)?, vec![0; 1 << 18], XxHash3_64::new());
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finish()),
            n_bytes => hasher.write(&buffer[..n_bytes]),
        }
    }
}

fn full_name(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

/// Nanoseconds since 1970.
fn nanoseconds(time: SystemTime) -> Option<u64> {
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

/// Inputs of the fingerprint that only the caller knows.
pub struct Origin<'a> {
    /// The program and its build. Called when a run has something to record, because it may read the
    /// executable.
    pub program: &'a (dyn Fn() -> String + Sync),
    /// Options that change bytes, with their values, in any order.
    pub options: Vec<(String, String)>,
    /// Enabled options that only turn an error into a success. Rows that were finished without them remain
    /// valid.
    pub permissions: Vec<String>,
    /// Files that are read. Weights files that are missing here are added.
    pub inputs: Vec<InputFile>,
}

impl std::fmt::Debug for Origin<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Origin { options, inputs, .. } = self;
        f.debug_struct("Origin").field("options", options).field("inputs", inputs).finish_non_exhaustive()
    }
}

/// A file that is written: name, length and checksum of the header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct OutputFile {
    name: String,
    #[serde(rename = "bytes")]
    n_bytes: u64,
    header: u64,
}

/// Everything that determines the bytes of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    program: String,
    options: Vec<(String, String)>,
    #[serde(default)]
    permissions: Vec<String>,
    inputs: Vec<InputFile>,
    outputs: Vec<OutputFile>,
    /// Checksum of every task with its targets and importance weights: everything that the other fields do
    /// not contain.
    plan: u64,
}

impl Fingerprint {
    /// Fingerprint of a run. `sources` are the mapped files.
    pub fn new(
        origin: &Origin<'_>,
        sources: &[Mapped],
        tasks: &[TensorTask<'_>],
        files: &[(&Path, &Plan)],
    ) -> Fingerprint {
        let mut inputs = origin.inputs.clone();
        for (path, n_bytes, modified) in sources.iter().filter_map(Mapped::origin) {
            let name = full_name(path);
            if inputs.iter().all(|input| input.name != name) {
                inputs.push(InputFile { name, n_bytes, modified: modified.and_then(nanoseconds), tag: None });
            }
        }
        let output = |(path, plan): &(&Path, &Plan)| OutputFile {
            name: file_name(path),
            n_bytes: plan.file_len(),
            header: XxHash3_64::oneshot(plan.header_bytes()),
        };
        Fingerprint {
            program: (origin.program)(),
            options: origin.options.clone(),
            permissions: origin.permissions.clone(),
            inputs,
            outputs: files.iter().map(output).collect(),
            plan: plan_checksum(tasks),
        }
    }

    /// Options that change bytes, with their values, and permissions.
    pub fn options(&self) -> Vec<(String, String)> {
        let permissions = self.permissions.iter().map(|name| (name.clone(), "given".to_owned()));
        self.options.iter().cloned().chain(permissions).collect()
    }

    /// Names of the files that are written.
    pub fn outputs(&self) -> impl Iterator<Item = &str> {
        self.outputs.iter().map(|output| output.name.as_str())
    }

    /// Bytes of all files that are written.
    pub fn output_bytes(&self) -> u64 {
        self.outputs.iter().fold(0, |sum, output| sum.saturating_add(output.n_bytes))
    }

    /// Permissions of `earlier` that this run lacks.
    fn withdrawn<'a>(&self, earlier: &'a Fingerprint) -> impl Iterator<Item = &'a String> {
        earlier.permissions.iter().filter(|name| !self.permissions.contains(name))
    }

    /// Changes of options that would make this run equal to `earlier`, if its options differ.
    pub fn advice(&self, earlier: &Fingerprint) -> Option<String> {
        let of = |name: &str, value: &str| match value {
            "given" => format!("`{name}`"),
            value => format!("`{name} {value}`"),
        };
        let is_in = |options: &[(String, String)], option| options.contains(option);
        let has_name = |options: &[(String, String)], name| options.iter().any(|(other, _)| other == name);
        let wanted = earlier.options.iter().filter(|option| !is_in(&self.options, option));
        let wanted = wanted.map(|(name, value)| format!("use {}", of(name, value)));
        let withdrawn = self.withdrawn(earlier).map(|name| format!("use `{name}`"));
        let surplus = self.options.iter().filter(|(name, _)| !has_name(&earlier.options, name));
        let surplus = surplus.map(|(name, _)| format!("omit `{name}`"));
        let all: Vec<String> = wanted.chain(withdrawn).chain(surplus).collect();
        (!all.is_empty()).then(|| format!("to continue, {}", all.join(", ")))
    }

    /// Differences from `earlier`, one sentence each; empty if both give the same bytes.
    pub fn differences(&self, earlier: &Fingerprint) -> Vec<String> {
        let mut differences = Vec::new();
        if self.program != earlier.program {
            differences.push(format!("the program was {} and is now {}", earlier.program, self.program));
        }
        let value = |options: &[(String, String)], name: &str| {
            options.iter().find(|(option, _)| option == name).map(|(_, value)| format!("`{value}`"))
        };
        let mut names: Vec<&String> =
            earlier.options.iter().chain(&self.options).map(|(name, _)| name).collect();
        names.sort();
        names.dedup();
        for name in names {
            let (was, is) = (value(&earlier.options, name), value(&self.options, name));
            if was != is {
                let absent = || "not given".to_owned();
                let (was, is) = (was.unwrap_or_else(absent), is.unwrap_or_else(absent));
                differences.push(format!("`{name}` was {was} and is now {is}"));
            }
        }
        for name in self.withdrawn(earlier) {
            differences.push(format!("`{name}` was given and is now not given"));
        }
        // A new file changes bytes only if it is read, which the plan shows.
        for input in &earlier.inputs {
            let change = match self.inputs.iter().find(|now| now.name == input.name) {
                Some(now) => input.change(now),
                None => Some(format!("`{}` is no longer an input", input.name)),
            };
            differences.extend(change);
        }
        let names = |outputs: &[OutputFile]| {
            let names: Vec<String> = outputs.iter().map(|output| format!("`{}`", output.name)).collect();
            names.join(", ")
        };
        let (was, is) = (names(&earlier.outputs), names(&self.outputs));
        if was != is {
            differences.push(format!("the outputs were {was} and are now {is}"));
        } else if differences.is_empty() && (self.outputs != earlier.outputs || self.plan != earlier.plan) {
            let changed = self.outputs.iter().zip(&earlier.outputs).find(|(is, was)| is != was);
            differences.push(match changed {
                Some((output, _)) => format!("metadata or tensors of `{}` changed", output.name),
                None => "the plan of the tensors changed".to_owned(),
            });
        }
        differences
    }

    /// JSON for journals and plans.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Inverse of [`Fingerprint::to_json`].
    pub fn from_json(value: &Value) -> Option<Fingerprint> {
        Fingerprint::deserialize(value).ok()
    }
}

pub(super) fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Checksum of the treatment of every tensor.
fn plan_checksum(tasks: &[TensorTask<'_>]) -> u64 {
    let mut hasher = XxHash3_64::new();
    for task in tasks {
        let view = task.rows.view();
        let via = task.via.map(|dtype| dtype.name());
        hasher.write(format!("{} {} {} {via:?}\n", task.name, view.n_rows, view.row_elems).as_bytes());
        for target in &task.targets {
            let weights = match target.weights {
                None => (0, 0),
                Some(Weights::Ones) => (1, 0),
                Some(Weights::Rows { values, rows_per_expert }) => {
                    let mut value_hasher = XxHash3_64::new();
                    values.iter().for_each(|value| value_hasher.write(&value.to_bits().to_le_bytes()));
                    (value_hasher.finish() | 2, rows_per_expert)
                }
            };
            let (output, dtype, offset) = (target.output, target.dtype.name(), target.offset);
            let endian = target.endian;
            hasher.write(format!(" {output} {dtype} {offset} {endian:?} {weights:?}\n").as_bytes());
            if let Some(encoder) = task.encoder_of(target.dtype) {
                hasher.write(format!(" {:016x}\n", encoder.fingerprint()).as_bytes());
            }
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint() -> Fingerprint {
        let input =
            |name: &str| InputFile { name: name.to_owned(), n_bytes: 7, modified: Some(5), tag: None };
        let output = |name: &str| OutputFile { name: name.to_owned(), n_bytes: 100, header: 9 };
        Fingerprint {
            program: "gguf-convert 1".to_owned(),
            options: vec![("type".to_owned(), "q4_k_m".to_owned())],
            permissions: vec!["nan".to_owned()],
            inputs: vec![input("config.json"), input("model.safetensors")],
            outputs: vec![output("a.gguf"), output("b.gguf")],
            plan: 3,
        }
    }

    #[test]
    fn fingerprint_names_every_change() {
        let earlier = fingerprint();
        assert_eq!(Fingerprint::from_json(&earlier.to_json()).as_ref(), Some(&earlier));
        type Change = fn(&mut Fingerprint);
        let changes: [(Change, &str); 12] = [
            (|changed| changed.permissions.clear(), "`nan` was given and is now not given"),
            (|changed| changed.program = "x".to_owned(), "the program was gguf-convert 1 and is now x"),
            (|changed| changed.options[0].1 = "q8_0".to_owned(), "`type` was `q4_k_m` and is now `q8_0`"),
            (|changed| changed.options.clear(), "`type` was `q4_k_m` and is now not given"),
            (
                |changed| changed.options.push(("pure".to_owned(), "given".to_owned())),
                "`pure` was not given and is now `given`",
            ),
            (|changed| changed.inputs[1].n_bytes = 8, "`model.safetensors` had 7 bytes and now has 8"),
            (|changed| changed.inputs[0].modified = Some(6), "`config.json` was modified"),
            (
                |changed| changed.inputs[0].tag = Some("commit b".to_owned()),
                "`config.json` was a file and is now commit b",
            ),
            (|changed| drop(changed.inputs.pop()), "`model.safetensors` is no longer an input"),
            (
                |changed| drop(changed.outputs.pop()),
                "the outputs were `a.gguf`, `b.gguf` and are now `a.gguf`",
            ),
            (|changed| changed.outputs[1].header = 8, "metadata or tensors of `b.gguf` changed"),
            (|changed| changed.plan = 4, "the plan of the tensors changed"),
        ];
        for (change, expected) in changes {
            let mut now = earlier.clone();
            change(&mut now);
            assert_eq!(now.differences(&earlier), [expected]);
        }
        assert!(earlier.differences(&earlier).is_empty());
        // A new permission or a new file makes no difference.
        let mut now = earlier.clone();
        now.permissions.push("other".to_owned());
        now.inputs.push(InputFile { name: "new".to_owned(), n_bytes: 1, modified: None, tag: None });
        assert!(now.differences(&earlier).is_empty() && now.advice(&earlier).is_none());
        now.permissions.clear();
        now.options = vec![("type".to_owned(), "q8_0".to_owned()), ("pure".to_owned(), "given".to_owned())];
        let advice = "to continue, use `type q4_k_m`, use `nan`, omit `pure`";
        assert_eq!(now.advice(&earlier).as_deref(), Some(advice));
    }

    #[test]
    fn fingerprint_lists_files_of_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("inner")).unwrap();
        for name in ["b", "a", ".hidden", "inner/c"] {
            fs::write(path(name), name).unwrap();
        }
        let files = InputFile::all_of(folder.path()).unwrap();
        let names: Vec<PathBuf> = files.iter().map(|file| PathBuf::from(&file.name)).collect();
        assert_eq!(names, [path("a"), path("b"), path("inner/c")]);
        assert!(files.iter().all(|file| file.modified.is_some() && file.n_bytes > 0));
        assert_eq!(InputFile::all_of(&path("a")).unwrap(), [files[0].clone()]);
        assert!(InputFile::all_of(&path("none")).is_err());
    }
}
