//! Names of a part's files next to the output, and their detection.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use gguf_container::{PartNumber, hidden_path};

use crate::Error;

/// Destination of a part's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Into the temporary file of the output, shared by all parts. The first part gives it its full length.
    Shared,
    /// Into a file `OUTPUT.part-K-of-N`, as long as the output; only the part's ranges take space.
    OwnFile,
}

/// Path of a part's own file: `OUTPUT.part-K-of-N`.
pub fn part_path(output: &Path, number: PartNumber) -> PathBuf {
    let mut path = output.as_os_str().to_owned();
    path.push(format!(".{}", suffix(number)));
    PathBuf::from(path)
}

fn suffix(number: PartNumber) -> String {
    format!("part-{}-of-{}", number.number(), number.count())
}

/// Path of a part's journal: hidden next to the shared temporary file, or next to the part's own file, with
/// which it is moved.
pub(super) fn journal_path(first: &Path, number: PartNumber, place: Place) -> PathBuf {
    match place {
        Place::Shared => hidden_path(first, &format!("{}.journal", suffix(number))),
        Place::OwnFile => {
            let mut path = part_path(first, number).into_os_string();
            path.push(".journal");
            PathBuf::from(path)
        }
    }
}

/// Existing journals of an output's parts.
pub(super) fn journals(first: &Path) -> BTreeMap<(PartNumber, PathBuf), Place> {
    let mut journals = BTreeMap::new();
    let folder = match first.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        // Names that are not UTF-8 are not ours.
        let Some(number) = number_in(&name) else { continue };
        // The name is compared with the expected one, so that files of another output are not used. A part
        // may exist in both places if the option changed between two calls.
        for place in [Place::Shared, Place::OwnFile] {
            let path = journal_path(first, number, place);
            if path.file_name().is_some_and(|expected| *expected == *entry.file_name()) {
                journals.insert((number, path), place);
            }
        }
    }
    journals
}

/// `2/8` of `anything.part-2-of-8.journal`.
fn number_in(name: &str) -> Option<PartNumber> {
    // From the right: an output may have `.part-` in its own name.
    let (_, numbers) = name.strip_suffix(".journal")?.rsplit_once(".part-")?;
    let (number, count) = numbers.split_once("-of-")?;
    format!("{number}/{count}").parse().ok()
}

/// Fails if the output has parts for another number of parts, whose shares differ.
pub(super) fn check_count(first: &Path, number: PartNumber) -> Result<(), Error> {
    match journals(first).into_keys().find(|(found, _)| found.count() != number.count()) {
        None => Ok(()),
        Some((found, path)) => {
            Err(Error::PartsDiffer { path, found: found.count(), expected: number.count() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_journals_of_the_output_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let part = |number, count| PartNumber::new(number, count).unwrap();
        let expected = [
            ((part(1, 2), journal_path(&path("m.gguf"), part(1, 2), Place::Shared)), Place::Shared),
            ((part(2, 3), journal_path(&path("m.gguf"), part(2, 3), Place::OwnFile)), Place::OwnFile),
        ];
        assert_eq!(expected[0].0.1, path(".m.gguf.part-1-of-2.journal"));
        assert_eq!(expected[1].0.1, path("m.gguf.part-2-of-3.journal"));
        for ((_, path), _) in &expected {
            fs::write(path, "").unwrap();
        }
        for other in [
            ".m.gguf.part-0-of-2.journal",
            ".m.gguf.part-a-of-2.journal",
            ".m.gguf.journal",
            ".xm.gguf.part-1-of-2.journal",
            "m.gguf.part-1-of-2",
        ] {
            fs::write(path(other), "").unwrap();
        }
        assert_eq!(journals(&path("m.gguf")), BTreeMap::from(expected));
        assert!(check_count(&path("m.gguf"), part(1, 2)).is_err());
        assert!(check_count(&path("n.gguf"), part(1, 2)).is_ok());
    }
}
