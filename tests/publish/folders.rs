//! `gguf-publish`: complete folders of tiny models, and runs that are stopped and resumed.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Instant,
};

use super::write_texts;
use crate::common::{Numbers, Output, Sandbox, sha256, succeed, words};
use serde_json::Value;

const PUBLISH: &str = env!("CARGO_BIN_EXE_gguf-publish");
const INSPECT: &str = env!("CARGO_BIN_EXE_gguf-inspect");

fn publish(sandbox: &Sandbox, more: &[&str]) -> Output {
    let args = words("-c 32 --chunks 6 --imatrix-chunks 6 --imatrix-text cal.txt --eval-text eval.txt -j 2");
    sandbox.publish(&[more, &args[..]].concat())
}

/// All files of a folder with their bytes.
fn bytes_of(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                files.insert(name, fs::read(path).unwrap());
            }
        }
    }
    files
}

fn results(sandbox: &Sandbox, folder: &str) -> Value {
    sandbox.json(&format!("{folder}/results.json"))
}

/// Every number that is in a JSON value, in texts too.
fn numbers_of(json: &Value, numbers: &mut Vec<f64>) {
    match json {
        Value::Number(number) => numbers.push(number.as_f64().unwrap()),
        Value::String(text) => numbers.extend(numbers_in(text).iter().map(|(_, number)| *number)),
        Value::Array(items) => items.iter().for_each(|item| numbers_of(item, numbers)),
        Value::Object(items) => items.values().for_each(|item| numbers_of(item, numbers)),
        _ => {}
    }
}

/// The numbers of a text, as they are written and as they are.
fn numbers_in(text: &str) -> Vec<(String, f64)> {
    let mut found = Vec::new();
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c)));
    for word in words {
        let word = word.trim_end_matches('.');
        if let Ok(number) = word.parse::<f64>()
            && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        {
            found.push((word.to_owned(), number));
        }
    }
    found
}

/// True if a number of the card is one of the results, also with unit prefixes or in percent.
fn is_known(shown: &str, known: &[f64]) -> bool {
    let digits = shown.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let units = [1.0, 100.0, 1e-3, 1e-6, 1e-9];
    known.iter().any(|number| units.iter().any(|unit| format!("{:.digits$}", number * unit) == shown))
}

/// Every number of the card is one of the results.
fn assert_numbers_are_known(card: &str, results: &Value) {
    let mut known = Vec::new();
    numbers_of(results, &mut known);
    // Lengths of hashes, names of percentiles, a limit and examples are not measurements.
    let body = card.split("---\n").nth(2).unwrap();
    let exempt = ["99", "99.9", "256", "0.01"];
    for line in body.lines().filter(|line| !line.trim_start_matches('`').starts_with("gguf-inspect")) {
        for (shown, _) in numbers_in(line) {
            assert!(
                exempt.contains(&shown.as_str()) || is_known(&shown, &known),
                "{shown} is not in results.json\n{card}"
            );
        }
    }
}

/// Measurements are those of `gguf-eval compare` with the same files and chunks.
fn assert_comparison_is_same(sandbox: &Sandbox, base: &str, results: &Value) {
    for rung in results["rungs"].as_array().unwrap() {
        let file = format!("out/pub/{}", rung["files"][0]["name"].as_str().unwrap());
        let more = words("-f eval.txt -c 32 --chunks 6 --json -q");
        let compared = sandbox.eval(&[&["compare", base, &file], &more[..]].concat()).json();
        let of = &compared["files"][0]["predictions"];
        assert_eq!(of["kl"], rung["predictions"]["divergence"]);
        assert_eq!(of["same_top"], rung["predictions"]["same_top"]);
        assert_eq!(of["kl_quantiles"]["p99_9"], rung["predictions"]["divergence_p99_9"]["value"]);
        assert_eq!(compared["files"][0]["bits_per_weight"], rung["bits_per_weight"]);
        assert!(rung["memory"].as_array().unwrap().len() == 1, "a context of 512 has one length");
    }
}

