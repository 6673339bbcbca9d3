//! Files from before GGUF in parts, and models of many families, with something changed at random: each is read or refused, and
//! nothing panics. Every reader alone has a target in `crates/fuzzing`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::common::{Sandbox, golden};
use gguf_conversion::{Input as _, LegacyInput, Request};
use gguf_layout::LegacyOptions;
use gguf_quant::Level;
use gguf_runtime::{
    Model, Sequence,
    audio::Sound,
    draft::{DraftModel, Limits, write},
    vision::{Picture, Projector},
};
use gguf_testkit::{mutants, mutate, mutated_gguf};

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn read(paths: &[PathBuf]) -> Vec<Vec<u8>> {
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

#[test]
fn mutated_legacy_files_are_read_or_refused() {
    let one_file =
        |path: &PathBuf| path.extension().is_some_and(|it| it == "bin") && !path.ends_with("ggml-parts.bin");
    let paths: Vec<PathBuf> = files(&golden("ggml")).into_iter().filter(one_file).collect();
    let parts = read(&[golden("ggml/ggml-parts.bin"), golden("ggml/ggml-parts.bin.1")]);
    let good = read(&paths);
    mutants(2000, |draw| {
        let mut files = match draw.below(good.len() + 1) {
            0 => parts.clone(),
            at => vec![good[at - 1].clone()],
        };
        let at = draw.below(files.len());
        mutate(&mut files[at], draw);
        let len: usize = files.iter().map(Vec::len).sum();
        let files =
            files.into_iter().enumerate().map(|(index, bytes)| (format!("x.{index}"), bytes)).collect();
        let Ok(model) = gguf_checkpoint::parse_legacy(files) else { return false };
        // Nothing is allocated by what a header says.
        let held = model.tokens.held_bytes() + 4 * model.scores.capacity() + 256 * model.tensors.len();
        assert!(held <= 16 * len, "{held} bytes of a file of {len}");
        let Ok(input) = LegacyInput::new(gguf_models::FAMILIES, model, &LegacyOptions::default(), None)
        else {
            return false;
        };
        let tasks = input.tasks(&Request::default()).unwrap();
        for task in &tasks {
            let view = task.rows.view();
            let mut values = vec![0.0; (view.n_rows * view.row_elems) as usize];
            task.rows.read(0..view.n_rows, Level::Scalar, &mut values).unwrap();
            assert!(values.len() <= 8 * len, "{} elements of a file of {len} bytes", values.len());
        }
        true
    });
}

/// Families whose maths differ, of `golden/arch`.
const FAMILIES: [&str; 19] = [
    "bert",
    "bloom",
    "chatglm",
    "dbrx",
    "deepseek2",
    "falcon-h1",
    "gemma3",
    "gpt-oss",
    "granite-switch",
    "grovemoe",
    "lfm2",
    "llama4",
    "mamba2",
    "modern-bert",
    "plamo2",
    "qwen3next",
    "rwkv6",
    "rwkv7",
    "t5",
];

#[test]
fn mutated_models_are_read_or_refused() {
    let sandbox = Sandbox::new();
    let mut paths: Vec<PathBuf> =
        gguf_testkit::logits_file_names().iter().map(|name| gguf_testkit::logits_file(name)).collect();
    for name in FAMILIES {
        let folder = gguf_testkit::checkpoint(name);
        let to = format!("{name}.gguf");
        let ran = sandbox.convert(&[folder.to_str().unwrap(), &to, "-t", "f32", "-q"]);
        assert_eq!(ran.code, Some(0), "{name}: {}", ran.stderr);
        paths.push(sandbox.path(&to));
    }
    let good: Vec<gguf_container::File> =
        paths.iter().map(|path| gguf_container::File::open(path).unwrap()).collect();
    let path = sandbox.path("mutant.gguf");
    mutants(1000, |draw| {
        let Some(mutant) = mutated_gguf(draw.of(&good), draw) else { return false };
        fs::write(&path, mutant).unwrap();
        let options =
            gguf_runtime::Options { threads: Some(1), ..gguf_runtime::Options::new(gguf_models::GRAPHS) };
        let Ok(model) = Model::open(&path, &options) else { return false };
        let _ = model.tokenizer().encode("a text", true, true);
        let Ok(hidden) = model.run(&[Sequence::new(&[1, 5, 2, 7, 3])], None) else { return false };
        let mut logits = vec![0.0; hidden.n_rows() * model.n_vocab()];
        model.logits(&hidden, 0..hidden.n_rows(), None, &mut logits).is_ok()
    });
}

#[test]
fn mutated_drafts_are_read_or_refused() {
    let sandbox = Sandbox::with_converted("mimo2", "target.gguf", "f32");
    let options =
        gguf_runtime::Options { threads: Some(1), ..gguf_runtime::Options::new(gguf_models::GRAPHS) };
    let target = Model::open(&sandbox.path("target.gguf"), &options).unwrap();
    let convert = |name: &&str| {
        sandbox.add_golden(name);
        let to = format!("{name}.gguf");
        let ran = sandbox.convert(&[name, &to, "-t", "f32", "-q", "--target-model-dir", "mimo2"]);
        assert_eq!(ran.code, Some(0), "{name}: {}", ran.stderr);
        gguf_container::File::open(&sandbox.path(&to)).unwrap()
    };
    let names =
        ["eagle3-speculator", "dspark", "gemma4-dspark", "dflash-target-sections", "dspark-speculator"];
    let good: Vec<gguf_container::File> = names.iter().map(convert).collect();
    let path = sandbox.path("mutant.gguf");
    mutants(1000, |draw| {
        let Some(mutant) = mutated_gguf(draw.of(&good), draw) else { return false };
        fs::write(&path, mutant).unwrap();
        let Ok(draft) = DraftModel::open(&path, &target, &options) else { return false };
        let limits = Limits { n_tokens: 4, n_proposed: 3 };
        write(&target, &draft, &[1, 5, 7, 3], limits, &mut || true).is_ok()
    });
}

#[test]
fn mutated_projectors_are_read_or_refused() {
    let sandbox = Sandbox::new();
    let path = |name: &str| sandbox.path(&format!("{name}.gguf"));
    let convert = |(name, folder): (String, PathBuf)| {
        let to = path(&name);
        let args = [folder.to_str().unwrap(), to.to_str().unwrap(), "--mmproj", "-t", "f32", "-q"];
        let ran = sandbox.convert(&args);
        assert_eq!(ran.code, Some(0), "{name}: {}", ran.stderr);
        gguf_container::File::open(&to).unwrap()
    };
    let seeing = gguf_testkit::vision_names()
        .into_iter()
        .map(|name| (format!("vision-{name}"), gguf_testkit::vision(&name)));
    // Some goldens include the projector's file, written by the reference's converter.
    let own = |name: &String| golden("audio").join(name).join("mmproj.gguf");
    let (given, hearing): (Vec<_>, Vec<_>) =
        gguf_testkit::audio_names().into_iter().partition(|name| own(name).is_file());
    let hearing = hearing.iter().map(|name| (format!("audio-{name}"), gguf_testkit::audio(name)));
    let mut good: Vec<gguf_container::File> = seeing.chain(hearing).map(convert).collect();
    good.extend(given.iter().map(|name| gguf_container::File::open(&own(name)).unwrap()));
    let sound = Sound::read(fs::read(golden("audio/sound.wav")).unwrap()).unwrap();
    let picture = Picture::read(&fs::read(golden("vision/picture.png")).unwrap()).unwrap();
    let path = path("mutant");
    mutants(600, |draw| {
        let Some(mutant) = mutated_gguf(draw.of(&good), draw) else { return false };
        fs::write(&path, mutant).unwrap();
        let options =
            gguf_runtime::Options { threads: Some(1), ..gguf_runtime::Options::new(gguf_models::GRAPHS) };
        let Ok(projector) = Projector::open(&path, &options) else { return false };
        projector.embed(&picture, Some(16)).is_ok() | projector.embed_sound(&sound).is_ok()
    });
}
