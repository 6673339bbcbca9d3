//! `gguf-convert --to whisper.cpp`, and files of whisper.cpp as inputs.

use std::fs;

use crate::common::{Sandbox, copy_folder, read_json, sha256, succeed, words};

/// A sandbox with a Whisper model of 64 dimensions.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    copy_folder(&gguf_testkit::foreign("whisper-f32"), &sandbox.path("whisper"));
    fs::create_dir(sandbox.path("out")).unwrap();
    sandbox
}

#[test]
fn several_types_are_written_in_one_pass() {
    let sandbox = sandbox();
    let ran = sandbox.convert(&words("whisper out/{ftype}.bin -t q5_0,f32,q8_0 --to whisper.cpp -q"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    // Without a type: f16, with the name of the model.
    succeed(sandbox.convert(&words("whisper out/ --to whisper.cpp -j 3 --resume")));
    let expected = read_json(gguf_testkit::foreign("whisper-f32").join("expected.json"));
    let files = sandbox.outputs();
    assert_eq!(
        files,
        ["Whisper-290K-F16.bin", "f32.bin", "q5_0.bin", "q8_0.bin"].map(str::to_owned),
        "{files:?}"
    );
    for (file, kind) in
        [("q5_0.bin", "q5_0"), ("f32.bin", "f32"), ("q8_0.bin", "q8_0"), ("Whisper-290K-F16.bin", "f16")]
    {
        let bytes = sandbox.read(&format!("out/{file}"));
        assert_eq!(sha256(&bytes), expected["files"][kind][1].as_str().unwrap(), "{kind}");
    }
}

#[test]
fn finished_and_existing_files_are_recognized() {
    let sandbox = sandbox();
    // ggml-org/whisper.cpp issue 2557.
    let ran = succeed(sandbox.convert(&words("whisper out/f32.bin -t f32 --to whisper.cpp")));
    ran.says("warning: whisper.cpp aborts on the convolutions of f32 files on CPUs; use f16");
    let call = words("whisper out/x.bin --to whisper.cpp");
    let first = succeed(sandbox.convert(&call));
    first.says("warning: whisper.cpp derives the ids of special tokens from a vocabulary size of 51864");
    sandbox.convert(&call).ends_and_says(1, "already exists");
    let resumed = succeed(sandbox.convert(&[&call[..], &["--resume"]].concat()));
    resumed.says("out/x.bin is already finished");
    let ran = sandbox.convert(&[&call[..], &["--resume", "-t", "q8_0"]].concat());
    ran.ends_and_says(1, "written with other options or from another input");
    let plan = sandbox.convert(&words("whisper out/y.bin --to whisper.cpp -t q4_0 --dry-run --json")).json();
    let tensors = plan["outputs"][0]["tensors"].as_array().unwrap();
    let dtype = |name: &str| tensors.iter().find(|tensor| tensor["name"] == name).unwrap()["dtype"].clone();
    assert_eq!(
        [
            dtype("encoder.conv1.weight"),
            dtype("encoder.conv1.bias"),
            dtype("decoder.positional_embedding"),
            dtype("decoder.token_embedding.weight"),
        ],
        ["f16", "f32", "f32", "q4_0"]
    );
    assert_eq!(
        plan["outputs"][0]["bytes"],
        read_json(gguf_testkit::foreign("whisper-f32").join("expected.json"))["files"]["q4_0"][0]
    );
}

#[test]
fn other_options_and_formats_are_refused() {
    let sandbox = sandbox();
    for (options, text) in [
        ("--imatrix x.gguf", "--imatrix cannot be used with the format of whisper.cpp"),
        ("--tensor-type conv=q8_0", "--tensor-type cannot be used with the format of whisper.cpp"),
        ("--big-endian", "--big-endian cannot be used with the format of whisper.cpp"),
        ("--with-mmproj", "--with-mmproj cannot be used with the format of whisper.cpp"),
    ] {
        let ran = sandbox.convert(&[&words("whisper out/x --to whisper.cpp"), &words(options)[..]].concat());
        ran.ends_and_says(2, text);
    }
    let ran = sandbox.convert(&words("whisper out/x --to hf"));
    ran.ends_and_says(2, "use `gguf-convert export` to write a checkpoint folder");
    let ran = sandbox.convert(&words("whisper out/x --to whisper.cpp -t q4_k_m"));
    ran.ends_and_says(1, "whisper.cpp: type `q4_k_m` is not supported; expected one of f16, f32, q4_0");
    sandbox.write("tiny.pt", b"PK\x03\x04");
    let ran = sandbox.convert(&words("tiny.pt out/x --to whisper.cpp"));
    ran.ends_and_says(1, "tiny.pt: expected a checkpoint folder, found a file");
    let llama = Sandbox::with_golden("llama");
    let ran = llama.convert(&words("llama out/x --to whisper.cpp"));
    ran.ends_and_says(
        1,
        "llama: whisper.cpp: expected a model of class `WhisperForConditionalGeneration`, found `LlamaForCausalLM`",
    );
    assert!(sandbox.outputs().is_empty() && llama.outputs().is_empty());
}

#[test]
fn gguf_of_whisper_is_noted() {
    let sandbox = sandbox();
    let ran = succeed(sandbox.convert(&words("whisper out/x.gguf -t f16 --to gguf")));
    ran.says("note: whisper.cpp does not read GGUF; to write a file for whisper.cpp, use --to whisper.cpp");
}

#[test]
fn models_of_whisper_cpp_are_recognized() {
    let sandbox = sandbox();
    assert_eq!(sandbox.convert(&words("whisper x.bin --to whisper.cpp -q --allow-nonfinite")).code, Some(0));
    let ran = sandbox.inspect(&["show", "x.bin"]);
    ran.ends_and_says(1, "x.bin: expected a GGUF file, found a Whisper model of whisper.cpp");
    ran.says("hint: run it with whisper.cpp");
    for call in [&["x.bin", "out/y.gguf", "-t", "f16"][..], &["legacy", "x.bin", "out/y.gguf"]] {
        let ran = sandbox.convert(call);
        ran.ends_and_says(1, "`x.bin`: a Whisper model of whisper.cpp is not supported");
        ran.says("hint: run it with whisper.cpp; for another type, convert the original checkpoint");
    }
    let ran = sandbox.quantize(&["x.bin", "out/y.gguf", "q8_0"]);
    ran.ends_and_says(1, "hint: the file is a Whisper model of whisper.cpp, which does not read GGUF");
    // Numbers as in the header of each format, with nothing after them.
    let numbers =
        |numbers: &[u32]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    let parakeet = numbers(&[10, 3200, 8, 2, 1, 16, 0, 64, 8, 4, 3, 8, 1, 2, 5, 16, 33]);
    let silero = [numbers(&[10]), b"silero-16k".to_vec()].concat();
    for (contents, name) in [(parakeet, "a Parakeet model"), (silero, "a Silero VAD model")] {
        sandbox.write("other.bin", [b"lmgg".to_vec(), contents].concat());
        let ran = sandbox.inspect(&["show", "other.bin"]);
        ran.ends_and_says(1, &format!("found {name} of whisper.cpp"));
    }
    fs::write(sandbox.path("cut.bin"), b"lmgg\x01").unwrap();
    sandbox.inspect(&["show", "cut.bin"]).ends_and_says(1, "not a GGUF file");
}
