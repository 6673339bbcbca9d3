//! Files of `torch.save` with bytes changed at random: each is read or refused, nothing panics, and memory stays small.
//! Alone in its program, so that no other test's memory is counted.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use gguf_checkpoint::Checkpoint;
use gguf_testkit::{Draw, mutants, mutate};
use tempfile::TempDir;

const FILE: &str = "pytorch_model.bin";

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/torch").join(name)
}

fn folder() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("config.json"), "{}").unwrap();
    dir
}

/// Reads all of what a mutant says it has, within reason.
fn read_some(checkpoint: &Checkpoint) {
    for tensor in &checkpoint.tensors {
        let (rows, width) = (tensor.n_rows().min(3), tensor.row_elems().min(9000));
        let mut part = vec![0.0; (rows * width) as usize];
        let _ = checkpoint.read_columns(tensor, 0..rows, 0..width, &mut part);
        checkpoint.advise_rows(tensor, tensor.row_elems(), 0..rows, gguf_container::Advice::DoneWith);
    }
}

/// Peak memory of this process in MiB, where the system says it.
fn peak_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

#[test]
fn mutated_archives_are_read_or_refused() {
    let names =
        ["types", "types-legacy", "parameters", "module-legacy", "old-archive", "under-model", "views"];
    let good: Vec<Vec<u8>> =
        names.iter().map(|name| fs::read(golden("forms").join(format!("{name}.bin"))).unwrap()).collect();
    let dir = folder();
    let before = peak_mib();
    mutants(2000, |draw: &mut Draw| {
        let mut bytes = draw.of(&good).clone();
        mutate(&mut bytes, draw);
        // Half of them near the end, where an archive has its directory.
        if draw.below(2) == 0 {
            let at = bytes.len() - draw.below(bytes.len().min(600) + 1);
            let mut end = bytes.split_off(at);
            mutate(&mut end, draw);
            bytes.extend(end);
        }
        fs::write(dir.path().join(FILE), &bytes).unwrap();
        gguf_checkpoint::open(dir.path()).inspect(read_some).is_ok()
    });
    assert!(peak_mib() < before + 64, "{before} MiB before, {} after", peak_mib());
}

#[test]
fn mutated_pickles_are_read_or_refused() {
    let names = ["types-legacy", "parameters-legacy", "module-legacy", "views-legacy"];
    // The fourth pickle of a legacy file is the state dict: everything before and after it stays.
    let good: Vec<[Vec<u8>; 3]> = names
        .iter()
        .map(|name| {
            let bytes = fs::read(golden("forms").join(format!("{name}.bin"))).unwrap();
            let begin = bytes.windows(3).rposition(|at| at == [b'.', 0x80, 2]).unwrap();
            let begin = bytes[..begin].windows(3).rposition(|at| at == [b'.', 0x80, 2]).unwrap() + 1;
            let end = bytes.windows(4).rposition(|at| at == [b'.', 0x80, 2, b']']).unwrap() + 1;
            [bytes[..begin].to_vec(), bytes[begin..end].to_vec(), bytes[end..].to_vec()]
        })
        .collect();
    let dir = folder();
    let before = peak_mib();
    mutants(2000, |draw: &mut Draw| {
        let [before, pickle, after] = draw.of(&good);
        let mut pickle = pickle.clone();
        mutate(&mut pickle, draw);
        fs::write(dir.path().join(FILE), [before, &pickle, after].map(Vec::as_slice).concat()).unwrap();
        gguf_checkpoint::open(dir.path()).inspect(read_some).is_ok()
    });
    assert!(peak_mib() < before + 64, "{before} MiB before, {} after", peak_mib());
}
