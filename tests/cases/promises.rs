//! Reports before the work: dry runs, contexts that are too long.

use crate::common::{Sandbox, succeed};

const QUANTIZE: &str = env!("CARGO_BIN_EXE_gguf-quantize");

/// Writes `a.gguf` in f32, and `q8.gguf` from it.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_converted("llama", "a.gguf", "f32");
    succeed(sandbox.quantize(&["a.gguf", "q8.gguf", "q8_0", "-q"]));
    sandbox
}

#[test]
fn dry_run_prints_plan_and_refusal() {
    let sandbox = sandbox();
    sandbox.write("text.txt", "The quick brown fox jumps over the lazy dog. ".repeat(20));
    let calls: [(&str, &[&str], Option<&str>); 6] = [
        (QUANTIZE, &["a.gguf", "o.gguf", "iq2_xxs"], Some("needs an importance matrix")),
        (QUANTIZE, &["q8.gguf", "o.gguf", "q4_0"], Some("is already quantized: q8_0 would become")),
        (
            env!("CARGO_BIN_EXE_gguf-convert"),
            &["llama", "o.gguf", "-t", "iq2_xxs"],
            Some("needs an importance matrix"),
        ),
        (QUANTIZE, &["--allow-requantize", "q8.gguf", "o.gguf", "q4_0"], None),
        (QUANTIZE, &["a.gguf", "o.gguf", "q4_0"], None),
        // Calibration gathers the importance before the run.
        (QUANTIZE, &["a.gguf", "o.gguf", "iq2_xxs", "--calibrate", "text.txt"], None),
    ];
    for (binary, args, refusal) in calls {
        let dry = sandbox.run(binary, &[args, &["--dry-run"]].concat());
        assert_eq!(dry.code, Some(i32::from(refusal.is_some())), "{args:?}: {}", dry.stderr);
        assert!(dry.stdout.contains("bits/weight"), "{args:?}: {}", dry.stdout);
        assert!(!sandbox.path("o.gguf").exists());
        if let Some(refusal) = refusal {
            assert!(
                dry.stderr.contains(refusal) && dry.stderr.contains("hint: "),
                "{args:?}: {}",
                dry.stderr
            );
            let real = sandbox.run(binary, args);
            assert_eq!((real.code, real.stderr), (dry.code, dry.stderr), "{args:?}");
        }
    }
    let there = sandbox.quantize(&["--dry-run", "a.gguf", "q8.gguf", "q4_0"]);
    there.says("q8.gguf exists; use --force");
}

#[test]
fn context_beyond_training_is_pointed_out() {
    let sandbox = sandbox();
    let trained = sandbox.inspect(&["fit", "a.gguf", "--json"]).json();
    let trained = trained["files"][0]["context_length"].as_u64().unwrap();
    let expected = format!(
        "a.gguf: {} tokens exceed the {trained} that the model was trained for, and the file sets no RoPE scaling",
        trained + 1
    );
    let beyond =
        sandbox.inspect(&["fit", "a.gguf", "--memory", "8GB", "--context", &(trained + 1).to_string()]);
    assert!(beyond.code == Some(0) && beyond.stderr.contains(&expected), "{}", beyond.stderr);
    let within = sandbox.inspect(&["fit", "a.gguf", "--memory", "8GB", "--context", &trained.to_string()]);
    assert!(!within.stderr.contains("trained"), "{}", within.stderr);
    let long = "word ".repeat(usize::try_from(trained).unwrap());
    sandbox.write("long.txt", format!("{long}\n0\none\ntwo\nthree\nfour\n"));
    sandbox.write("short.txt", "A word\n0\none\ntwo\nthree\nfour\n");
    let score = |tasks| sandbox.eval(&["score", "a.gguf", "--hellaswag", tasks]).stderr;
    assert!(score("long.txt").contains("llama.context_length"), "{}", score("long.txt"));
    assert!(!score("short.txt").contains("context_length"), "{}", score("short.txt"));
}
