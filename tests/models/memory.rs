//! Memory of headers as wide as real models, against what libllama says it allocates for the same files.

use std::{fs, path::PathBuf};

use gguf_container::Model;
use gguf_runtime::memory::{Demand, Use};
use gguf_types::DType;
use serde_json::Value;

/// A header followed by a hole, as long as the file was.
fn open(name: &str, file_bytes: u64) -> (tempfile::TempDir, Model) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    fs::copy(golden().join(format!("{name}.head")), &path).unwrap();
    // No block of it is written: files are sparse on every system that the tests run on.
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(file_bytes).unwrap();
    let model = Model::open(&path).unwrap();
    (folder, model)
}

fn golden() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden/memory")
}

const MIB: f64 = 1024.0 * 1024.0;

/// Bytes as libllama prints them.
fn mib(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / MIB)
}

#[test]
fn memory_matches_libllama_allocation() {
    let expected = fs::read_to_string(golden().join("expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&expected).unwrap();
    let mut faults = Vec::new();
    let headers = expected.as_object().unwrap();
    assert!(headers.len() >= 10);
    for (name, of_header) in headers {
        let (_folder, model) = open(name, of_header["file_bytes"].as_u64().unwrap());
        let demand = Demand::of(&gguf_models::GRAPHS, &model).unwrap();
        for case in of_header["uses"].as_array().unwrap() {
            let number = |key: &str| case[key].as_f64().unwrap();
            let used = Use {
                context: case["context"].as_u64().unwrap(),
                parallel: case["parallel"].as_u64().unwrap(),
                batch: 512,
                kv_type: DType::from_name(case["kv_type"].as_str().unwrap()).unwrap(),
                all_logits: case["all_logits"].as_bool().unwrap(),
            };
            let bytes = demand.bytes(&used).unwrap();
            for (what, ours) in [("kv", bytes.kv), ("states", bytes.states)] {
                if mib(ours) != format!("{:.2}", number(what)) {
                    faults.push(format!("{name} {used:?}: {what} {} MiB, not {}", mib(ours), number(what)));
                }
            }
            // An estimate: the graph by itself to a tenth, and all that is allocated to 1 %.
            let weights = bytes.weights as f64 / MIB;
            let (compute, kept) = (number("compute") + number("output"), number("kv") + number("states"));
            let of_graph = bytes.compute as f64 / MIB / compute - 1.0;
            let of_all = bytes.total() as f64 / MIB / (weights + compute + kept) - 1.0;
            println!("{name:15} {used:?}: graph {:+.1} %, all {:+.1} %", of_graph * 100.0, of_all * 100.0);
            // With several sequences some graphs copy their states, which is not counted.
            let bound = if used.parallel > 1 { 0.16 } else { 0.10 };
            if of_graph.abs() > bound || of_all.abs() > 0.01 {
                faults.push(format!("{name} {used:?}: graph {of_graph:+.3}, all {of_all:+.3}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
