//! `gguf-convert` on checkpoints that other libraries quantized, as they save them: the file is the one that the reference
//! makes of the same checkpoint after its library has decoded it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::fs;

use common::{Sandbox, copy_folder, golden, sha256, silent};

#[test]
fn whole_checkpoints_are_the_references_of_what_they_decode_to() {
    let mut names = Vec::new();
    for entry in fs::read_dir(golden("dialects")).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let expected = fs::read_to_string(folder.join("expected.txt")).unwrap();
        let Some(digest) = expected.lines().find_map(|line| line.strip_prefix("* gguf ")) else { continue };
        let sandbox = Sandbox::new();
        copy_folder(&golden("arch-tokenizers/spm-384"), &sandbox.path(&name));
        copy_folder(&folder, &sandbox.path(&name));
        let ran = sandbox.convert(&[&name, "out.gguf", "--type", "f32", "--quiet"]);
        assert_eq!(ran, silent(), "{name}");
        assert_eq!(sha256(&fs::read(sandbox.path("out.gguf")).unwrap()), digest, "{name}");
        names.push(name);
    }
    names.sort();
    assert_eq!(names, ["bnb-llama", "hqq-llama", "mlx-llama", "torchao-llama"]);
}
