//! Output paths, and writing to them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use gguf_container::{Output, Plan, check_open_files};

use crate::{
    Error,
    job::{JOB_ELEMS, Schedule, TensorTask},
    run::{Watch, run},
    run_options::RunOptions,
};

/// The path of an output of the type `type_name` (`Q4_K_M`).
///
/// Without `out` it is `default_name` in the current folder. If `out` is a folder or ends with a separator,
/// it is `default_name` in that folder. Otherwise it is `out`, whose last component may contain `{ftype}`,
/// `{outtype}` (lower case), `{FTYPE}` and `{OUTTYPE}` (upper case), and doubled braces for braces.
///
/// The reference's converter defaults to the model's folder; here the input folder is never written to.
/// Source: `fill_templated_filename` in `gguf-py/gguf/utility.py` and `prepare_metadata` in
/// `conversion/base.py`, llama-cpp-python 0.3.36.
///
/// # Errors
/// [`Error::UnknownPlaceholder`].
pub fn output_path(out: Option<&Path>, default_name: &str, type_name: &str) -> Result<PathBuf, Error> {
    let Some(out) = out else { return Ok(PathBuf::from(default_name)) };
    // Only a trailing separator distinguishes a folder that does not exist yet from a file.
    let ends_like_a_folder = out
        .as_os_str()
        .as_encoded_bytes()
        .last()
        .is_some_and(|&last| std::path::is_separator(char::from(last)));
    if ends_like_a_folder || out.is_dir() {
        return Ok(out.join(default_name));
    }
    // A name that is not UTF-8 has no placeholders.
    match out.file_name().and_then(|name| name.to_str()) {
        Some(name) => Ok(out.with_file_name(fill(name, type_name)?)),
        None => Ok(out.to_owned()),
    }
}

fn fill(name: &str, type_name: &str) -> Result<String, Error> {
    let mut filled = String::new();
    let mut rest = name;
    while let Some(at) = rest.find(['{', '}']) {
        filled += &rest[..at];
        let brace = &rest[at..at + 1];
        rest = &rest[at + 1..];
        // A doubled brace is one brace, like in Python's format strings, which the reference uses.
        if let Some(after) = rest.strip_prefix(brace) {
            filled += brace;
            rest = after;
            continue;
        }
        let placeholder = (brace == "{").then(|| rest.split_once('}')).flatten();
        let Some((placeholder, after)) = placeholder else {
            return Err(Error::UnknownPlaceholder { name: rest.to_owned() });
        };
        filled += &match placeholder {
            "" | "ftype" | "outtype" => type_name.to_ascii_lowercase(),
            "FTYPE" | "OUTTYPE" => type_name.to_ascii_uppercase(),
            other => return Err(Error::UnknownPlaceholder { name: other.to_owned() }),
        };
        rest = after;
    }
    Ok(filled + rest)
}

/// Path of one file of an output: `path` itself, or that of a shard.
pub(crate) fn shard_path(path: &Path, shard: Option<(u32, u32)>) -> PathBuf {
    let Some((no, count)) = shard else { return path.to_owned() };
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let prefix = name.strip_suffix(".gguf").unwrap_or(&name);
    path.with_file_name(gguf_container::shard_file_name(prefix, no, count))
}

/// Checks that `path` can be written without touching the folder that is read, before hours of work.
///
/// # Errors
/// [`Error::NoFolder`], [`Error::NotAFolder`], [`Error::OutputInsideInput`], and
/// [`gguf_container::Error::Exists`] without `force`.
pub fn check_output(path: &Path, input_folder: &Path, force: bool) -> Result<(), Error> {
    // Links are resolved for both paths: an output may point into the input folder by another name.
    let real_folder = real_folder_of(path)?;
    let is_inside = |path: &Path| fs::canonicalize(input_folder).is_ok_and(|input| path.starts_with(input));
    // The output may be a link too: with `force` its target is replaced. It may even point to a file that the
    // input folder links to, like in folders of a Hub cache.
    let points_inside = fs::canonicalize(path).is_ok_and(|real| {
        let entries = fs::read_dir(input_folder).into_iter().flatten().flatten();
        is_inside(&real)
            || entries
                .map(|entry| entry.path())
                .any(|entry| fs::canonicalize(entry).is_ok_and(|path| path == real))
    });
    if is_inside(&real_folder) || points_inside {
        return Err(Error::OutputInsideInput { path: path.to_owned() });
    }
    check_absent(path, force)
}

