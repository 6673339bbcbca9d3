//! Weights in one or more files, with or without an index.
//!
//! The selection and order of files follow `ModelBase.index_tensors` in `conversion/base.py`, llama.cpp as vendored in
//! llama-cpp-python 0.3.36: those named by the index, else those with the format's name, sorted.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::Path,
};

use serde_json::Value as Json;

use crate::{Error, Listing, Part, Tensor, json, small_files::read_small_file};

/// Files, their tensors, and a note about ignored files.
type Opened = (Vec<Part>, Vec<Tensor>, Option<String>);

/// Reads the tensors of a file, given its index among the files and the file.
pub(crate) trait Parse: FnMut(usize, &Part) -> Result<Vec<Tensor>, Error> {}

impl<F: FnMut(usize, &Part) -> Result<Vec<Tensor>, Error>> Parse for F {}

/// Names of a format's weights files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shards {
    pub prefix: &'static str,
    pub suffix: &'static str,
    /// Index of a checkpoint of several files.
    pub index: &'static str,
}

impl Shards {
    /// First of the files in a folder.
    pub fn detect(&self, listing: &Listing) -> Option<String> {
        let first = self.names(listing).into_iter().next();
        first.or_else(|| listing.has(self.index).then(|| self.index.to_owned()))
    }

    fn names(&self, listing: &Listing) -> Vec<String> {
        listing.matching(self.prefix, self.suffix)
    }

    /// Opens all files. `parse` gets the index of a file and the file, and returns its tensors. A note names
    /// ignored files.
    ///
    /// A folder may contain shards, or the index of shards, of an earlier save next to one file with all
    /// weights. transformers then reads the one file. The reference reads the files of the index, which is
    /// done here too as long as it works.
    ///
    /// # Errors
    /// Those of `parse`, and the variants of [`Error`] about several files.
    pub fn open(&self, dir: &Path, listing: &Listing, mut parse: impl Parse) -> Result<Opened, Error> {
        let has_index = listing.has(self.index);
        let index = if has_index { Some(self.weight_map(&read_small_file(dir, self.index)?)?) } else { None };
        let names: Vec<String> = match &index {
            Some(index) => index.values().cloned().collect::<BTreeSet<_>>().into_iter().collect(),
            None => self.names(listing),
        };
        let single = format!("{}{}", self.prefix, self.suffix);
        let has_single = listing.has(&single);
        let are_numbered = names.iter().all(|name| *name == single || name.contains("-of-"));
        let opened = self.open_all(dir, listing, &names, index.as_ref(), &mut parse);
        match (opened, &index) {
            (Err(error @ (Error::MissingShard { .. } | Error::DuplicateTensor { .. })), _)
                if has_single && are_numbered && names != [single.as_str()] =>
            {
                let Ok((parts, tensors, _)) =
                    self.open_all(dir, listing, std::slice::from_ref(&single), None, &mut parse)
                else {
                    return Err(error);
                };
                let names: BTreeSet<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
                let n_absent = |index: &BTreeMap<String, String>| {
                    index.keys().filter(|name| !names.contains(name.as_str())).count()
                };
                // A tied output may be in the shards only.
                if index.as_ref().is_some_and(|index| n_absent(index) > 1) {
                    return Err(error);
                }
                let other = if has_index {
                    format!("`{}`, which lists files of an earlier save", self.index)
                } else {
                    "shards of an earlier save".to_owned()
                };
                Ok((parts, tensors, Some(format!("weights are read from `{single}`; ignored: {other}"))))
            }
            (Ok((parts, tensors, _)), Some(_)) if has_single && !names.contains(&single) => {
                let note = format!(
                    "weights are read from the files that `{}` lists; ignored: `{single}`, which \
                        transformers would read instead (remove the outdated one)",
                    self.index
                );
                Ok((parts, tensors, Some(note)))
            }
            (opened, _) => opened,
        }
    }

