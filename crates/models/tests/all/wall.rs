//! The wall between conversion and runtime: a family's files about one import nothing of the other, so that each checks
//! the other.

use std::fs;
use std::path::Path;

const FAMILIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/families");

#[test]
fn files_about_conversion_and_about_runs_are_apart() {
    let (mut n_conversion, mut n_runtime) = (0, 0);
    for path in gguf_testkit::rust_files(Path::new(FAMILIES)) {
        let place = path.strip_prefix(FAMILIES).unwrap().with_extension("");
        let Some(part) = place.iter().nth(1).and_then(|part| part.to_str()) else { continue };
        let text = fs::read_to_string(&path).unwrap();
        // Other modules of this crate may be named if they are on the same side.
        let forbidden: &[&str] = match part {
            "convert" | "projector" | "foreign" | "form" => {
                n_conversion += 1;
                &["gguf_runtime", "::graph::", "::vision::", "::audio::"]
            }
            "graph" | "vision" | "audio" => {
                n_runtime += 1;
                &["gguf_layout", "gguf_tokenizer", "crate::prelude", "::convert::", "::projector::"]
            }
            "mod" => continue,
            other => panic!("{}: a folder has no part `{other}`", path.display()),
        };
        for name in forbidden {
            assert!(!text.contains(name), "{} names `{name}`", path.display());
        }
    }
    assert!(n_conversion > 100 && n_runtime > 40, "{n_conversion} and {n_runtime} files");
}