#[test]
fn published_folder_is_complete() {
    let sandbox = Sandbox::with_golden("llama");
    write_texts(&sandbox);
    sandbox.write(
        "llama/README.md",
        "---\nlicense: apache-2.0\nlanguage: [en, de]\npipeline_tag: text-generation\n---\n",
    );
    let call = words("llama out/pub -t q4_k_m,q8_0,q5_k_m --base-model a/llama --quantized-by me");
    let ran = succeed(publish(&sandbox, &call));
    ran.says("importance matrix: 6 chunks\n");
    for (index, name) in ["Q4_K_M", "Q5_K_M", "Q8_0"].iter().enumerate() {
        ran.says(&format!("-{name}.gguf, file {} of 3 (chunks 1 to 6 of 6)\n", index + 1));
    }
    let files = bytes_of(&sandbox.path("out/pub"));
    for name in words("README.md results.json report.html plot.svg imatrix.gguf SHA256SUMS recipes/Q8_0.json")
    {
        assert!(files.contains_key(name), "{name} of {:?}", files.keys());
    }
    let models: Vec<&String> =
        files.keys().filter(|name| name.ends_with(".gguf") && *name != "imatrix.gguf").collect();
    assert_eq!(models.len(), 3, "{models:?}");

    let card = String::from_utf8(files["README.md"].clone()).unwrap();
    for line in [
        "base_model: \"a/llama\"",
        "base_model_relation: \"quantized\"",
        "license: \"apache-2.0\"",
        "library_name: \"gguf\"",
        "pipeline_tag: \"text-generation\"",
        "quantized_by: \"me\"",
        "language:\n- \"en\"\n- \"de\"",
        "- \"imatrix\"",
        "gguf-publish hf://a/llama pub ",
        "| suggested: high quality |",
        "The metrics are from only 6 chunks of text.",
        ", run in a folder with the texts:\n",
        ".gguf --against SOURCE\n",
        "for `gguf-quantize --recipe FILE --imatrix imatrix.gguf`\n",
        &format!("tokens of cal.txt (SHA-256 `{}`)\n", sha256(&sandbox.read("cal.txt"))),
        &format!("- Evaluation text: eval.txt (SHA-256 `{}`)\n", sha256(&sandbox.read("eval.txt"))),
    ] {
        assert!(card.contains(line), "{line}\n{card}");
    }
    assert!(!["recommended", "larger type"].iter().any(|word| card.contains(word)), "{card}");
    let results = results(&sandbox, "out/pub");
    assert_numbers_are_known(&card, &results);

    // From small to large.
    let sizes: Vec<u64> =
        results["rungs"].as_array().unwrap().iter().map(|rung| rung["bytes"].as_u64().unwrap()).collect();
    assert!(sizes.is_sorted(), "{sizes:?}");
    let row = |name: &str| card.find(&format!("-{name}.gguf](")).unwrap();
    assert!(row("Q4_K_M") < row("Q5_K_M") && row("Q5_K_M") < row("Q8_0"), "{card}");

    let mut files_of_work = fs::read_dir(sandbox.path("out/pub.work")).unwrap().map(|it| it.unwrap().path());
    let base = files_of_work.find(|path| path.extension().is_some_and(|it| it == "gguf")).unwrap();
    let base = base.to_str().unwrap();
    assert_comparison_is_same(&sandbox, base, &results);
    // The files are those of the other programs, byte for byte.
    let q4 = models.iter().find(|name| name.contains("Q4_K_M")).unwrap();
    let quantized = Command::new(env!("CARGO_BIN_EXE_gguf-quantize"))
        .args(["--imatrix", "imatrix.gguf", base, "../one.gguf", "q4_k_m", "-q"])
        .current_dir(sandbox.path("out/pub"))
        .output()
        .unwrap();
    assert!(quantized.status.success(), "{}", String::from_utf8_lossy(&quantized.stderr));
    assert!(sandbox.read("out/one.gguf") == files[*q4], "{q4}");

    // Checksums hold, and a second call changes nothing.
    let checked = Command::new(INSPECT)
        .args(["hash", "--check", "SHA256SUMS", "-q"])
        .current_dir(sandbox.path("out/pub"))
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    let again = succeed(publish(&sandbox, &call));
    assert!(!again.stderr.contains("wrote") && !again.stderr.contains("windows:"), "{}", again.stderr);
    assert_eq!(bytes_of(&sandbox.path("out/pub")), files);
}

