//! `plan`, `part` and `assemble`: the parts of several workers give the file of one run, byte for byte.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::Child,
    thread,
    time::{Duration, Instant},
};

use crate::common::{
    Sandbox, finish, has_finished_rows, sandbox_of_weights as sandbox, signal, succeed, words,
};

const CONVERT: &str = env!("CARGO_BIN_EXE_gguf-convert");
const QUANTIZE: &str = env!("CARGO_BIN_EXE_gguf-quantize");

/// A call that fails and says this; nothing has the final name.
fn fail(sandbox: &Sandbox, args: &[&str], message: &str) {
    let ran = sandbox.convert(args);
    assert!(
        ran.code == Some(1) && ran.stderr.contains(message),
        "{args:?}: `{message}` is not in\n{}",
        ran.stderr
    );
    assert!(!sandbox.path("out/x.gguf").exists(), "{args:?}");
}

/// A worker that has noted rows in its journal and then stands still, however busy the machine is: one that was done before it could
/// be stopped is begun anew, without what it left.
fn stopped_at_work(sandbox: &Sandbox, args: &[&str], journal: &Path) -> Child {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(300) {
        let mut worker = sandbox.spawn(CONVERT, args);
        while worker.try_wait().unwrap().is_none() && !has_finished_rows(journal) {
            thread::sleep(Duration::from_millis(1));
        }
        if worker.try_wait().unwrap().is_none() {
            signal(&worker, "STOP");
            if !fs::read_to_string(journal).is_ok_and(|text| text.contains("\"whole\"")) {
                return worker;
            }
            signal(&worker, "CONT");
        }
        succeed(finish(worker));
        for name in sandbox.outputs() {
            fs::remove_file(sandbox.path("out").join(name)).unwrap();
        }
    }
    panic!("it is always done before it can be stopped");
}

/// The files of one run with these arguments; they are removed again.
fn of_one_run(sandbox: &Sandbox, binary: &str, args: &[&str]) -> BTreeMap<String, String> {
    succeed(sandbox.run(binary, &[args, &["-q"]].concat()));
    let files = sandbox.listing("out");
    files.keys().for_each(|name| fs::remove_file(sandbox.path("out").join(name)).unwrap());
    files
}

fn plan(sandbox: &Sandbox, args: &[&str]) {
    succeed(sandbox.convert(&[&["plan", "plan.json"], args, &["-q"]].concat()));
}

const SINGLE: &[&str] = &["tiny", "out/x.gguf", "-t", "q4_k_m"];

#[test]
fn two_workers_match_one_run() {
    let sandbox = sandbox();
    succeed(sandbox.convert(&words("tiny tiny.gguf -t f32 -q")));
    let cases: [(&str, &[&str]); 4] = [
        (CONVERT, SINGLE),
        (CONVERT, &words("tiny out/x.gguf -t q8_0 --split-max-tensors 3")),
        (CONVERT, &["tiny", "out/{ftype}.gguf", "-t", "q4_0,q8_0"]),
        (QUANTIZE, &["tiny.gguf", "out/x.gguf", "q5_k_m"]),
    ];
    for (index, (binary, args)) in cases.into_iter().enumerate() {
        let expected = of_one_run(&sandbox, binary, args);
        let saved = succeed(sandbox.run(binary, &[&["plan", "plan.json"], args, &["--force"]].concat()));
        saved.says("wrote plan.json: a plan of ");
        assert!(sandbox.outputs().is_empty(), "a plan writes no output");
        for (count, own) in [(2, false), (2, true), (3, index % 2 == 0)] {
            let part = |number| {
                let part = format!("{number}/{count}");
                let own: &[&str] = if own { &["--part-files"] } else { &[] };
                sandbox.spawn(binary, &[&["part", "plan.json", &part, "-j", "1"], own].concat())
            };
            // Both at the same time.
            let workers: Vec<Child> = (1..=count).map(part).collect();
            for worker in workers {
                succeed(finish(worker));
            }
            let names = sandbox.outputs();
            assert!(names.iter().all(|name| name.starts_with('.') || name.contains(".part-")), "{names:?}");
            // Called again, a part has nothing to do.
            let again = succeed(finish(part(1)));
            again.says("is already complete");
            succeed(sandbox.run(binary, &["assemble", "plan.json", "-q"]));
            assert_eq!(sandbox.listing("out"), expected, "{args:?} {count} {own}");
            expected.keys().for_each(|name| fs::remove_file(sandbox.path("out").join(name)).unwrap());
        }
    }
}

#[test]
fn killed_worker_resumes_to_same_bytes() {
    let sandbox = sandbox();
    let slow = ["tiny", "out/x.gguf", "-t", "iq3_s"];
    let expected = of_one_run(&sandbox, CONVERT, &slow);
    plan(&sandbox, &slow);
    for (own, journal) in
        [(false, "out/.x.gguf.part-2-of-2.journal"), (true, "out/x.gguf.part-2-of-2.journal")]
    {
        let own: &[&str] = if own { &["--part-files"] } else { &[] };
        let part = |number: &'static str| [&["part", "plan.json", number, "-j", "1"][..], own].concat();
        let mut worker = stopped_at_work(&sandbox, &part("2/2"), &sandbox.path(journal));
        // Meanwhile the same part and the assembly are locked.
        let twice = sandbox.convert(&part("2/2"));
        let is_named = twice.stderr.contains("x.gguf.part-2-of-2: being written by process ");
        assert!(twice.code == Some(1) && is_named, "{}", twice.stderr);
        worker.kill().unwrap();
        worker.wait().unwrap();
        fail(&sandbox, &["assemble", "plan.json"], "1 (not started)");
        succeed(sandbox.convert(&part("1/2")));
        fail(&sandbox, &["assemble", "plan.json"], "part 2 of 2 is missing (interrupted after ");
        let again = succeed(sandbox.convert(&part("2/2")));
        again.says("note: resuming: ");
        succeed(sandbox.convert(&["assemble", "plan.json"]));
        assert_eq!(sandbox.listing("out"), expected);
        fs::remove_file(sandbox.path("out/x.gguf")).unwrap();
    }
}

