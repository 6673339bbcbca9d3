//! File names made of metadata, which is untrusted.

use std::fs;

use crate::common::{Sandbox, succeed};

#[test]
fn hostile_metadata_stays_in_current_folder() {
    let sandbox = Sandbox::with_converted("llama", "in.gguf", "bf16");
    for (n, (key, value)) in [
        ("general.basename", r"..\..\..\evil"),
        ("general.basename", r"C:\evil"),
        ("general.finetune", "/../../outside"),
        ("general.version", "../../x"),
        ("general.size_label", "a/../../../b"),
        ("general.name", "con\nnew"),
        ("general.name", &"x".repeat(400)),
    ]
    .into_iter()
    .enumerate()
    {
        let folder = format!("case-{n}");
        // Where a slash in the name would lead is there, so that only the name keeps the file in its folder.
        fs::create_dir_all(sandbox.path(&folder).join("llama-")).unwrap();
        let file = format!("{folder}/in.gguf");
        fs::copy(sandbox.path("in.gguf"), sandbox.path(&file)).unwrap();
        succeed(sandbox.inspect(&["set", &file, &format!("{key}=str:{value}"), "-q"]));
        if key == "general.name" {
            sandbox.inspect(&["unset", &file, "general.basename", "-q"]);
        }
        let out = format!("{folder}/");
        succeed(sandbox.quantize(&[&file, &out, "q8_0", "-q"]));
        let names: Vec<String> =
            sandbox.listing(&folder).into_keys().filter(|name| name != "in.gguf").collect();
        let [name] = names.as_slice() else { panic!("{key}={value:?}: {names:?}") };
        let is_forbidden = |c: char| c.is_control() || r#"/\:*?"<>|"#.contains(c);
        assert!(!name.contains(is_forbidden) && name.len() < 240, "{key}={value:?}: {name:?}");
        assert!(name.ends_with("-Q8_0.gguf"), "{name}");
    }
}