/// Killed at every stage, again and again: in the end the same files.
#[test]
fn killed_run_resumes() {
    let sandbox = Sandbox::with_golden("llama");
    write_texts(&sandbox);
    let call = words(
        "llama out/pub -t q4_0,q6_k -c 32 --chunks 8 --imatrix-chunks 8 -j 1 -q --imatrix-text cal.txt --eval-text eval.txt",
    );
    let begin = Instant::now();
    succeed(sandbox.publish(&call));
    let whole = begin.elapsed();
    let expected = bytes_of(&sandbox.path("out/pub"));
    fs::rename(sandbox.path("out/pub"), sandbox.path("first")).unwrap();
    fs::rename(sandbox.path("out/pub.work"), sandbox.path("first.work")).unwrap();
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (n_kills, mut numbers) = (number("KILLS").unwrap_or(5), Numbers(number("KILL_SEED").unwrap_or(1)));
    let mut killed = 0;
    for _ in 0..n_kills {
        let mut child = Command::new(PUBLISH)
            .args(&call)
            .current_dir(sandbox.path(""))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Killed at a random moment: finished work is not repeated, so that later stages are reached.
        thread::sleep(whole.mul_f64((numbers.next() % 1000) as f64 / 1000.0));
        killed += usize::from(child.try_wait().unwrap().is_none());
        drop(child.kill());
        child.wait().unwrap();
    }
    succeed(sandbox.publish(&call));
    assert!(killed > 0, "every run ended before it was killed");
    let found = bytes_of(&sandbox.path("out/pub"));
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (name, bytes) in &found {
        assert!(*bytes == expected[name], "{name} differs");
    }
}

#[test]
fn windows_and_types_can_be_added() {
    let sandbox = Sandbox::with_golden("llama");
    write_texts(&sandbox);
    let call = |windows: &str, types: &str| {
        let args = format!("llama out/pub -t {types} -c 32 --chunks {windows} --no-imatrix -j 2");
        succeed(sandbox.publish(&words(&(args + " --eval-text eval.txt")))).stderr
    };
    call("4", "q8_0");
    let log = call("4", "q8_0,q4_0");
    assert!(log.contains("files: Q4_0") && !log.contains("files: Q8_0"), "{log}");
    call("9", "q8_0,q4_0");
    let grown = results(&sandbox, "out/pub");
    fs::remove_dir_all(sandbox.path("out")).unwrap();
    fs::create_dir(sandbox.path("out")).unwrap();
    call("9", "q8_0,q4_0");
    let whole = results(&sandbox, "out/pub");
    assert_eq!(grown["rungs"], whole["rungs"]);
    assert_eq!(whole["evaluation"]["chunks"], 9);
}

/// The only file of a folder whose name ends so.
fn only_file(sandbox: &Sandbox, folder: &str, end: &str) -> String {
    let names = fs::read_dir(sandbox.path(folder)).unwrap().map(|it| it.unwrap().file_name());
    let names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    let found: Vec<&String> = names.iter().filter(|name| name.ends_with(end)).collect();
    assert_eq!(found.len(), 1, "{end} of {names:?}");
    format!("{folder}/{}", found[0])
}