#[test]
fn mismatched_parts_are_refused_by_name() {
    let sandbox = sandbox();
    plan(&sandbox, SINGLE);
    let (one, two) = (["part", "plan.json", "1/2"], ["part", "plan.json", "2/2"]);
    let assemble = ["assemble", "plan.json"];
    fail(&sandbox, &assemble, "out/x.gguf`: no parts found");
    succeed(sandbox.convert(&one));
    fail(&sandbox, &assemble, "part 2 of 2 is missing (not started)");
    fail(
        &sandbox,
        &["part", "plan.json", "1/3"],
        "part-1-of-2.journal` belongs to a run with 2 parts, expected 3",
    );
    succeed(sandbox.convert(&two));

    // Another plan of the same output.
    succeed(sandbox.convert(&words("plan other.json tiny out/x.gguf -t q8_0 -q")));
    let other = ["part", "other.json", "1/2"];
    fail(&sandbox, &other, "belongs to another plan: `--type` was `q4_k_m` and is now `q8_0`");
    fail(
        &sandbox,
        &["assemble", "other.json"],
        "belongs to another plan: `--type` was `q4_k_m` and is now `q8_0`",
    );
    // A run without a plan reports the part in progress.
    fail(&sandbox, SINGLE, "an earlier run was interrupted");

    // A byte that turned over in what a part wrote.
    let temporary = sandbox.path("out/.x.gguf.partial");
    let whole = fs::read(&temporary).unwrap();
    let mut damaged = whole.clone();
    let at = damaged.len() - 1000;
    damaged[at] ^= 1;
    fs::write(&temporary, &damaged).unwrap();
    fail(&sandbox, &assemble, "x.gguf.part-2-of-2`: rows ");
    succeed(sandbox.convert(&[&two[..], &["--force"]].concat()));
    assert_eq!(fs::read(&temporary).unwrap()[at], whole[at]);

    // A plan of another program, an invalid plan, and arguments that contradict the plan.
    let ran = sandbox.quantize(&assemble);
    ran.says("plan.json: expected program `gguf-quantize ");
    sandbox.write("none.json", "{}");
    fail(&sandbox, &["assemble", "none.json"], "none.json: not a plan file: ");
    fail(&sandbox, &["assemble", "absent.json"], "absent.json: cannot open: ");
    for (args, message) in [
        (&["part", "plan.json", "1/2", "--type", "q8_0"][..], "`--type`"),
        (&["part", "plan.json", "1/2", "tiny"], "'tiny'"),
        (&["part", "plan.json"], "<K/N>"),
        (&["part", "plan.json", "3/2"], "expected K/N with K from 1 to N"),
        (&["assemble", "plan.json", "--part", "1/2"], "`--part`"),
        (
            &["plan", "plan.json", "tiny", "--type", "q8_0", "--dry-run"],
            "--dry-run cannot be used with a plan",
        ),
        (&["plan", "plan.json", "vocab", "tiny"], "`vocab` cannot be used with a plan"),
    ] {
        let ran = sandbox.convert(args);
        assert!(ran.code == Some(2) && ran.stderr.contains(message), "{args:?}: {}", ran.stderr);
    }

    // An input that changed since, of the same length.
    let path = sandbox.path("tiny/model.safetensors");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes).unwrap();
    fail(&sandbox, &one, "plan.json: inputs changed since the plan was made: `");
    fail(&sandbox, &assemble, "model.safetensors` was modified");
    fs::write(&path, &bytes[..bytes.len() - 2]).unwrap();
    fail(&sandbox, &assemble, "tiny: ");
}

#[test]
fn parts_do_not_replace_existing_output() {
    let sandbox = sandbox();
    plan(&sandbox, SINGLE);
    let parts = [["part", "plan.json", "1/2"], ["part", "plan.json", "2/2"]];
    parts.iter().for_each(|part| drop(succeed(sandbox.convert(part))));
    sandbox.write("out/x.gguf", "other");
    let ran = sandbox.convert(&["assemble", "plan.json"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("already exists"), "{}", ran.stderr);
    assert_eq!(sandbox.read("out/x.gguf"), b"other");
    succeed(sandbox.convert(&["assemble", "plan.json", "--force", "-q"]));
    let assembled = sandbox.listing("out");
    fs::remove_file(sandbox.path("out/x.gguf")).unwrap();
    assert_eq!(of_one_run(&sandbox, CONVERT, SINGLE), assembled);
}

#[test]
fn more_parts_than_jobs_are_complete() {
    let sandbox = Sandbox::with_golden("llama");
    let args = ["llama", "out/x.gguf", "-t", "q8_0"];
    let expected = of_one_run(&sandbox, CONVERT, &args);
    plan(&sandbox, &args);
    for number in 1..=30 {
        let part = format!("{number}/30");
        succeed(sandbox.convert(&["part", "plan.json", &part, "-q"]));
    }
    succeed(sandbox.convert(&["assemble", "plan.json", "-q"]));
    assert_eq!(sandbox.listing("out"), expected);
}
