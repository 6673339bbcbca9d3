//! Formats of other runtimes: files equal those of their converters.

use std::{fs, path::Path};

use gguf_conversion::{Conversion, Error, ForeignInput, RunOptions};
use serde_json::{Value as Json, json};

fn open(folder: &Path) -> Result<ForeignInput, Error> {
    let options = gguf_layout::Options::new(gguf_models::FAMILIES);
    let format = gguf_models::FAMILIES.foreign("whisper.cpp").unwrap();
    ForeignInput::open(crate::folder(folder), &[], &options, format)
}

fn write(folder: &Path, recipe: &str, path: &Path, threads: usize) -> Result<(), Error> {
    let options = RunOptions::default().threads(std::num::NonZeroUsize::new(threads));
    Conversion::new(open(folder)?).recipe(recipe)?.plan()?.check()?.write(path, &options)?;
    Ok(())
}

#[test]
fn whole_files_match_reference() {
    let temporary = tempfile::tempdir().unwrap();
    let mut n_files = 0;
    for name in gguf_testkit::foreign_names() {
        let folder = gguf_testkit::foreign(&name);
        let expected = gguf_testkit::read_json(folder.join("expected.json"));
        for (kind, file) in expected["files"].as_object().unwrap() {
            for threads in [1, 3] {
                let path = temporary.path().join(format!("{name}-{kind}-{threads}.bin"));
                write(&folder, kind, &path, threads).unwrap_or_else(|error| panic!("{name} {kind}: {error}"));
                let bytes = fs::read(&path).unwrap();
                assert_eq!(json!([bytes.len(), gguf_testkit::sha256(&bytes)]), *file, "{name} {kind}");
                n_files += 1;
            }
        }
    }
    assert!(n_files > 40, "{n_files}");
}

/// A modifiable copy of a golden, with its config and tensors.
struct Copy {
    folder: tempfile::TempDir,
    config: Json,
}

impl Copy {
    fn of(name: &str) -> Copy {
        let (source, folder) = (gguf_testkit::foreign(name), tempfile::tempdir().unwrap());
        gguf_testkit::copy_folder(&source, folder.path());
        Copy { config: gguf_testkit::read_json(source.join("config.json")), folder }
    }

    fn remove(&self, file: &str) {
        fs::remove_file(self.folder.path().join(file)).unwrap();
    }

    fn rename(&self, from: &str, to: &str) {
        let path = self.folder.path().join("model.safetensors");
        let mut bytes = fs::read(&path).unwrap();
        let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        fs::write(&path, bytes).unwrap();
    }

    /// Error of opening it with a changed config.
    fn error(&self, key: &str, value: Json) -> String {
        let mut config = self.config.clone();
        config[key] = value;
        fs::write(self.folder.path().join("config.json"), config.to_string()).unwrap();
        open(self.folder.path()).map(|_| ()).unwrap_err().to_string()
    }
}

#[test]
fn contradicting_configs_are_refused() {
    let copy = Copy::of("whisper-f32");
    for (key, value, expected) in [
        (
            "architectures",
            json!(["BertModel"]),
            "whisper.cpp: expected a model of class `WhisperForConditionalGeneration`, found `BertModel`",
        ),
        (
            "activation_function",
            json!("relu"),
            "`config.json`: key `activation_function`: expected gelu, found \"relu\"",
        ),
        ("scale_embedding", json!(true), "`config.json`: key `scale_embedding`: expected false, found true"),
        (
            "vocab_size",
            json!(401),
            "`config.json`: key `vocab_size`: expected the number of rows of the embedding, found 401",
        ),
        (
            "decoder_attention_heads",
            json!(3),
            "`config.json`: key `decoder_attention_heads`: expected a divisor of `d_model`, found 3",
        ),
        (
            "max_target_positions",
            json!(448),
            "tensor `model.decoder.embed_positions.weight`: expected [64, 448] (required by whisper.cpp), found shape [64, 20]",
        ),
        (
            "num_mel_bins",
            json!(81),
            "tensor `model.encoder.conv1.weight`: expected [3, 81, 64] (required by whisper.cpp), found shape [3, 80, 64]",
        ),
        (
            "d_model",
            json!(32),
            "tensor `model.decoder.embed_positions.weight`: expected [32, 20] (required by whisper.cpp), found shape [64, 20]",
        ),
    ] {
        assert_eq!(copy.error(key, value), expected);
    }
    let error = copy.error("encoder_layers", json!(3));
    assert!(error.contains("missing tensors: `model.encoder.layers.2"), "{error}");
    let error = copy.error("decoder_layers", json!(1));
    assert!(error.contains("decoder.layers.1"), "{error}");
}

#[test]
fn incomplete_checkpoints_are_refused() {
    let copy = Copy::of("whisper-f32");
    let same = || copy.error("vocab_size", json!(400));
    copy.rename("model.encoder.layers.0.fc1.bias", "model.encoder.layers.0.fc9.bias");
    assert!(same().contains("fc9.bias"), "{}", same());
    copy.rename("model.encoder.layers.0.fc9.bias", "model.encoder.layers.0.fc1.bias");

    copy.remove("vocab.json");
    // The other file has the same vocabulary.
    assert!(copy.folder.path().join("tokenizer.json").is_file());
    open(copy.folder.path()).unwrap();
    copy.remove("tokenizer.json");
    assert_eq!(same(), "no tokenizer found; looked for vocab.json, tokenizer.json");
    fs::write(copy.folder.path().join("vocab.json"), r#"{"a": 1}"#).unwrap();
    assert_eq!(same(), "`vocab.json`: missing token with id 0 (1 tokens are listed)");

    let copy = Copy::of("whisper-f32");
    let path = copy.folder.path().join("model.safetensors");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    let error = open(copy.folder.path()).map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::Source(_)), "{error}");
}

#[test]
fn different_output_is_refused() {
    let copy = Copy::of("whisper-f16");
    let path = copy.folder.path().join("model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 2;
    bytes[last] ^= 1;
    fs::write(&path, bytes).unwrap();
    let error = copy.error("vocab_size", json!(400));
    assert!(error.contains("`proj_out.weight` differs from the embedding"), "{error}");
}

#[test]
fn unsupported_types_and_rows_are_refused() {
    let folder = gguf_testkit::foreign("whisper-f32");
    let path = folder.join("never.bin");
    let error = |recipe: &str| write(&folder, recipe, &path, 1).unwrap_err().to_string();
    let types = "f16, f32, q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k, q5_k, q6_k";
    for (recipe, name) in [("q4_k_m", "q4_k_m"), ("bf16", "bf16"), ("iq4_xs", "iq4_xs")] {
        assert_eq!(
            error(recipe),
            format!("whisper.cpp: type `{name}` is not supported; expected one of {types}")
        );
    }
    assert_eq!(
        error("q4_k"),
        "whisper.cpp: tensor `encoder.blocks.0.attn.key.weight`: rows of 64 elements are not whole blocks of q4_K"
    );
    assert!(!path.exists());
}

#[test]
fn nan_is_refused() {
    let copy = Copy::of("whisper-f32");
    let path = copy.folder.path().join("model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 4;
    bytes[last..].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("never.bin");
    let error = write(copy.folder.path(), "q8_0", &out, 1).unwrap_err();
    assert!(matches!(error, Error::NonFinite { .. }), "{error}");
    assert!(!out.exists());
}
