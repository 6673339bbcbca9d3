//! Runs that are killed and gone on with: the same bytes, nothing under a final name before the end, and no rows of
//! anything that changed.
//!
//! `KILLS` in the environment is the number of kills at random moments (12 without it), `KILL_SEED` where their random moments begin.
//! `KILLS=100 cargo test --test all killed_at_any_moment` takes some minutes.

use std::{
    collections::BTreeMap,
    fs,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::common::{
    Numbers, Sandbox, finish, has_finished_rows, sandbox_of_weights as sandbox, signal, succeed, wait_until,
    words,
};

const CONVERT: &str = env!("CARGO_BIN_EXE_gguf-convert");
const QUANTIZE: &str = env!("CARGO_BIN_EXE_gguf-quantize");

/// Runs until rows are noted, and kills. The leftovers are those of `out/x.gguf`.
fn kill_with_rows(sandbox: &Sandbox, args: &[&str]) {
    let journal = sandbox.path("out/.x.gguf.journal");
    let mut child = wait_until(sandbox.spawn(CONVERT, args), 120, || has_finished_rows(&journal));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!sandbox.path("out/x.gguf").exists());
}

/// Slow enough to be killed on the way.
const SLOW: &[&str] = &["tiny", "out/x.gguf", "-t", "iq3_s", "-j", "1", "-q"];

/// The file that [`SLOW`] makes.
fn expected(sandbox: &Sandbox) -> Vec<u8> {
    succeed(sandbox.convert(&[&["tiny", "x.gguf"], &SLOW[2..4]].concat()));
    sandbox.read("x.gguf")
}

