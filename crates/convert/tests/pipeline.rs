//! The pipeline through the crate's own door: how work is cut changes no byte, and whoever
//! watches sees every row once.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    fs,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{Mutex, atomic::AtomicBool},
};

use convert::{
    Error, JOB_ELEMS, Job, NonFinite, Request, RunOptions, Schedule, Watch, Work, recipes::Recipe,
};
use gguf::Output;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/arch").join(name)
}

fn options(threads: usize) -> RunOptions {
    RunOptions { threads: NonZeroUsize::new(threads), ..RunOptions::default() }
}

/// Runs `works` cut into jobs of `job_elems`; gives the bytes of each output.
fn run_cut(
    works: &[Work<'_>],
    files: &[convert::PlannedFile],
    job_elems: u64,
    threads: usize,
) -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let path = |i: usize| folder.path().join(i.to_string());
    let outputs: Vec<Output> = files
        .iter()
        .enumerate()
        .map(|(i, file)| {
            let output = Output::create(&path(i), file.plan.file_len(), false).unwrap();
            output.write_at(0, file.plan.header_bytes()).unwrap();
            output
        })
        .collect();
    let seen = Mutex::new(Vec::<Job>::new());
    let cancel = AtomicBool::new(false);
    let watch =
        Watch { cancel: &cancel, done: &|job, _| seen.lock().unwrap().push(job.clone()), sources: &[] };
    let schedule = Schedule::new(works, job_elems);
    convert::run(works, &schedule, &outputs, &options(threads), watch).unwrap();
    // Every row of every tensor was told exactly once.
    let mut seen = seen.into_inner().unwrap();
    seen.sort_by_key(|job| (job.work, job.rows.start));
    let mut next = vec![0; works.len()];
    for job in seen {
        assert_eq!(job.rows.start, next[job.work]);
        next[job.work] = job.rows.end;
    }
    let n_rows: Vec<u64> = works.iter().map(|work| work.rows.view().n_rows).collect();
    assert_eq!(next, n_rows);
    outputs.into_iter().for_each(|output| output.finish().unwrap());
    (0..files.len()).map(|i| fs::read(path(i)).unwrap()).collect()
}

#[test]
fn how_work_is_cut_changes_no_byte() {
    // Heads are cut through, vectors are permuted, experts are stacked.
    for model in ["llama", "llama-bias", "llama-sharded", "mixtral", "llama-tied"] {
        let checkpoint = source::open(&golden(model)).unwrap();
        let layout = convert::resolve(&checkpoint, &arch::Options::default()).unwrap();
        let files: Vec<_> = ["q4_k_m", "f16", "bf16", "f32"]
            .map(|name| Recipe::from_name(name).unwrap())
            .map(|recipe| convert::plan_files(&layout, recipe, &Request::default()).unwrap().remove(0))
            .to_vec();
        let works = convert::works(&checkpoint, &layout, &files, None, &Request::default(), &[]).unwrap();
        let whole = run_cut(&works, &files, u64::MAX, 1);
        for (job_elems, threads) in [(1, 2), (700, 1), (3000, 3), (JOB_ELEMS, 7)] {
            let cut = run_cut(&works, &files, job_elems, threads);
            assert!(cut == whole, "{model}: jobs of {job_elems} elements on {threads} threads");
        }
    }
}

