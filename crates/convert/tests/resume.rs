//! A machine that stops while files get their names, and runs that go on from there.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, atomic::AtomicBool},
};

use convert::{
    CheckedConversion, CheckpointInput, Conversion, Error, Fingerprint, GoesOn, JOB_ELEMS, Journal,
    Journaling, Origin, RunOptions, Schedule, Watch, run_with,
};
use gguf::{Claim, Output};

fn origin() -> Origin<'static> {
    Origin { program: &|| "test".to_owned(), options: Vec::new(), inputs: Vec::new() }
}

/// Writes all files and notes that they are whole; then only the last gets its name, and the machine stops.
fn stop_between_names(checked: &CheckedConversion<'_, CheckpointInput>, paths: &[PathBuf]) {
    let plans: Vec<_> = checked.planned().files().iter().map(|file| &file.plan).collect();
    let files: Vec<_> = paths.iter().map(PathBuf::as_path).zip(plans).collect();
    let origin = origin();
    let fingerprint = || Fingerprint::new(&origin, &[], checked.tasks(), &files);
    let (journal, found) = Journal::open(&Journal::path_of(&paths[0]), &fingerprint).unwrap();
    assert_eq!(found, None);
    journal.begin(paths).unwrap();
    let claim = |(path, plan): &(&Path, &gguf::Plan)| {
        let output = Output::claim(path, plan.file_len(), false, Claim::Anew).unwrap();
        output.write_at(0, plan.header_bytes()).unwrap();
        output
    };
    let mut outputs: Vec<Output> = files.iter().map(claim).collect();
    let schedule = Schedule::new(checked.tasks(), JOB_ELEMS);
    let watch = Watch { cancel: &AtomicBool::new(false), done: &|_, _| {}, sources: &[] };
    run_with(checked.tasks(), &schedule, &outputs, Some(&journal), &RunOptions::default(), watch).unwrap();
    journal.whole().unwrap();
    outputs.last_mut().unwrap().place().unwrap();
}

#[test]
fn a_run_that_stopped_between_two_names_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let golden = testkit::checkpoint("llama");
    let conversion = Conversion::open(&golden).unwrap().recipe("q8_0").unwrap().recipe("f16").unwrap();
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
    let (origin, cancel) = (origin(), AtomicBool::new(false));
    let watch = Watch { cancel: &cancel, done: &|_, _| {}, sources: &[] };
    let said: Mutex<Option<GoesOn>> = Mutex::new(None);
    let go_on = |resume| {
        let goes_on = |it| *said.lock().unwrap() = Some(it);
        let journaling = Journaling { origin: &origin, resume, goes_on: &goes_on };
        checked.write_resumable(&paths, false, journaling, &RunOptions::default(), watch)
    };
    go_on(false).unwrap();
    assert_eq!(names(), ["a", "b"]);
    let expected = files();
    let clear = || paths.iter().for_each(|path| fs::remove_file(path).unwrap());
    clear();

    stop_between_names(&checked, &paths);
    assert_eq!(names(), [".a.journal", ".a.partial", "b"]);
    assert!(matches!(go_on(false), Err(Error::Unfinished { .. })));
    go_on(true).unwrap();
    let said = *said.lock().unwrap();
    let said = said.unwrap();
    assert_eq!(said.wrong_bytes, 0);
    assert!(said.done_bytes > 0 && said.done_bytes < said.total_bytes, "{said:?}");
    assert_eq!((names(), files() == expected), (vec!["a".to_owned(), "b".to_owned()], true));
    clear();

    // A file that somebody put there meanwhile is none of ours, whatever its name and length.
    for wrong in [0, expected[1].len() / 2] {
        stop_between_names(&checked, &paths);
        let mut other = expected[1].clone();
        other[wrong] ^= 1;
        fs::write(&paths[1], &other).unwrap();
        assert!(matches!(go_on(true), Err(Error::Gguf(gguf::Error::Exists { path })) if path == paths[1]));
        assert!(fs::read(&paths[1]).unwrap() == other);
        for name in names() {
            fs::remove_file(folder.path().join(name)).unwrap();
        }
    }
}
