//! Files that an interrupted run leaves for the next: journals with their outputs, plans, parts.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{OnceLock, atomic::AtomicBool},
};

use gguf_container::{Endian, File, Mapped, PartNumber, Plan};
use gguf_conversion::{
    Fingerprint, GgufRows, JOB_ELEMS, Journaling, Origin, RunOptions, Schedule, Target, TensorTask, Watch,
    parts::{self, Part, Place, Rates, Share},
    write_resumable,
};
use gguf_toolkit::{compare, convert::Operation, importance, part_file::PartFile, perplexity};
use gguf_types::DType;

use crate::{
    pieces,
    scratch::{empty, with_files},
    seeds,
};

/// Outputs of the run, and the types of its tensors in each: copied, searched, rounded.
const OUTPUTS: [(&str, [DType; 3]); 2] =
    [("a", [DType::Q8_0, DType::F32, DType::Q4_K]), ("b", [DType::IQ4_NL, DType::F16, DType::Q8_0])];

/// A run of six small tensors into two files.
struct Run {
    tasks: Vec<TensorTask<'static>>,
    plans: Vec<Plan>,
}

impl Run {
    fn new() -> Run {
        static SOURCE: OnceLock<File> = OnceLock::new();
        let source = SOURCE.get_or_init(|| File::parse(seeds::tiny()).expect("a file of our own"));
        let task = |tensor| TensorTask::new("t".to_owned(), Box::new(GgufRows::new(source, tensor)));
        let mut tasks: Vec<TensorTask<'_>> = source.tensors().iter().map(task).collect();
        let mut plans = Vec::new();
        for (output, (_, dtypes)) in OUTPUTS.iter().enumerate() {
            let sized = source
                .tensors()
                .iter()
                .zip(dtypes)
                .map(|(tensor, dtype)| (tensor.name.clone(), tensor.shape, *dtype));
            let plan =
                Plan::new(source.metadata(), sized.collect(), Endian::Little, 32).expect("three tensors");
            for ((task, dtype), place) in tasks.iter_mut().zip(dtypes).zip(plan.tensors()) {
                let (dtype, offset, endian) = (*dtype, place.offset, Endian::Little);
                task.targets.push(Target { output, dtype, endian, offset, weights: None });
            }
            plans.push(plan);
        }
        Run { tasks, plans }
    }

    fn files<'a>(&'a self, paths: &'a [PathBuf]) -> Vec<(&'a Path, &'a Plan)> {
        paths.iter().map(PathBuf::as_path).zip(&self.plans).collect()
    }

    fn fingerprint(&self, paths: &[PathBuf]) -> Fingerprint {
        Fingerprint::new(&origin(), &[], &self.tasks, &self.files(paths))
    }
}

fn origin() -> Origin<'static> {
    let options = vec![("--type".to_owned(), "q8_0".to_owned())];
    Origin { program: &|| "fuzz".to_owned(), options, permissions: Vec::new(), inputs: Vec::new() }
}

fn paths(folder: &Path) -> Vec<PathBuf> {
    OUTPUTS.iter().map(|(name, _)| folder.join(name)).collect()
}

fn options() -> RunOptions {
    RunOptions::default().threads(std::num::NonZeroUsize::new(1))
}

/// Writes both files, or resumes from the existing files. Whatever they contain, a file under its final name
/// must be correct.
fn resume(folder: &Path, cancel: &AtomicBool) -> bool {
    let (run, paths, origin) = (Run::new(), paths(folder), origin());
    let journaling = Journaling { origin: &origin, resume: true, on_resume: &|_| {} };
    let watch = Watch { cancel, ..Watch::default() };
    write_resumable(&run.tasks, &run.files(&paths), false, journaling, &options(), watch).is_ok()
}

fn expected() -> &'static [Vec<u8>; 2] {
    static EXPECTED: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    EXPECTED.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        assert!(resume(folder.path(), &AtomicBool::new(false)), "the run itself");
        OUTPUTS.map(|(name, _)| fs::read(folder.path().join(name)).expect("an output"))
    })
}

/// Checks both files byte for byte after a successful run.
fn check_outputs(folder: &Path) {
    for ((name, _), expected) in OUTPUTS.iter().zip(expected()) {
        let found = fs::read(folder.join(name)).expect("an output of a run that ended well");
        assert!(found == *expected, "other bytes in `{name}`");
    }
}

/// Runs in a folder with these pieces and returns the result of `run`; `target` is part of the folder's name.
fn with_pieces(target: &'static str, bytes: &[u8], names: &[&str], run: impl FnOnce(&Path) -> bool) -> bool {
    // Before memory is counted.
    expected();
    let files: Vec<(&str, &[u8])> =
        pieces::split(bytes).into_iter().filter(|(name, _)| names.contains(name)).collect();
    with_files(target, &files, |folder| {
        let is_done = run(folder);
        if is_done {
            check_outputs(folder);
        }
        empty(folder);
        is_done
    })
}

const OF_RUN: &[&str] = &[".a.journal", ".a.partial", ".b.partial", "b"];

pub(super) fn journal(bytes: &[u8]) -> bool {
    with_pieces("journal", bytes, OF_RUN, |folder| resume(folder, &AtomicBool::new(false)))
}

