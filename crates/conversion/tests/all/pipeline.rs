//! The pipeline through the crate's public API: the division into jobs changes no byte, and the observer sees
//! every row once.

use std::{
    fs,
    num::NonZeroUsize,
    path::Path,
    sync::{Mutex, atomic::AtomicBool},
};

use gguf_container::Output;
use gguf_conversion::{
    CheckpointInput, Conversion, Error, JOB_ELEMS, Job, NonFinite, OutputRequest, PlannedFile, Request,
    RunOptions, Schedule, Target, TensorTask, ValueRows, Watch, recipes::Recipe,
};

fn options(threads: usize) -> RunOptions {
    RunOptions::default().threads(NonZeroUsize::new(threads))
}

fn conversion(
    folder: &Path,
    recipes: &[&str],
    request: Request<'static>,
) -> Conversion<'static, CheckpointInput> {
    let input =
        CheckpointInput::open(crate::folder(folder), &gguf_layout::Options::new(gguf_models::FAMILIES))
            .unwrap();
    let outputs = recipes.iter().map(|name| OutputRequest::by_rules(Recipe::from_name(name).unwrap()));
    Conversion::new(input).outputs(outputs).request(request)
}

/// Runs `tasks` cut into jobs of `job_elems`; returns the bytes of each output.
fn run_cut(tasks: &[TensorTask<'_>], files: &[PlannedFile], job_elems: u64, threads: usize) -> Vec<Vec<u8>> {
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
        Watch { cancel: &cancel, done: &|job, _| seen.lock().unwrap().push(job.clone()), ..Watch::default() };
    let schedule = Schedule::new(tasks, job_elems);
    gguf_conversion::run(tasks, &schedule, &outputs, &options(threads), watch).unwrap();
    // Every row of every tensor was reported exactly once.
    let mut seen = seen.into_inner().unwrap();
    seen.sort_by_key(|job| (job.task, job.rows.start));
    let mut next = vec![0; tasks.len()];
    for job in seen {
        assert_eq!(job.rows.start, next[job.task]);
        next[job.task] = job.rows.end;
    }
    let n_rows: Vec<u64> = tasks.iter().map(|task| task.rows.view().n_rows).collect();
    assert_eq!(next, n_rows);
    outputs.into_iter().for_each(|output| output.finish().unwrap());
    (0..files.len()).map(|i| fs::read(path(i)).unwrap()).collect()
}

#[test]
fn job_division_changes_no_byte() {
    // Heads are cut through, vectors are permuted, experts are stacked.
    for model in ["llama", "llama-bias", "llama-sharded", "mixtral", "llama-tied"] {
        let conversion = conversion(
            &gguf_testkit::checkpoint(model),
            &["q4_k_m", "f16", "bf16", "f32"],
            Request::default(),
        );
        let planned = conversion.plan().unwrap();
        let checked = planned.check().unwrap();
        let (tasks, files) = (checked.tasks(), planned.files());
        let whole = run_cut(tasks, files, u64::MAX, 1);
        for (job_elems, threads) in [(1, 2), (700, 1), (3000, 3), (JOB_ELEMS, 7)] {
            let cut = run_cut(tasks, files, job_elems, threads);
            assert!(cut == whole, "{model}: jobs of {job_elems} elements on {threads} threads");
        }
    }
}

/// With `via`, values lose precision like in the reference's two steps; without it, they keep it.
#[test]
fn via_equals_conversion_in_two_steps() {
    let folder = tempfile::tempdir().unwrap();
    let bf16 = gguf_testkit::checkpoint("llama");
    // An f32 copy of the checkpoint, moved off the grid of bf16 by less than half a step.
    let fine = folder.path().join("llama");
    gguf_testkit::copy_folder(&bf16, &fine);
    let mut tensors = gguf_testkit::read_safetensors(&fs::read(bf16.join("model.safetensors")).unwrap());
    for (dtype, _, bytes) in tensors.values_mut() {
        *dtype = "F32".to_owned();
        let low = |i: usize| ((i * 0x1357 % 0x7000) as u16).to_le_bytes();
        let halves = bytes.chunks_exact(2).enumerate();
        *bytes = halves.flat_map(|(i, half)| [low(i), [half[0], half[1]]].concat()).collect();
    }
    let tensors = tensors.iter().map(|(name, (dtype, shape, bytes))| (&name[..], &dtype[..], shape, bytes));
    fs::write(fine.join("model.safetensors"), gguf_testkit::safetensors(tensors)).unwrap();

    let made = |folder: &Path, via| {
        let mut request = Request::default();
        request.via = via;
        let conversion = conversion(folder, &["q4_0"], request);
        let planned = conversion.plan().unwrap();
        let (checked, files) = (planned.check().unwrap(), planned.files());
        // Norms stay f32 in the converter too, so only rounded tensors can be equal.
        let norms: Vec<_> =
            files[0].plan.tensors().iter().filter(|t| t.dtype == gguf_types::DType::F32).collect();
        let mut bytes = run_cut(checked.tasks(), files, JOB_ELEMS, 2).remove(0);
        for norm in norms {
            bytes[norm.offset as usize..(norm.offset + norm.n_bytes) as usize].fill(0);
        }
        bytes
    };
    let (coarse, via, direct) =
        (made(&bf16, None), made(&fine, Some(gguf_types::DType::BF16)), made(&fine, None));
    assert!(coarse == via);
    assert!(coarse != direct);
}

#[test]
fn first_error_wins_for_any_thread_count() {
    let mut values = vec![1.0f32; 64];
    let first_bad = {
        values[7] = f32::NAN;
        values.clone()
    };
    let bad = vec![f32::INFINITY; 64];
    let good = vec![0.5f32; 64];
    let (dtype, endian) = (gguf_types::DType::Q8_0, gguf_container::Endian::Little);
    let target = Target { output: 0, dtype, endian, offset: 0, weights: None };
    let task = |name: &str, values: &'static [f32]| {
        let mut task = TensorTask::new(name.to_owned(), Box::new(ValueRows(values)));
        task.targets.push(target);
        task
    };
    let (good, first_bad, bad) = (good.leak(), first_bad.leak(), bad.leak());
    let mut tasks: Vec<TensorTask<'_>> = (0..50).map(|i| task(&format!("good {i}"), good)).collect();
    tasks.push(task("first", first_bad));
    tasks.extend((0..50).map(|i| task(&format!("bad {i}"), bad)));
    let folder = tempfile::tempdir().unwrap();
    let schedule = Schedule::new(&tasks, JOB_ELEMS);
    let cancel = AtomicBool::new(false);
    let watch = Watch { cancel: &cancel, ..Watch::default() };
    for threads in [1, 2, 3, 8] {
        let outputs = [Output::create(&folder.path().join("x"), 1000, false).unwrap()];
        let error = gguf_conversion::run(&tasks, &schedule, &outputs, &options(threads), watch).unwrap_err();
        assert_eq!(error.to_string(), "tensor `first`: row 0, column 7 is NaN");
        let allow = options(threads).nonfinite(NonFinite::Allow);
        gguf_conversion::run(&tasks, &schedule, &outputs, &allow, watch).unwrap();
    }
    cancel.store(true, std::sync::atomic::Ordering::Relaxed);
    let outputs = [Output::create(&folder.path().join("x"), 1000, false).unwrap()];
    let error = gguf_conversion::run(&tasks, &schedule, &outputs, &options(2), watch).unwrap_err();
    assert!(matches!(error, Error::Cancelled));
    drop(outputs);
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
}
