//! Crashes while files are renamed, and runs that resume from there.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, atomic::AtomicBool},
};

use gguf_container::{Claim, Output};
use gguf_conversion::{
    CheckedConversion, CheckpointInput, Conversion, Error, Fingerprint, JOB_ELEMS, Journal, Journaling,
    Origin, Resumed, RunOptions, Schedule, Watch, run_with,
};

fn origin() -> Origin<'static> {
    Origin {
        program: &|| "test".to_owned(),
        options: Vec::new(),
        permissions: Vec::new(),
        inputs: Vec::new(),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Stopped {
    AfterRows,
    /// All rows are recorded with checksums, like in a part.
    AfterRowsOfPart,
    /// Everything is on disk, and only the last file has its name.
    BetweenNames,
}

/// Writes all files and records progress, then simulates a crash.
fn stop(checked: &CheckedConversion<'_, CheckpointInput>, paths: &[PathBuf], stopped: Stopped) {
    let plans: Vec<_> = checked.planned().files().iter().map(|file| &file.plan).collect();
    let files: Vec<_> = paths.iter().map(PathBuf::as_path).zip(plans).collect();
    let origin = origin();
    let fingerprint = || Fingerprint::new(&origin, &[], checked.tasks(), &files);
    let (journal, found) = Journal::open(&Journal::path_of(&paths[0]), &fingerprint).unwrap();
    assert_eq!(found, None);
    let journal = if stopped == Stopped::AfterRowsOfPart { journal.for_others() } else { journal };
    journal.begin(paths).unwrap();
    let claim = |(path, plan): &(&Path, &gguf_container::Plan)| {
        let output = Output::claim(path, plan.file_len(), false, Claim::Anew).unwrap();
        output.write_at(0, plan.header_bytes()).unwrap();
        output
    };
    let mut outputs: Vec<Output> = files.iter().map(claim).collect();
    let schedule = Schedule::new(checked.tasks(), JOB_ELEMS);
    let watch = Watch::default();
    run_with(checked.tasks(), &schedule, &outputs, Some(&journal), &RunOptions::default(), watch).unwrap();
    if stopped == Stopped::BetweenNames {
        journal.whole().unwrap();
        outputs.last_mut().unwrap().place().unwrap();
    } else {
        journal.checkpoint(None).unwrap();
    }
}

/// Resumes from the state that [`stop`] left, and returns the messages.
fn resume_run(
    checked: &CheckedConversion<'_, CheckpointInput>,
    paths: &[PathBuf],
    resume: bool,
) -> Result<Option<Resumed>, Error> {
    let (origin, cancel, report) = (origin(), AtomicBool::new(false), Mutex::new(None));
    let on_resume = |resumed| *report.lock().unwrap() = Some(resumed);
    let journaling = Journaling { origin: &origin, resume, on_resume: &on_resume };
    let watch = Watch { cancel: &cancel, ..Watch::default() };
    checked.write_resumable(paths, false, journaling, &RunOptions::default(), watch)?;
    Ok(report.into_inner().unwrap())
}

/// Ranges in the journal of `first`: true for one with a checksum, and its number of bytes.
fn checksums(first: &Path) -> Vec<(bool, u64)> {
    let fingerprint = || unreachable!("nothing is noted");
    let (_journal, found) = Journal::open(&Journal::path_of(first), &fingerprint).unwrap();
    let spans = found.unwrap().done.into_iter().flat_map(|done| done.spans);
    spans.map(|span| (span.checksum.is_some(), span.n_bytes)).collect()
}

/// A flipped byte in any tensor is found, both in rows with checksums and in recomputed ones.
#[test]
fn changed_bytes_are_found_in_all_rows() {
    let folder = tempfile::tempdir().unwrap();
    let golden = gguf_testkit::checkpoint("llama");
    // Copied, rounded to nearest, scales computed from values, searches, and both in one file.
    for (recipe, has_checksums, lacks_checksums) in [
        ("bf16", false, true),
        ("f16", false, true),
        ("q8_0", false, true),
        ("q4_0", true, true),
        ("iq4_nl", true, true),
        ("q4_k_m", true, true),
    ] {
        let conversion = Conversion::open(gguf_models::FAMILIES, &golden).unwrap().recipe(recipe).unwrap();
        let planned = conversion.plan().unwrap();
        let checked = planned.check().unwrap();
        let path = folder.path().join(recipe);
        let paths = std::slice::from_ref(&path);
        let partial = Output::temporary_path_of(&path);
        assert_eq!(resume_run(&checked, paths, false).unwrap(), None);
        let expected = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();

        stop(&checked, paths, Stopped::AfterRowsOfPart);
        assert!(checksums(&path).iter().all(|(has_one, _)| *has_one), "{recipe}");
        let report = resume_run(&checked, paths, true).unwrap().unwrap();
        assert_eq!((report.wrong_bytes, fs::read(&path).unwrap() == expected), (0, true), "{recipe}");
        fs::remove_file(&path).unwrap();

        stop(&checked, paths, Stopped::AfterRows);
        let noted = checksums(&path);
        let kinds = |kind| noted.iter().any(|(has_one, _)| *has_one == kind);
        assert_eq!((kinds(true), kinds(false)), (has_checksums, lacks_checksums), "{recipe}");
        let report = resume_run(&checked, paths, true).unwrap().unwrap();
        let all_bytes: u64 = noted.iter().map(|(_, n_bytes)| n_bytes).sum();
        assert_eq!((report.done_bytes, report.wrong_bytes), (all_bytes, 0), "{recipe}");
        assert!(fs::read(&path).unwrap() == expected, "{recipe}");
        fs::remove_file(&path).unwrap();

        let tensors = planned.files()[0].plan.tensors();
        for (index, tensor) in tensors.iter().enumerate() {
            stop(&checked, paths, Stopped::AfterRows);
            // First, last or middle byte.
            let at = tensor.offset + [0, tensor.n_bytes - 1, tensor.n_bytes / 2][index % 3];
            let mut bytes = fs::read(&partial).unwrap();
            bytes[at as usize] ^= 1 << (index % 8);
            fs::write(&partial, bytes).unwrap();
            let report = resume_run(&checked, paths, true).unwrap().unwrap();
            assert!(report.wrong_bytes > 0, "{recipe}: byte {at} of `{}` is not found", tensor.name);
            assert!(report.wrong_bytes < all_bytes, "{recipe}: `{}`", tensor.name);
            assert!(fs::read(&path).unwrap() == expected, "{recipe}: `{}`", tensor.name);
            fs::remove_file(&path).unwrap();
        }
    }
}

#[test]
fn run_stopped_between_renames_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let golden = gguf_testkit::checkpoint("llama");
    let conversion = Conversion::open(gguf_models::FAMILIES, &golden)
        .unwrap()
        .recipe("q8_0")
        .unwrap()
        .recipe("f16")
        .unwrap();
    let planned = conversion.plan().unwrap();
    let checked = planned.check().unwrap();
    let paths: Vec<PathBuf> = ["a", "b"].iter().map(|name| folder.path().join(name)).collect();
    let names = || {
        let entries = fs::read_dir(folder.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let files = || paths.iter().map(|path| fs::read(path).unwrap()).collect::<Vec<_>>();
    resume_run(&checked, &paths, false).unwrap();
    assert_eq!(names(), ["a", "b"]);
    let expected = files();
    let clear = || paths.iter().for_each(|path| fs::remove_file(path).unwrap());
    clear();

    stop(&checked, &paths, Stopped::BetweenNames);
    assert_eq!(names(), [".a.journal", ".a.partial", "b"]);
    assert!(matches!(resume_run(&checked, &paths, false), Err(Error::Unfinished { .. })));
    let report = resume_run(&checked, &paths, true).unwrap().unwrap();
    assert_eq!(report.wrong_bytes, 0);
    assert!(report.done_bytes > 0 && report.done_bytes < report.total_bytes, "{report:?}");
    assert_eq!((names(), files() == expected), (vec!["a".to_owned(), "b".to_owned()], true));
    clear();

    // A foreign file that appeared in the meantime is not ours, whatever its name and length.
    for wrong in [0, expected[1].len() / 2] {
        stop(&checked, &paths, Stopped::BetweenNames);
        let mut other = expected[1].clone();
        other[wrong] ^= 1;
        fs::write(&paths[1], &other).unwrap();
        let refused = resume_run(&checked, &paths, true);
        assert!(
            matches!(refused, Err(Error::Gguf(gguf_container::Error::Exists { path })) if path == paths[1])
        );
        assert!(fs::read(&paths[1]).unwrap() == other);
        for name in names() {
            fs::remove_file(folder.path().join(name)).unwrap();
        }
    }
}