/// A file of a publication is what `gguf-convert` makes of the same, byte for byte, and is found right by `gguf-inspect verify`.
fn is_converted(sandbox: &Sandbox, file: &str, src: &str, options: &[&str]) {
    let args = [&[src, "expected.gguf", "--force", "-q"][..], options].concat();
    succeed(sandbox.convert(&args));
    let same = sandbox.read(file) == sandbox.read("expected.gguf");
    assert!(same, "{file} is not what gguf-convert makes of {src}");
    let ran = sandbox.inspect(&["verify", file]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
}

/// All files of a ladder are those that `gguf-quantize` makes of the base, and are found right.
fn are_quantized(sandbox: &Sandbox, folder: &str, base: &str) {
    for rung in results(sandbox, folder)["rungs"].as_array().unwrap() {
        let file = format!("{folder}/{}", rung["files"][0]["name"].as_str().unwrap());
        let ran = sandbox.inspect(&["verify", &file]);
        assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
        // The name of the matrix is one of the file's keys.
        let quantized = sandbox
            .command(env!("CARGO_BIN_EXE_gguf-quantize"))
            .args(["--imatrix", "imatrix.gguf", "--force", "-q"])
            .args([sandbox.path(base).to_str().unwrap(), sandbox.path("expected.gguf").to_str().unwrap()])
            .arg(rung["type"].as_str().unwrap())
            .current_dir(sandbox.path(folder))
            .output()
            .unwrap();
        assert!(quantized.status.success(), "{}", String::from_utf8_lossy(&quantized.stderr));
        let same = sandbox.read(&file) == sandbox.read("expected.gguf");
        assert!(same, "{file}");
    }
}

#[test]
fn mixtures_and_encoders_are_published() {
    for (name, key, other) in [
        ("mixtral", "predictions", "vectors"),
        ("bert", "vectors", "predictions"),
        ("jamba", "predictions", "vectors"),
    ] {
        let sandbox = Sandbox::with_golden(name);
        write_texts(&sandbox);
        let ran = publish(&sandbox, &[name, "out/pub", "-t", "q8_0,q5_0", "--base-type", "bf16"]);
        assert_eq!(ran.code, Some(0), "{name}: {}", ran.stderr);
        let base = only_file(&sandbox, "out/pub.work", ".gguf");
        is_converted(&sandbox, &base, name, &["--type", "bf16"]);
        are_quantized(&sandbox, "out/pub", &base);
        let results = results(&sandbox, "out/pub");
        for rung in results["rungs"].as_array().unwrap() {
            assert!(rung[key].is_object() && rung[other].is_null(), "{name}: {rung}");
        }
        // From small to large: the loss at 8 bits is less than at 5.
        let field = if key == "vectors" { "distance" } else { "divergence" };
        let cost = |index: usize| results["rungs"][index][key][field]["value"].as_f64().unwrap();
        assert!(cost(1) < cost(0) && cost(1) >= 0.0, "{name}: {} {}", cost(0), cost(1));
        if name == "mixtral" {
            // Every expert has its own sums.
            let listed = sandbox.inspect(&["show", "out/pub/imatrix.gguf", "--full"]);
            assert!(listed.stdout.contains("ffn_down_exps"), "{}", listed.stdout);
        }
    }
}

/// Qwen3-Embedding and others: next tokens of an embedder on a decoder mean nothing, because its output matrix is not trained.
#[test]
fn embedder_on_decoder_is_compared_by_vectors() {
    let sandbox = Sandbox::with_golden("qwen3");
    write_texts(&sandbox);
    let module = |index: u8, path: &str, kind: &str| {
        format!(
            r#"{{"idx": {index}, "name": "{index}", "path": "{path}", "type": "sentence_transformers.models.{kind}"}}"#
        )
    };
    let modules = [module(0, "", "Transformer"), module(1, "1_Pooling", "Pooling")].join(",");
    sandbox.write("qwen3/modules.json", format!("[{modules}]"));
    fs::create_dir(sandbox.path("qwen3/1_Pooling")).unwrap();
    sandbox.write("qwen3/1_Pooling/config.json", r#"{"pooling_mode_lasttoken": true}"#);
    let args = "qwen3 out/pub -t q8_0 -c 32 --chunks 2 --imatrix-chunks 2 --imatrix-text cal.txt --eval-text eval.txt";
    succeed(sandbox.publish(&words(args)));
    let found = results(&sandbox, "out/pub");
    assert!(
        found["rungs"][0]["vectors"]["distance"].is_object() && found["rungs"][0]["predictions"].is_null()
    );
    let card = sandbox.text("out/pub/README.md");
    for (text, is_there) in [
        ("pipeline_tag: \"feature-extraction\"", true),
        (", an embedding model with last pooling, for llama.cpp", true),
        ("llama-server -m ", true),
        (" --embedding --pooling last", true),
        ("KL divergence", false),
        ("llama-cli", false),
        ("ollama run", false),
    ] {
        assert_eq!(card.contains(text), is_there, "{text}: {card}");
    }
    assert!(!sandbox.path("out/pub/Modelfile").exists());
}

#[test]
fn measuring_on_calibration_text_is_pointed_out() {
    let sandbox = Sandbox::with_golden("llama");
    write_texts(&sandbox);
    let warning = "warning: cal.txt: measured on a text that the files are made with; results";
    let call =
        "llama out/pub -t q8_0 -c 32 --chunks 2 --imatrix-chunks 2 --imatrix-text cal.txt --eval-text ";
    for (text, is_warned) in [("cal.txt", true), ("eval.txt", false)] {
        let ran = succeed(sandbox.publish(&words(&format!("{call}{text} --force"))));
        assert_eq!(ran.stderr.contains(warning), is_warned, "{text}: {}", ran.stderr);
        let card = sandbox.text("out/pub/README.md");
        assert_eq!(
            card.contains("text that they are also made with (cal.txt)."),
            is_warned,
            "{text}: {card}"
        );
    }
}

/// `--model-name` names the files, whatever the source's card states.
#[test]
fn files_are_named_after_given_name() {
    let sandbox = Sandbox::with_golden("llama");
    write_texts(&sandbox);
    sandbox.write("llama/README.md", "---\nbasename: old\nfinetune: mix1-ep2\nsize_label: 135M\n---\n");
    let args = "llama out/pub -t q8_0 -c 32 --chunks 2 --no-imatrix --eval-text eval.txt --model-name SmolLM2-135M-Instruct";
    succeed(sandbox.publish(&words(args)));
    assert!(
        sandbox.path("out/pub/SmolLM2-135M-Instruct-Q8_0.gguf").is_file(),
        "{:?}",
        sandbox.listing("out/pub")
    );
    succeed(sandbox.convert(&words("llama named/ -t q8_0 --model-name SmolLM2-135M-Instruct")));
    assert!(
        sandbox.path("named/SmolLM2-135M-Instruct-Q8_0.gguf").is_file(),
        "{:?}",
        sandbox.listing("named")
    );
}

#[test]
fn projector_is_published_next_to_model() {
    let sandbox = Sandbox::with_vision("gemma3");
    write_texts(&sandbox);
    succeed(publish(&sandbox, &words("gemma3 pub -t q8_0,q5_0 --base-type bf16")));
    let results = results(&sandbox, "pub");
    let name = results["sidecars"][0]["name"].as_str().unwrap();
    assert!(name.starts_with("mmproj-") && results["sidecars"][0]["kind"] == "projector", "{name}");
    let base = only_file(&sandbox, "pub.work", ".gguf");
    is_converted(&sandbox, &base, "gemma3", &["--type", "bf16"]);
    is_converted(&sandbox, &format!("pub/{name}"), "gemma3", &["--mmproj", "--type", "f16"]);
    are_quantized(&sandbox, "pub", &base);
    let card = sandbox.text("pub/README.md");
    assert!(card.contains("pipeline_tag: \"image-text-to-text\"") && card.contains(name), "{card}");
    let sums = sandbox.text("pub/SHA256SUMS");
    assert!(sums.contains(name), "{sums}");
}

#[test]
fn drafts_are_published_next_to_model() {
    let sandbox = Sandbox::with_golden("llama-llama3");
    write_texts(&sandbox);
    crate::common::copy_folder(&gguf_testkit::checkpoint("eagle3"), &sandbox.path("eagle3"));
    // The width that its `fc` was made for: three layers of 32.
    sandbox.edit("eagle3/config.json", "\"model_type\"", "\"target_hidden_size\": 32, \"model_type\"");
    let call = ["llama-llama3", "out/pub", "-t", "q8_0", "--draft", "eagle3"];
    succeed(publish(&sandbox, &call));
    let results = results(&sandbox, "out/pub");
    let sidecar = &results["sidecars"][0];
    assert_eq!(sidecar["kind"], "draft");
    let file = format!("out/pub/{}", sidecar["name"].as_str().unwrap());
    let options = ["--target-model-dir", "llama-llama3", "--type", "bf16"];
    is_converted(&sandbox, &file, "eagle3", &options);
    let again = publish(&sandbox, &call);
    assert_eq!((again.code, again.stderr.contains("draft:")), (Some(0), false), "{}", again.stderr);
    // One of the same name is not overwritten by another.
    fs::rename(sandbox.path("eagle3"), sandbox.path("second")).unwrap();
    crate::common::copy_folder(
        &gguf_testkit::checkpoint("llama-llama3"),
        &sandbox.path("again/llama-llama3"),
    );
    let ran = publish(&sandbox, &words("llama-llama3 out/two -t bf16 --draft again/llama-llama3"));
    assert_eq!(
        (ran.code, ran.stderr.contains("the same name as another file")),
        (Some(1), true),
        "{}",
        ran.stderr
    );
}

#[test]
fn unpublishable_inputs_are_refused() {
    let sandbox = Sandbox::with_golden("llama");
    write_texts(&sandbox);
    fs::create_dir(sandbox.path("full")).unwrap();
    sandbox.write("full/mine.txt", "mine");
    let ran = publish(&sandbox, &["llama", "full", "-t", "q8_0"]);
    assert_eq!((ran.code, ran.stderr.contains("is not empty")), (Some(1), true), "{}", ran.stderr);
    assert_eq!(bytes_of(&sandbox.path("full")).len(), 1);
    let ran = publish(&sandbox, &["none", "out/pub", "-t", "q8_0"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let ran = publish(&sandbox, &["llama", "out/pub", "--fit", "1KB"]);
    assert_eq!((ran.code, ran.stderr.contains("no file fits in")), (Some(1), true), "{}", ran.stderr);
    for args in [
        &["llama"][..],
        &["llama", "out/pub", "-t", "q9_9"],
        &["llama", "out/pub", "--fit", "8GB", "-t", "q8_0"],
    ] {
        assert_eq!(sandbox.publish(args).code, Some(2), "{args:?}");
    }
    // A text shorter than a chunk is reported.
    sandbox.write("eval.txt", "Short.");
    let ran = publish(&sandbox, &["llama", "out/pub", "-t", "q8_0"]);
    assert_eq!((ran.code, ran.stderr.contains("eval.txt")), (Some(1), true), "{}", ran.stderr);
}
