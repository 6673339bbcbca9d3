//! `gguf-convert` on checkpoints that other libraries quantized, as they save them: the file is the one that the reference
//! makes of the same checkpoint after its library has decoded it.

use std::fs;

use crate::common::{Sandbox, copy_folder, golden, sha256, silent};

#[test]
fn dialects_match_reference_of_decoded_weights() {
    let mut names = Vec::new();
    for entry in fs::read_dir(golden("dialects")).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let expected = fs::read_to_string(folder.join("expected.txt")).unwrap();
        let fact = |key: &str| expected.lines().find_map(|line| line.strip_prefix("* ")?.strip_prefix(key));
        let Some(digest) = fact("gguf ") else { continue };
        let (tokenizer, pre) = fact("tokenizer ")
            .map_or(("spm-384", None), |both| both.split_once(' ').map(|(a, b)| (a, Some(b))).unwrap());
        let sandbox = Sandbox::new();
        copy_folder(&golden("arch-tokenizers").join(tokenizer), &sandbox.path(&name));
        copy_folder(&folder, &sandbox.path(&name));
        let mut args = vec![name.as_str(), "out.gguf", "--type", "f32", "--quiet"];
        args.extend(pre.iter().flat_map(|pre| ["--pre", pre]));
        let ran = sandbox.convert(&args);
        assert_eq!(ran, silent(), "{name}");
        assert_eq!(sha256(&sandbox.read("out.gguf")), digest, "{name}");
        names.push(name);
    }
    names.sort();
    assert_eq!(
        names,
        [
            "bnb-llama",
            "hqq-llama",
            "mlx-gpt-oss",
            "mlx-llama",
            "mlx-mxfp4-llama",
            "mlx-nvfp4-experts",
            "mlx-nvfp4-llama",
            "torchao-llama",
            "torchao-nvfp4-llama"
        ]
    );
}