const OF_PARTS: &[&str] = &[
    ".a.part-1-of-2.journal",
    ".a.part-2-of-2.journal",
    ".a.partial",
    ".b.partial",
    "a.part-2-of-2",
    "a.part-2-of-2.journal",
    "b.part-2-of-2",
];

pub(super) fn parts(bytes: &[u8]) -> bool {
    with_pieces("parts", bytes, OF_PARTS, |folder| {
        let (run, paths, cancel) = (Run::new(), paths(folder), AtomicBool::new(false));
        let watch = Watch { cancel: &cancel, ..Watch::default() };
        let fingerprint = run.fingerprint(&paths);
        parts::assemble(&run.tasks, &run.files(&paths), &fingerprint, false, &options(), watch).is_ok()
    })
}

/// Files of a folder that are among `names`, as one input.
fn joined(folder: &Path, names: &[&'static str]) -> Vec<u8> {
    let read = |name: &&'static str| Some((*name, fs::read(folder.join(name)).ok()?));
    let files: Vec<(&str, Vec<u8>)> = names.iter().filter_map(read).collect();
    pieces::join(files.iter().map(|(name, bytes)| (*name, bytes.as_slice())))
}

/// Files of a run that was interrupted at the start, before its end, and between renaming its files.
pub(crate) fn interrupted_runs() -> Vec<Vec<u8>> {
    let run = Run::new();
    let left = |is_whole: bool| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let paths = paths(folder.path());
        let fingerprint = || run.fingerprint(&paths);
        let journal =
            gguf_conversion::Journal::open(&gguf_conversion::Journal::path_of(&paths[0]), &fingerprint);
        let (journal, _) = journal.expect("a journal in a folder of our own");
        journal.begin(&paths).expect("space");
        let claim = |path: &PathBuf, expected: &[u8]| {
            let claim = gguf_container::Output::claim(
                path,
                expected.len() as u64,
                false,
                gguf_container::Claim::Anew,
            );
            claim.expect("a temporary folder can be written")
        };
        let mut outputs: Vec<gguf_container::Output> =
            paths.iter().zip(expected()).map(|(path, expected)| claim(path, expected)).collect();
        let (schedule, cancel) = (Schedule::new(&run.tasks, JOB_ELEMS), AtomicBool::new(false));
        // All tensors, or all but the last.
        let schedule = schedule.only(|job| is_whole || job.task < 2);
        let watch = Watch { cancel: &cancel, ..Watch::default() };
        gguf_conversion::run_with(&run.tasks, &schedule, &outputs, Some(&journal), &options(), watch)
            .expect("three tensors");
        for (output, plan) in outputs.iter().zip(&run.plans) {
            output.write_at(0, plan.header_bytes()).expect("space");
        }
        if is_whole {
            journal.whole().expect("space");
            outputs
                .last_mut()
                .map(gguf_container::Output::place)
                .expect("two outputs")
                .expect("no such file yet");
        } else {
            journal.checkpoint(None).expect("space");
        }
        joined(folder.path(), OF_RUN)
    };
    vec![left(false), left(true)]
}

/// Files of two parts: in one shared file, and the second part in its own files.
pub(crate) fn interrupted_parts() -> Vec<Vec<u8>> {
    let run = Run::new();
    let left = |second: Place| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (paths, cancel) = (paths(folder.path()), AtomicBool::new(false));
        let (rates, fingerprint) = (Rates::default(), run.fingerprint(&paths));
        for (number, place) in [(1, Place::Shared), (2, second)] {
            let number = PartNumber::new(number, 2).expect("one of two");
            let part = Part { number, place, rates: &rates, fingerprint: &fingerprint, on_resume: &|_| {} };
            let watch = Watch { cancel: &cancel, ..Watch::default() };
            let written = parts::write_part(&run.tasks, &run.files(&paths), &part, false, &options(), watch);
            written.expect("a part of three tensors");
        }
        joined(folder.path(), OF_PARTS)
    };
    vec![left(Place::Shared), left(Place::OwnFile)]
}

pub(super) fn plan(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let Ok(plan) = gguf_toolkit::convert::plan_file::PlanFile::parse(text, "gguf-convert") else {
        return false;
    };
    let is_described = plan.fingerprint(Path::new("plan")).is_ok();
    let run = Run::new();
    let schedule = Schedule::new(&run.tasks, JOB_ELEMS);
    // Shares cover everything, whatever costs the plan states.
    let shares = (1..=3).filter_map(|number| PartNumber::new(number, 3));
    let shares: Vec<Share> =
        shares.map(|number| Share::new(&run.tasks, &schedule, &plan.rates(), number)).collect();
    for job in (0..schedule.len()).filter_map(|index| schedule.job(index)) {
        assert_eq!(shares.iter().filter(|share| share.has(&job)).count(), 1, "shares of {job:?}");
    }
    is_described && serde_json::from_value::<Operation>(plan.conversion().clone()).is_ok()
}

pub(super) fn measured_part(bytes: &[u8]) -> bool {
    let bytes = Mapped::from(bytes.to_vec());
    let part = |verb| PartFile::parse(Path::new("part"), bytes.clone(), verb).map(|part| [part]);
    part(perplexity::VERB).is_ok_and(|parts| perplexity::perplexity_of(&parts).is_ok())
        || part(compare::VERB).is_ok_and(|parts| compare::positions_of(&parts).is_ok())
        || part(importance::VERB).is_ok_and(|parts| importance::collected(&parts).is_ok())
}