/// Checks that `path` can be written and is not one of the input files, which may be in the same folder.
///
/// # Errors
/// Those of [`check_output`], and [`Error::OutputIsInput`] even with `force`.
pub fn check_output_file(path: &Path, inputs: &[&Path], force: bool) -> Result<(), Error> {
    real_folder_of(path)?;
    if let Ok(real) = fs::canonicalize(path)
        && inputs.iter().any(|input| fs::canonicalize(input).is_ok_and(|input| input == real))
    {
        return Err(Error::OutputIsInput { path: path.to_owned() });
    }
    check_absent(path, force)
}

/// Resolves links and other spellings of the folder; the path itself if its folder does not exist. Two
/// outputs with one real path would overwrite each other.
pub fn real_output(path: &Path) -> PathBuf {
    let in_real_folder = || Some(real_folder_of(path).ok()?.join(path.file_name()?));
    fs::canonicalize(path).ok().or_else(in_real_folder).unwrap_or_else(|| path.to_owned())
}

fn real_folder_of(path: &Path) -> Result<PathBuf, Error> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    match fs::canonicalize(folder) {
        Ok(real) if real.is_dir() => Ok(real),
        Ok(_) => Err(Error::NotAFolder { folder: folder.to_owned() }),
        Err(_) => Err(Error::NoFolder { folder: folder.to_owned() }),
    }
}

fn check_absent(path: &Path, force: bool) -> Result<(), Error> {
    if !force && fs::symlink_metadata(path).is_ok() {
        return Err(Error::Gguf(gguf_container::Error::Exists { path: path.to_owned() }));
    }
    Ok(())
}

/// Runs `tasks` and writes one file for each of `files`. Files get their final names when everything is
/// written. After an error or a cancellation, partial files are removed.
///
/// # Errors
/// Those of [`run`], and errors of creating and finishing files.
pub fn write(
    tasks: &[TensorTask<'_>],
    files: &[(&Path, &Plan)],
    force: bool,
    options: &RunOptions,
    watch: Watch<'_>,
) -> Result<(), Error> {
    check_open_files(files.len())?;
    let mut outputs = Vec::with_capacity(files.len());
    // All files are created and their space reserved before the first row is read, so that a full disk is
    // reported at once.
    for (path, plan) in files {
        let output = Output::create(path, plan.file_len(), force)?;
        plan.fixed_bytes().try_for_each(|(offset, bytes)| output.write_at(offset, bytes))?;
        outputs.push(output);
    }
    run(tasks, &Schedule::new(tasks, JOB_ELEMS), &outputs, options, watch)?;
    finish(outputs, watch)
}

/// Renames all outputs, or no output if one cannot be renamed.
pub(crate) fn finish(mut outputs: Vec<Output>, watch: Watch<'_>) -> Result<(), Error> {
    prepare(&outputs, watch)?;
    place(&mut outputs)
}

/// Syncs outputs and checks that each can get its name, before the first is renamed.
pub(crate) fn prepare(outputs: &[Output], watch: Watch<'_>) -> Result<(), Error> {
    outputs.iter().try_for_each(Output::prepare)?;
    // Syncing takes longer than the last jobs, so sources are checked again afterwards.
    watch.check()
}

/// Renames outputs, from the last to the first: readers open the first of several shards, and without it the
/// others are not taken for a model. If one rename fails, the others are undone.
pub(crate) fn place(outputs: &mut [Output]) -> Result<(), Error> {
    for index in (0..outputs.len()).rev() {
        if let Err(error) = outputs[index].place() {
            outputs[index..].iter_mut().for_each(Output::withdraw);
            return Err(error.into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_templates_are_filled() {
        for (name, filled) in [
            ("m.gguf", "m.gguf"),
            ("m-{ftype}.gguf", "m-q4_k_m.gguf"),
            ("{OUTTYPE}-{FTYPE}-{outtype}-{}", "Q4_K_M-Q4_K_M-q4_k_m-q4_k_m"),
            ("a{{b}}", "a{b}"),
        ] {
            assert_eq!(fill(name, "Q4_K_M").unwrap(), filled);
        }
        for (name, unknown) in [("a{b}", "b"), ("a{ftype", "ftype"), ("a}b", "b"), ("{", "")] {
            let error = fill(name, "Q4_K_M").unwrap_err();
            assert!(matches!(&error, Error::UnknownPlaceholder { name } if name == unknown), "{error}");
        }
    }

    #[test]
    fn output_paths_follow_argument_and_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = |out: Option<&Path>| output_path(out, "Tiny-F16.gguf", "F16").unwrap();
        assert_eq!(path(None), Path::new("Tiny-F16.gguf"));
        assert_eq!(path(Some(folder.path())), folder.path().join("Tiny-F16.gguf"));
        assert_eq!(path(Some(Path::new("not/there/"))), Path::new("not/there/Tiny-F16.gguf"));
        assert_eq!(path(Some(Path::new("{a}/x-{ftype}"))), Path::new("{a}/x-f16"));
    }
}