    /// Opens the files `names`.
    fn open_all(
        &self,
        dir: &Path,
        listing: &Listing,
        names: &[String],
        index: Option<&BTreeMap<String, String>>,
        parse: &mut impl Parse,
    ) -> Result<Opened, Error> {
        if index.is_none() {
            self.check_numbering(names)?;
        }
        let (mut parts, mut tensors): (Vec<Part>, Vec<Tensor>) = (Vec::new(), Vec::new());
        let mut seen: HashMap<String, usize> = HashMap::new();
        for (part, name) in names.iter().enumerate() {
            if !listing.has(name) {
                let n_tensors = index.iter().flat_map(|i| i.values()).filter(|file| *file == name).count();
                let tensors = gguf_types::counted(n_tensors, "tensor");
                let reason = format!("`{}` lists {tensors} of that file", self.index);
                return Err(Error::MissingShard { file: name.clone(), reason });
            }
            let opened = listing.open(dir, name)?;
            for mut tensor in parse(part, &opened)? {
                tensor.part = part;
                if let Some(first) = seen.insert(tensor.name.clone(), part) {
                    let first = if first == part { name } else { &parts[first].file };
                    return Err(Error::DuplicateTensor {
                        first: first.clone(),
                        second: name.clone(),
                        tensor: tensor.name,
                    });
                }
                tensors.push(tensor);
            }
            parts.push(opened);
        }
        if let Some(index) = index {
            self.check_index(index, seen)?;
        }
        if tensors.is_empty() {
            let file = parts.first().map_or(self.index, |part| &part.file).to_owned();
            return Err(Error::NoTensors { file });
        }
        Ok((parts, tensors, None))
    }

    /// Refuses an index whose tensors differ from those of the files.
    fn check_index(
        &self,
        index: &BTreeMap<String, String>,
        seen: HashMap<String, usize>,
    ) -> Result<(), Error> {
        let absent: Vec<String> = index.keys().filter(|name| !seen.contains_key(*name)).cloned().collect();
        let mut unlisted: Vec<String> = seen.into_keys().filter(|name| !index.contains_key(name)).collect();
        unlisted.sort();
        if absent.is_empty() && unlisted.is_empty() {
            return Ok(());
        }
        Err(Error::IndexMismatch { index: self.index.to_owned(), absent, unlisted })
    }

    /// Tensor name to file name, from the index.
    fn weight_map(&self, bytes: &[u8]) -> Result<BTreeMap<String, String>, Error> {
        let form = |expected: &str, found: &str| Error::JsonForm {
            file: self.index.to_owned(),
            expected: expected.to_owned(),
            found: found.to_owned(),
        };
        let index = json::parse(self.index, bytes)?;
        let map = match index.get("weight_map") {
            Some(Json::Object(map)) => map,
            Some(other) => return Err(form("an object at `weight_map`", json::kind(other))),
            None => return Err(form("an object at `weight_map`", "nothing")),
        };
        map.iter()
            .map(|(tensor, file)| match file {
                Json::String(file) if file.is_empty() || file == ".." || file.contains(['/', '\\', '\0']) => {
                    Err(Error::ShardOutside { index: self.index.to_owned(), file: file.clone() })
                }
                Json::String(file) => Ok((tensor.clone(), file.clone())),
                other => Err(form(&format!("a file name at `weight_map`.`{tensor}`"), json::kind(other))),
            })
            .collect()
    }

    /// Without an index, checks the numbering of names such as `model-00001-of-00003.safetensors`. The
    /// reference converts the files that exist.
    fn check_numbering(&self, names: &[String]) -> Result<(), Error> {
        let suffix = self.suffix;
        for name in names {
            let Some((stem, count)) = name.strip_suffix(suffix).and_then(|name| name.rsplit_once("-of-"))
            else {
                continue;
            };
            let Some((stem, number)) = stem.rsplit_once('-') else { continue };
            let (width, count_width) = (number.len(), count.len());
            let (Ok(_), Ok(n)) = (number.parse::<u32>(), count.parse::<u32>()) else { continue };
            // The first gap ends the loop, so a count of four billion is cheap.
            for i in 1..=n {
                let sibling = format!("{stem}-{i:0width$}-of-{n:0count_width$}{suffix}");
                if !names.contains(&sibling) {
                    return Err(Error::MissingShard {
                        file: sibling,
                        reason: format!("`{name}` counts {n} files"),
                    });
                }
            }
        }
        Ok(())
    }
}
