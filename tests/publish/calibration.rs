//! Publications of calibrated files.

use std::collections::BTreeMap;

use super::write_texts;
use crate::common::{Output, Sandbox, succeed, words};

/// A model whose statistics fit 2,048 tokens, and texts to calibrate and measure on.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_base_and_text();
    write_texts(&sandbox);
    sandbox
}

fn publish(sandbox: &Sandbox, more: &[&str]) -> Output {
    let args = words("base.gguf out/pub -c 32 --chunks 4 --eval-text eval.txt -j 2");
    sandbox.publish(&[&args[..], more].concat())
}

/// Model files of a folder by their type.
fn models(sandbox: &Sandbox, folder: &str) -> BTreeMap<String, String> {
    let results = sandbox.json(&format!("{folder}/results.json"));
    let rungs = results["rungs"].as_array().unwrap().iter();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    rungs.map(|rung| (text(&rung["type"]), text(&rung["files"][0]["name"]))).collect()
}

#[test]
fn calibrated_files_are_those_of_quantize() {
    let sandbox = sandbox();
    let calibration = words("--calibrate text --calibration-tokens 2048");
    let target = words("--target-size 800K");
    let ran =
        succeed(publish(&sandbox, &[&words("-t q4_k_m,q8_0,bf16")[..], &calibration, &target].concat()));
    ran.says("Q4_K_M: KL divergence");
    let files = models(&sandbox, "out/pub");
    let labels: Vec<&String> = files.keys().collect();
    assert_eq!(labels.len(), 4, "{labels:?}");
    let sized = labels.iter().find(|label| label.ends_with("-800KB")).unwrap().as_str();
    let base = sandbox.path("base.gguf");
    for (label, name) in &files {
        let published = format!("out/pub/{name}");
        assert!(name.ends_with(&format!("-{label}.gguf")), "{name}");
        let (file_type, more) = match label.strip_suffix("-800KB") {
            Some(file_type) => (file_type, &target[..]),
            None => (label.as_str(), &[][..]),
        };
        // Files of floats need no calibration.
        let more = if label == "BF16" {
            vec![]
        } else {
            [&["--calibrate", "../../text"][..], &calibration[2..], &["--no-verify"], more].concat()
        };
        let quantized = sandbox
            .command(env!("CARGO_BIN_EXE_gguf-quantize"))
            .args([base.to_str().unwrap(), "../expected.gguf", file_type])
            .args(["--imatrix", "imatrix.gguf", "--missing-imatrix", "raise-type", "--force", "-q"])
            .args(more)
            .current_dir(sandbox.path("out/pub"))
            .output()
            .unwrap();
        assert!(quantized.status.success(), "{}", String::from_utf8_lossy(&quantized.stderr));
        assert!(sandbox.read(&published) == sandbox.read("out/expected.gguf"), "{label}");
        let ran = sandbox.inspect(&["verify", &published]);
        assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    }
    assert!(sandbox.read(&format!("out/pub/{}", files[sized])).len() <= 800_000);
    let card = sandbox.text("out/pub/README.md");
    assert!(
        card.contains("- Calibration: types and rounding chosen on 2048 tokens of text (SHA-256 `"),
        "{card}"
    );
    assert!(!sandbox.path("out/pub.work/statistics").exists(), "statistics are large");

    // A later run keeps texts and sizes, and makes nothing again.
    let before = sandbox.listing("out/pub");
    let again = succeed(sandbox.publish(&words("base.gguf out/pub -j 2")));
    assert!(!again.stderr.contains("files: "), "{}", again.stderr);
    assert_eq!(sandbox.listing("out/pub"), before);
    // Removed by its name in the card.
    succeed(sandbox.publish(&["base.gguf", "out/pub", "-j", "2", "--remove", &sized.to_lowercase()]));
    let left = models(&sandbox, "out/pub");
    assert_eq!(left.len(), 3, "{left:?}");
    assert!(!sandbox.path(&format!("out/pub/{}", files[sized])).exists());
}

#[test]
fn target_size_needs_calibration_and_must_be_possible() {
    let sandbox = sandbox();
    let ran = publish(&sandbox, &words("-t q8_0 --target-size 800K"));
    ran.ends_and_says(2, "--target-size needs calibration texts");
    let ran =
        publish(&sandbox, &words("-t q8_0 --target-size 1K --calibrate text --calibration-tokens 2048"));
    ran.ends_and_says(1, "target size of 1000 bytes is too small");
}
