//! Checkpoints of `golden/source/` compared with gguf-py's listings.

use std::{fs, path::PathBuf};

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../golden/source").join(name)
}

/// `name dtype [shape] file offset bytes sha256-of-f32`, one line per tensor.
fn listing(checkpoint: &gguf_checkpoint::Checkpoint) -> String {
    let mut lines = String::new();
    for tensor in &checkpoint.tensors {
        let view = checkpoint.view(tensor).expect("a mapped file");
        let mut values = vec![0.0; (view.n_rows() * view.row_elems()) as usize];
        gguf_checkpoint::read_rows(&view, 0, view.n_rows(), &mut values)
            .expect("a golden tensor is readable");
        let hash = gguf_testkit::sha256(&values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>());
        let shape: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
        lines += &format!(
            "{} {} [{}] {} {} {} {hash}\n",
            tensor.name,
            tensor.dtype,
            shape.join(","),
            checkpoint.parts[tensor.part].file,
            tensor.begin,
            tensor.n_bytes(),
        );
    }
    lines
}

#[test]
fn listings_match_reference() {
    for name in ["mixed", "sharded"] {
        let checkpoint = gguf_checkpoint::open(&golden(name)).unwrap();
        let expected = fs::read_to_string(golden(name).join("listing.txt")).unwrap();
        assert_eq!(listing(&checkpoint), expected, "{name}");
        assert_eq!(checkpoint.folder_name, name);
        assert_eq!(checkpoint.format, "safetensors");
        assert_eq!(checkpoint.notes, [""; 0]);
    }
}

#[test]
fn small_files_of_a_checkpoint_are_read() {
    let checkpoint = gguf_checkpoint::open(&golden("sharded")).unwrap();
    assert_eq!(checkpoint.config["time_step_limit"][1]["__float__"], "Infinity");
    assert_eq!(checkpoint.generation_config.as_ref().unwrap()["eos_token_id"], 2);
    assert_eq!(checkpoint.card.as_ref().unwrap()["license"], "mit");
    let names: Vec<&str> = checkpoint.files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["README.md", "additional_chat_templates/rag.jinja", "chat_template.jinja"]);
    assert_eq!(checkpoint.file("chat_template.jinja"), Some(&b"{{ messages }}"[..]));
    assert_eq!(checkpoint.file("tokenizer.json"), None);
}

#[test]
fn advice_changes_no_bytes() {
    let checkpoint = gguf_checkpoint::open(&golden("mixed")).unwrap();
    for tensor in &checkpoint.tensors {
        let before = checkpoint.view(tensor).unwrap().bytes.to_vec();
        let part = checkpoint.part_of(tensor);
        part.advise(tensor, 0..u64::MAX, gguf_container::Advice::DoneWith);
        part.advise(tensor, 1..2, gguf_container::Advice::WillNeed);
        assert_eq!(checkpoint.view(tensor).unwrap().bytes, before);
    }
    let cube = checkpoint.tensor("cube").unwrap();
    assert_eq!(cube.shape().unwrap().dims(), [4, 3, 2]);
    assert!(checkpoint.tensor("none").is_none());
}