/// What the reference's two steps lose of f32 is lost with `via` and kept without.
#[test]
fn via_is_conversion_in_two_steps() {
    let folder = tempfile::tempdir().unwrap();
    let bf16 = golden("llama");
    // The same checkpoint in f32, moved off the grid of bf16 by less than half a step.
    let fine = folder.path().join("llama");
    fs::create_dir(&fine).unwrap();
    for entry in fs::read_dir(&bf16).unwrap() {
        let entry = entry.unwrap();
        fs::write(fine.join(entry.file_name()), fs::read(entry.path()).unwrap()).unwrap();
    }
    let bytes = fs::read(bf16.join("model.safetensors")).unwrap();
    let header_len = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + header_len]).unwrap();
    for (name, entry) in header.as_object_mut().unwrap() {
        if name != "__metadata__" {
            entry["dtype"] = "F32".into();
            for offset in entry["data_offsets"].as_array_mut().unwrap() {
                *offset = (offset.as_u64().unwrap() * 2).into();
            }
        }
    }
    let header = header.to_string();
    let mut finer = (header.len() as u64).to_le_bytes().to_vec();
    finer.extend_from_slice(header.as_bytes());
    for (i, half) in bytes[8 + header_len..].chunks_exact(2).enumerate() {
        finer.extend_from_slice(&((i * 0x1357 % 0x7000) as u16).to_le_bytes());
        finer.extend_from_slice(half);
    }
    fs::write(fine.join("model.safetensors"), finer).unwrap();

    let recipe = Recipe::from_name("q4_0").unwrap();
    let made = |folder: &Path, via| {
        let checkpoint = source::open(folder).unwrap();
        let layout = convert::resolve(&checkpoint, &arch::Options::default()).unwrap();
        let files = vec![convert::plan_files(&layout, recipe, &Request::default()).unwrap().remove(0)];
        let works = convert::works(&checkpoint, &layout, &files, via, &Request::default(), &[]).unwrap();
        // Norms stay f32 in the converter too, so only what it rounds can be equal.
        let norms: Vec<_> =
            files[0].plan.tensors().iter().filter(|t| t.dtype == tensor::DType::F32).collect();
        let mut bytes = run_cut(&works, &files, JOB_ELEMS, 2).remove(0);
        for norm in norms {
            bytes[norm.offset as usize..(norm.offset + norm.n_bytes) as usize].fill(0);
        }
        bytes
    };
    let (coarse, via, direct) =
        (made(&bf16, None), made(&fine, Some(tensor::DType::BF16)), made(&fine, None));
    assert!(coarse == via);
    assert!(coarse != direct);
}

#[test]
fn the_first_error_in_order_wins_on_any_number_of_threads() {
    let mut values = vec![1.0f32; 64];
    let first_bad = {
        values[7] = f32::NAN;
        values.clone()
    };
    let bad = vec![f32::INFINITY; 64];
    let good = vec![0.5f32; 64];
    let target = convert::Target { output: 0, dtype: tensor::DType::Q8_0, offset: 0, needs_weights: false };
    let work = |name: &str, values: &'static [f32]| Work {
        name: name.to_owned(),
        rows: convert::TensorRows::Values(values),
        weights: None,
        stand_in: None,
        via: None,
        targets: vec![target],
    };
    let (good, first_bad, bad) = (good.leak(), first_bad.leak(), bad.leak());
    let mut works: Vec<Work<'_>> = (0..50).map(|i| work(&format!("good {i}"), good)).collect();
    works.push(work("first", first_bad));
    works.extend((0..50).map(|i| work(&format!("bad {i}"), bad)));
    let folder = tempfile::tempdir().unwrap();
    let schedule = Schedule::new(&works, JOB_ELEMS);
    let cancel = AtomicBool::new(false);
    let watch = Watch { cancel: &cancel, done: &|_, _| {}, sources: &[] };
    for threads in [1, 2, 3, 8] {
        let outputs = [Output::create(&folder.path().join("x"), 1000, false).unwrap()];
        let error = convert::run(&works, &schedule, &outputs, &options(threads), watch).unwrap_err();
        assert_eq!(error.to_string(), "tensor `first`: row 0, column 7 is NaN");
        let allow = RunOptions { nonfinite: NonFinite::Allow, ..options(threads) };
        convert::run(&works, &schedule, &outputs, &allow, watch).unwrap();
    }
    cancel.store(true, std::sync::atomic::Ordering::Relaxed);
    let outputs = [Output::create(&folder.path().join("x"), 1000, false).unwrap()];
    let error = convert::run(&works, &schedule, &outputs, &options(2), watch).unwrap_err();
    assert!(matches!(error, Error::Cancelled));
    drop(outputs);
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
}