/// A way to convert.
struct Case {
    name: &'static str,
    binary: &'static str,
    args: Vec<&'static str>,
    environment: Vec<(&'static str, String)>,
}

impl Case {
    fn command(&self, sandbox: &Sandbox, more: &[&str]) -> Command {
        let mut command = sandbox.command(self.binary);
        if !self.environment.is_empty() {
            for variable in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "HF_HUB_OFFLINE"] {
                command.env_remove(variable);
            }
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.args(&self.args).args(more).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

fn cases(sandbox: &Sandbox) -> Vec<Case> {
    let case = |name, binary, line| Case { name, binary, args: words(line), environment: Vec::new() };
    let mut cases = vec![
        case("single", CONVERT, "tiny out/x.gguf -t iq3_s"),
        case("sharded", CONVERT, "tiny out/x.gguf -t iq3_s --split-max-tensors 3"),
        case("several", CONVERT, "tiny out/{ftype}.gguf -t iq3_s,q4_k_m,q8_0"),
        case("quantize", QUANTIZE, "tiny.gguf out/x.gguf iq3_s"),
    ];
    #[cfg(feature = "remote")]
    {
        let is_large = |name: &str| name.ends_with(".safetensors");
        let server = crate::hub_server::HubServer::of(&sandbox.path("tiny"), is_large);
        let mut remote = case("remote", CONVERT, "hf://org/model out/x.gguf -t iq3_s");
        // Small files left by a killed run go with the sandbox.
        fs::create_dir(sandbox.path("tmp")).unwrap();
        let temporary = sandbox.path("tmp").display().to_string();
        remote.environment = vec![
            ("HF_ENDPOINT", server.endpoint.clone()),
            ("HF_TOKEN", crate::hub_server::TOKEN.to_owned()),
            ("TMPDIR", temporary),
        ];
        cases.push(remote);
    }
    cases
}

/// Files with their final names are complete, and of shards the first comes last.
fn assert_named_are_complete(now: &BTreeMap<String, String>, files: &BTreeMap<String, String>, what: &str) {
    for (name, digest) in now.iter().filter(|(name, _)| !name.starts_with('.')) {
        assert_eq!(Some(digest), files.get(name), "{what}: {name} is there before it is whole");
    }
    if files.keys().next().is_some_and(|first| now.contains_key(first)) {
        assert!(files.keys().all(|name| now.contains_key(name)), "{what}: {:?}", now.keys());
    }
}

#[test]
fn killed_at_any_moment_resumes_to_same_bytes() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (n_kills, mut numbers) = (number("KILLS").unwrap_or(12), Numbers(number("KILL_SEED").unwrap_or(1)));
    let sandbox = sandbox();
    succeed(sandbox.convert(&words("tiny tiny.gguf -t f32 -q")));
    let cases = cases(&sandbox);
    let clear = |files: &BTreeMap<String, String>| {
        files.keys().for_each(|name| fs::remove_file(sandbox.path("out").join(name)).unwrap());
    };
    // Output and duration of each undisturbed run.
    let undisturbed: Vec<(BTreeMap<String, String>, Duration)> = cases
        .iter()
        .map(|case| {
            let begun = Instant::now();
            let ran = finish(case.command(&sandbox, &["-j", "2"]).spawn().unwrap());
            assert_eq!(ran.code, Some(0), "{}: {}", case.name, ran.stderr);
            let (files, took) = (sandbox.listing("out"), begun.elapsed());
            clear(&files);
            (files, took)
        })
        .collect();
    let (mut kills, mut resumed, mut attempts) = (0, 0, 0);
    let journal = sandbox.path("out/.x.gguf.journal");
    // One more than at random moments: the first waits for rows, so that a run has some to resume from on a
    // machine that became slow.
    while kills < 1 + n_kills {
        attempts += 1;
        assert!(attempts < 20 * n_kills, "{kills} of {attempts} runs were killed before their end");
        // Cases and threads go round together, so that every pair of them comes.
        let (index, threads) = ((kills as usize) % cases.len(), 1 + (kills / 2) % 4);
        let (case, (files, took)) = (&cases[index], &undisturbed[index]);
        let what = format!("{}, {threads} threads, kill {kills}", case.name);
        let args = ["-j", &threads.to_string()];
        // A resumed run may be killed as well.
        loop {
            let mut child = case.command(&sandbox, &[&args[..], &["--resume"]].concat()).spawn().unwrap();
            let waits_for_rows = kills == 0;
            if waits_for_rows {
                child = wait_until(child, 120, || has_finished_rows(&journal));
            } else {
                thread::sleep(took.mul_f64((numbers.next() % 1000) as f64 / 1000.0));
            }
            child.kill().unwrap();
            let ran = finish(child);
            assert_named_are_complete(&sandbox.listing("out"), files, &what);
            kills += u64::from(ran.code.is_none());
            // It ended before it was killed, or it is time to check the result.
            if waits_for_rows || ran.code.is_some() || numbers.next() % 3 != 0 {
                assert!(ran.code.is_none_or(|code| code == 0), "{what}: {}", ran.stderr);
                break;
            }
        }
        let now = sandbox.outputs();
        let is_there = files.keys().all(|name| now.contains(name));
        let has_journal = now.iter().any(|name| name.ends_with(".journal"));
        if !is_there || has_journal {
            // Killed between the last name and the end, all is there already.
            let force = if is_there { &["--force"][..] } else { &[] };
            let ran =
                finish(case.command(&sandbox, &[&args[..], &["--resume"], force].concat()).spawn().unwrap());
            assert_eq!(ran.code, Some(0), "{what}: {}", ran.stderr);
            resumed += u64::from(ran.stderr.contains("resuming: "));
        }
        assert_eq!(&sandbox.listing("out"), files, "{what}");
        clear(files);
    }
    println!("{kills} kills in {attempts} attempts; {resumed} last runs went on with rows of a killed one");
    assert!(resumed > 0, "no run ever went on");
}

#[test]
fn stopped_run_is_refused_until_decided() {
    let sandbox = sandbox();
    let expected = expected(&sandbox);
    kill_with_rows(&sandbox, SLOW);
    assert_eq!(sandbox.outputs(), [".x.gguf.journal", ".x.gguf.partial"]);
    let ran = sandbox.convert(SLOW);
    assert_eq!(ran.code, Some(1));
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert!(lines[0].starts_with("error: out/x.gguf: an earlier run was interrupted "), "{}", ran.stderr);
    assert!(lines[0].contains(" s ago after ") && lines[0].ends_with(" MB"), "{}", ran.stderr);
    assert_eq!(lines[1], "hint: use --resume to continue that run, or --force to start over");
    assert_eq!(lines[2], "hint: run `rm out/.x.gguf.journal out/.x.gguf.partial` to remove its files");
    // Another output is not affected.
    assert_eq!(sandbox.convert(&words("tiny out/y.gguf -t q8_0 -q")), crate::common::silent());
    fs::remove_file(sandbox.path("out/y.gguf")).unwrap();

    let ran = succeed(sandbox.convert(&[&SLOW[..6], &["--resume"]].concat()));
    assert!(ran.stderr.contains("note: resuming: ") && ran.stderr.contains(" verified"), "{}", ran.stderr);
    assert!(sandbox.read("out/x.gguf") == expected);
    assert_eq!(sandbox.outputs(), ["x.gguf"]);

    // Begun anew, what was left is gone.
    fs::remove_file(sandbox.path("out/x.gguf")).unwrap();
    kill_with_rows(&sandbox, SLOW);
    succeed(sandbox.convert(&words("tiny out/x.gguf -t q8_0 --force")));
    assert_eq!(sandbox.outputs(), ["x.gguf"]);
    // With nothing to resume, it starts from the beginning.
    fs::remove_file(sandbox.path("out/x.gguf")).unwrap();
    let ran = succeed(sandbox.convert(&words("tiny out/x.gguf -t q8_0 --resume")));
    ran.says("note: nothing to resume, starting from the beginning");
}

#[test]
fn finished_output_is_kept() {
    let sandbox = sandbox();
    let shards = words("tiny out/x.gguf -t q8_0 --split-max-tensors 3");
    for args in [&words("tiny out/x.gguf -t q8_0")[..], &shards] {
        succeed(sandbox.convert(args));
        let (files, first) = (sandbox.listing("out"), sandbox.outputs().remove(0));
        let time = || fs::metadata(sandbox.path("out").join(&first)).unwrap().modified().unwrap();
        let written = time();
        let ran = succeed(sandbox.convert(&[args, &["--resume"]].concat()));
        ran.says(&format!("out/{first} is already finished"));
        assert_eq!((sandbox.listing("out"), time()), (files.clone(), written));
        let json = succeed(sandbox.convert(&[args, &["--resume", "--json"]].concat())).json();
        assert_eq!(json["outputs"].as_array().unwrap().len(), files.len());
        for (more, difference) in [
            (&["-t", "q4_0"][..], ", found q8_0"),
            (&["--model-name", "Other"], "metadata key `general.name` differs"),
            (&["--override-kv", "a.b=int:1"], "metadata key `a.b` differs"),
        ] {
            let args: Vec<&str> = match more[0] {
                "-t" => args.iter().map(|arg| if *arg == "q8_0" { more[1] } else { arg }).collect(),
                _ => [args, more].concat(),
            };
            let ran = sandbox.convert(&[&args[..], &["--resume"]].concat());
            ran.ends_and_says(1, "written with other options or from another input: ");
            assert!(
                ran.stderr.contains(difference) || args.contains(&"--split-max-tensors"),
                "{}",
                ran.stderr
            );
            assert_eq!(sandbox.listing("out"), files);
        }
        let ran = succeed(sandbox.convert(&[args, &["--resume", "--force"]].concat()));
        ran.says("wrote out/");
        sandbox.outputs().iter().for_each(|name| fs::remove_file(sandbox.path("out").join(name)).unwrap());
    }
}

#[test]
fn changed_inputs_are_refused_by_name() {
    let sandbox = sandbox();
    let expected = expected(&sandbox);
    kill_with_rows(&sandbox, SLOW);
    let left = sandbox.listing("out");
    let weights = sandbox.path("tiny/model.safetensors");
    let full = |name: &str| sandbox.path("tiny").join(name).display().to_string();
    let refused = |args: &[&str], change: &str| {
        let ran = sandbox.convert(&[args, &["--resume"]].concat());
        assert_eq!(ran.code, Some(1), "{args:?}: {}", ran.stderr);
        let line = format!("error: out/x.gguf: cannot resume: {change}");
        assert_eq!(ran.stderr.lines().next(), Some(line.as_str()), "{args:?}");
        assert_eq!(sandbox.listing("out"), left, "{args:?}");
    };
    refused(&["tiny", "out/x.gguf", "-t", "q8_0", "-q"], "`--type` was `iq3_s` and is now `q8_0`");
    refused(&[SLOW, &["--pure"]].concat(), "`--pure` was not given and is now `given`");
    refused(&[SLOW, &["--model-name", "Other"]].concat(), "`--model-name` was not given and is now `Other`");
    let before = fs::metadata(&weights).unwrap().modified().unwrap();
    let file = fs::File::options().write(true).open(&weights).unwrap();
    file.set_modified(before + Duration::from_secs(1)).unwrap();
    refused(SLOW, &format!("`{}` was modified", full("model.safetensors")));
    file.set_modified(before).unwrap();
    let config = sandbox.text("tiny/config.json");
    let modified = fs::metadata(sandbox.path("tiny/config.json")).unwrap().modified().unwrap();
    sandbox.write("tiny/config.json", config.replace("1e-06", "1e-5"));
    let (was, is) = (config.len(), config.len() - 1);
    refused(SLOW, &format!("`{}` had {was} bytes and now has {is}", full("config.json")));
    sandbox.write("tiny/config.json", &config);
    let file = fs::File::options().write(true).open(sandbox.path("tiny/config.json")).unwrap();
    file.set_modified(modified).unwrap();
    refused(
        &[SLOW, &["--override-kv", "a.b=int:1"]].concat(),
        "`--override-kv` was not given and is now `a.b=int:1`",
    );
    // Another number of threads and another way to talk change nothing; nor does the spelling of the type.
    succeed(sandbox.convert(&words("tiny out/x.gguf -t IQ3_S -j 3 -v --resume")));
    assert!(sandbox.read("out/x.gguf") == expected);
}

#[test]
fn finished_rows_are_verified_before_reuse() {
    let sandbox = sandbox();
    let expected = expected(&sandbox);
    let partial = sandbox.path("out/.x.gguf.partial");
    let journal = sandbox.path("out/.x.gguf.journal");
    let resumes = |message: &str| {
        let ran = succeed(sandbox.convert(&words("tiny out/x.gguf -t iq3_s --resume")));
        assert!(ran.stderr.contains(message), "`{message}` is not in {}", ran.stderr);
        assert!(sandbox.read("out/x.gguf") == expected, "{message}: other bytes");
        assert_eq!(sandbox.outputs(), ["x.gguf"]);
        fs::remove_file(sandbox.path("out/x.gguf")).unwrap();
    };
    // Rows that never reached the disk, padding included.
    kill_with_rows(&sandbox, SLOW);
    fs::write(&partial, vec![0xff; expected.len()]).unwrap();
    resumes("the earlier run failed verification and are converted again");
    // One that became shorter, and one that is gone.
    kill_with_rows(&sandbox, SLOW);
    fs::File::options().write(true).open(&partial).unwrap().set_len(1000).unwrap();
    resumes("are converted again");
    kill_with_rows(&sandbox, SLOW);
    fs::remove_file(&partial).unwrap();
    resumes("are converted again");
    // A line that was cut by a crash, and what a disk made of the journal.
    kill_with_rows(&sandbox, SLOW);
    let text = fs::read(&journal).unwrap();
    fs::write(&journal, [&text[..], b"0123456789abcdef {\"done\":[[0,"].concat()).unwrap();
    resumes("note: resuming: ");
    for wrong in [&[0; 100][..], b"", b"{}\n", &text[..20]] {
        kill_with_rows(&sandbox, SLOW);
        fs::write(&journal, wrong).unwrap();
        resumes("note: nothing to resume, starting from the beginning");
    }
}

#[test]
fn second_run_names_owner_of_output() {
    let sandbox = sandbox();
    let several = ["tiny", "out/{ftype}.gguf", "-t", "iq3_s,q8_0", "-j", "1", "-q"];
    let mut first = sandbox.spawn(CONVERT, &several);
    let begun = Instant::now();
    while !sandbox.path("out/.q8_0.gguf.partial").exists() {
        assert!(begun.elapsed() < Duration::from_secs(60) && first.try_wait().unwrap().is_none());
    }
    signal(&first, "STOP");
    let left = sandbox.listing("out");
    let who = format!("being written by process {} on this machine, since ", first.id());
    // By the first of its outputs, by another one, with and without options.
    for (out, more) in [
        ("out/{ftype}.gguf", &["-t", "iq3_s,q8_0"][..]),
        ("out/iq3_s.gguf", &["-t", "q4_0", "--force"]),
        ("out/q8_0.gguf", &["-t", "q8_0", "--resume"]),
        ("out/{ftype}.gguf", &["-t", "q4_0,q8_0", "--force"]),
    ] {
        let ran = sandbox.convert(&[&["tiny", out], more].concat());
        assert_eq!(ran.code, Some(1), "{more:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(&who), "{more:?}: {}", ran.stderr);
        assert_eq!(sandbox.listing("out"), left, "{more:?}");
    }
    signal(&first, "CONT");
    succeed(finish(first));
    assert_eq!(sandbox.outputs(), ["iq3_s.gguf", "q8_0.gguf"]);
}
